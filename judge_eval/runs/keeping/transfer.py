"""Copying runs to and from a URL; results that are still coming lie there in segments."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from judge_eval.data.reading import error_text, file_system
from judge_eval.errors import JudgeEvalError, RunError
from judge_eval.files import open_plain, read_plain, replacing
from judge_eval.runs.folder.journal import LABELS, MANIFEST, MOST_MANIFEST, check_results, lock_folder, os_errors
from judge_eval.runs.folder.records import RESULTS
from judge_eval.runs.folder.run import load_manifest
from judge_eval.safe_text import public_url

_LOOKS = 4
"""How often results are looked for again whose segments were merged while they were copied."""
_SEGMENT = re.compile(r"results-(\d{9})-[0-9a-f]{8}-(\d+)\.jsonl")


def segment_name(number: int, by: str, size: int) -> str:
    """Return the name of a segment of results: its number, the machine it is from, its bytes."""
    return f"results-{number:09d}-{by[:8]}-{size}.jsonl"


def is_segment(name: str) -> bool:
    """Return whether a file is a segment of results."""
    return _SEGMENT.fullmatch(name) is not None


def segments_in(system: Any, source: str) -> list[str]:
    """List the segments of a run, in the order of their numbers; one that is not whole is left out."""
    sizes = {str(entry["name"]).rpartition("/")[2]: entry["size"] for entry in system.ls(source, detail=True)}
    return sorted(name for name, size in sizes.items() if (m := _SEGMENT.fullmatch(name)) and int(m[2]) == size)


def segment_number(segment: str) -> int:
    """Return the number in the name of a segment."""
    return int(segment.split("-")[1])


def copy_results(system: Any, source: str, target: Path, *, ended: bool) -> None:
    """Copy a run's results into one file, in one step; `FileNotFoundError` if there are none.

    Those of a run that has not ended are `results.jsonl`, if it is there, and then the segments. A line that is there
    twice, in segments that are just merged or were pushed again after a kill, is copied once.
    """
    for look in range(_LOOKS):
        try:
            whole = [RESULTS] if ended or system.exists(f"{source}/{RESULTS}") else []
            names = whole if ended else [*whole, *segments_in(system, source)]
            if not names:
                raise FileNotFoundError(f"{source}/{RESULTS}")
            known = set[bytes]()
            with replacing(target) as out:
                for name in names:
                    with system.open(f"{source}/{name}", "rb") as file:
                        if ended:
                            shutil.copyfileobj(file, out, 1 << 20)
                            continue
                        for line in file:
                            if (digest := hashlib.blake2b(line, digest_size=16).digest()) not in known:
                                known.add(digest)
                                out.write(line)
            return
        except FileNotFoundError:  # segments were merged into a longer one meanwhile; or there is nothing
            if look == _LOOKS - 1:
                raise
            system.invalidate_cache()


def is_ended(folder: Path) -> bool:
    """Return whether the manifest in a folder has digests: then `results.jsonl` is all of the results."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        return bool(json.loads(read_plain(folder / MANIFEST, MOST_MANIFEST)).get("files"))
    return False


FILES = (RESULTS, LABELS, MANIFEST)
"""What there may be of a run, in the order in which it is pushed."""
FROM_THERE = (MANIFEST, *FILES[:-1])
"""The same in the order in which it is copied back: the manifest says whether there are segments."""
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
    with os_errors("cannot be locked", folder):
        lock = lock_folder(folder)
    with lock:
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
                if name == BEAT or is_segment(name):
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
        for part in FROM_THERE:
            try:
                copy_here(system, base.rstrip("/"), temporary, part)
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


def copy_here(system: Any, source: str, folder: Path, name: str) -> None:
    """Copy a file of a run, whose manifest comes first, in one step; `FileNotFoundError` if it is not there."""
    if name == RESULTS:
        copy_results(system, source, folder / name, ended=is_ended(folder))
        return
    with system.open(f"{source}/{name}", "rb") as file, replacing(folder / name) as out:
        shutil.copyfileobj(file, out, 1 << 20)
