"""Copying runs to and from a URL, their results in pieces."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from judge_eval.data.remote import error_text, file_system
from judge_eval.errors import JudgeEvalError, RunError
from judge_eval.files import open_plain, replacing
from judge_eval.runs.folder.integrity import check_results
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.folder.run_files import LABELS, MANIFEST, RESULTS, TRACES, VERDICTS, byte_blocks, locked
from judge_eval.safe_text import public_url

NO_BASE = "0" * 16
"""The digest in the names of pieces before which there is no file."""
_LOOKS = 4
"""How often results are looked for again whose pieces were merged while they were copied."""
_NAME = re.compile(r"results-([0-9a-f]{16})-(\d{15})-(\d{15})\.jsonl")


class Pieced(NamedTuple):
    """What was pushed of a run's results, in pieces."""

    base: str
    """16 hexadecimal digits of the SHA-256 of the file before them, or `NO_BASE`."""
    size: int
    """Bytes of file and pieces together."""
    digest: str
    """The SHA-256 of those bytes, in hexadecimal digits."""


def piece_name(base: str, start: int, end: int) -> str:
    """Return the name of the piece from `start` to `end`, in bytes of the whole file."""
    return f"results-{base}-{start:015d}-{end:015d}.jsonl"


def is_piece(name: str) -> bool:
    """Return whether a file is a piece of results."""
    return _NAME.fullmatch(name) is not None


def copy_results(system: Any, source: str, target: Path) -> Pieced:
    """Copy a run's results and their pieces from a file system of fsspec into one file, in one step."""
    for _ in range(_LOOKS):
        try:
            return _copied(system, source, target)
        except FileNotFoundError:  # a piece was merged into a longer one meanwhile; or there is nothing
            system.invalidate_cache()
    return _copied(system, source, target)


def _copied(system: Any, source: str, target: Path) -> Pieced:
    sizes = {str(entry["name"]).rpartition("/")[2]: entry["size"] for entry in system.ls(source, detail=True)}
    names = [name for name in sizes if is_piece(name)]
    if RESULTS not in sizes and not names:
        raise FileNotFoundError(f"{source}/{RESULTS}")
    sum_, at, base = hashlib.sha256(), 0, NO_BASE
    with replacing(target) as out:

        def append(name: str) -> None:
            with system.open(f"{source}/{name}", "rb") as file:
                for block in byte_blocks(file):
                    sum_.update(block)
                    out.write(block)

        if RESULTS in sizes:
            append(RESULTS)
            at, base = out.tell(), sum_.hexdigest()[:16]
        while follows := _longest(names, sizes, base, at):
            append(follows)
            at = out.tell()
    return Pieced(base, at, sum_.hexdigest())


def _longest(names: list[str], sizes: dict[str, int], base: str, at: int) -> str | None:
    """Return the longest piece that begins at an offset; an incomplete one is ignored."""
    complete = [
        (int(match[3]), match[0])
        for match in map(_NAME.fullmatch, names)
        if match and match[1] == base and int(match[2]) == at
        if sizes[match[0]] == int(match[3]) - at > 0
    ]
    return max(complete)[1] if complete else None


FILES = (RESULTS, LABELS, TRACES, VERDICTS, MANIFEST)
"""What there may be of a run, in the order in which it is copied."""
BEAT = "pushing.json"
"""Stands beside a run while a machine judges it: which one, how often it pushes, how often it has."""


def writing(system: Any, path: str) -> AbstractContextManager[IO[bytes]]:
    """Open a file of a file system for writing; it appears when it is complete, as in an object store."""
    if getattr(system, "local_file", False):
        return replacing(Path(path))
    file: AbstractContextManager[IO[bytes]] = system.open(path, "wb")
    return file


def storage_at(url: str, name: str) -> tuple[Any, str]:
    """Return the file system behind the URL of a folder of runs, and the path of a run in it."""
    system, base = file_system(url)
    system.invalidate_cache()
    return system, f"{base.rstrip('/')}/{name}"


BUCKETS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "cos"})
"""Protocols of object stores: they have no folders, and making one would create the bucket."""


def has_buckets(system: Any) -> bool:
    """Tell whether a file system of fsspec is an object store."""
    protocol = system.protocol
    return bool(BUCKETS & ({protocol} if isinstance(protocol, str) else set(protocol)))


def check_bucket(system: Any, path: str, url: str) -> None:
    """Check that the bucket of a path exists; what cannot be asked is left to the writing."""
    bucket = path.lstrip("/").partition("/")[0]
    if not has_buckets(system):
        return
    try:
        system.info(bucket)
    except FileNotFoundError:
        raise RunError(f"{public_url(url)}: no such bucket: {bucket!r}; create it, or correct the name") from None
    except Exception:  # who may write below a prefix may not be allowed to look at the bucket
        return


def make_remote_folder(system: Any, path: str) -> None:
    """Make a folder where the file system has folders."""
    if not has_buckets(system):
        system.makedirs(path, exist_ok=True)


@contextmanager
def reaching(url: str, done: str) -> Iterator[None]:
    """Turn every error of a file system into a `RunError`: the URL cannot be `done`."""
    try:
        yield
    except JudgeEvalError:
        raise
    except Exception as error:  # each file system has errors of its own
        raise RunError(f"{public_url(url)}: cannot be {done}: {error_text(error, url)}") from None


def read_beat(folder: Path, url: str) -> dict[str, Any] | None:
    """Read which machine is judging the run of a local folder; None if none is."""
    with reaching(url, "read"):
        system, path = storage_at(url, folder.name)
        try:
            beat = json.loads(system.cat_file(f"{path}/{BEAT}"))
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
    return beat if isinstance(beat, dict) else {}


def push(folder: Path, url: str) -> str:
    """Copy a run's folder to the folder of runs behind a URL, and return where it is, without credentials."""
    # The manifest comes last: an interrupted copy is not a run, and pushing again completes it.
    manifest = load_manifest(folder)
    with locked(folder):
        if manifest.files:
            check_results(folder / RESULTS, manifest.results_digest)
        system, target = storage_at(url, folder.name)
        with reaching(url, "written"):
            check_bucket(system, target, url)
            make_remote_folder(system, target)
            if system.exists(f"{target}/{MANIFEST}"):  # while its files change, no digest stands beside them
                under_way = manifest.under_way("running")
                with writing(system, f"{target}/{MANIFEST}") as file:
                    file.write(under_way.model_dump_json(indent=2).encode() + b"\n")
            for name in FILES:
                if os.path.lexists(folder / name):
                    with open_plain(folder / name) as source, writing(system, f"{target}/{name}") as file:
                        shutil.copyfileobj(source, file, 1 << 20)
            # What was pushed while it was judged is in the whole now.
            system.invalidate_cache()
            for path in system.ls(target, detail=False):
                name = str(path).rpartition("/")[2]
                if name == BEAT or is_piece(name):
                    system.rm(f"{target}/{name}")
    return f"{public_url(url).rstrip('/')}/{folder.name}"


def pull(url: str, out: Path) -> Path:
    """Copy a run, such as `s3://bucket/runs/NAME`, into a local folder of runs that has none of its name."""
    system, base = file_system(url.rstrip("/"))
    name = base.rstrip("/").rpartition("/")[2]
    target, temporary = out / name, out / f".{name}.{os.getpid()}.tmp"
    if (target / MANIFEST).exists():
        raise RunError(f"{target}: a run of this name is here already; remove it or name another folder")
    try:
        temporary.mkdir(parents=True)
        for part in FILES:
            try:
                if part == RESULTS:
                    copy_results(system, base.rstrip("/"), temporary / part)
                else:
                    copy_here(system, f"{base.rstrip('/')}/{part}", temporary / part)
            except FileNotFoundError:
                if part in (RESULTS, MANIFEST):
                    raise
        manifest = load_manifest(temporary)
        check_results(temporary / RESULTS, manifest.results_digest, manifest.counted)
        temporary.rename(target)
    except FileNotFoundError:
        raise RunError(f"no run in {public_url(url)}: it has no {MANIFEST} or no {RESULTS}") from None
    except RunError as error:  # the copy is gone: what is wrong is wrong there
        raise RunError(error.message, file=public_url(url)) from None
    except Exception as error:  # each file system has errors of its own
        raise RunError(f"{public_url(url)}: cannot be read: {error_text(error, url)}") from None
    finally:
        with suppress(OSError):
            shutil.rmtree(temporary)
    return target


def copy_here(system: Any, source: str, target: Path) -> None:
    """Copy a file from a file system of fsspec, in one step; `FileNotFoundError` if it is not there."""
    with system.open(source, "rb") as file, replacing(target) as out:
        shutil.copyfileobj(file, out, 1 << 20)
