"""Runs in object storage: a run's folder brought there, and back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from judge_eval.data.remote import error_text, file_system
from judge_eval.errors import JudgeEvalError, RunError
from judge_eval.files import open_plain, replacing
from judge_eval.runs.folder.files import LABELS, MANIFEST, RESULTS, TRACES, VERDICTS, locked
from judge_eval.runs.folder.integrity import check_results
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.keeping.pieces import copy_results, is_piece
from judge_eval.urls import public_url

FILES = (RESULTS, LABELS, TRACES, VERDICTS, MANIFEST)
"""What there may be of a run, in the order in which it is copied."""
BEAT = "pushing.json"
"""Stands beside a run while a machine judges it: which one, how often it pushes, how often it has."""


def writing(system: Any, path: str) -> AbstractContextManager[IO[bytes]]:
    """Open a file behind a URL for writing; it is there when it is whole, as in an object store.

    A folder that is mounted, where a file system writes in place, is written beside and renamed.
    """
    whole: AbstractContextManager[IO[bytes]]
    whole = replacing(Path(path)) if getattr(system, "local_file", False) else system.open(path, "wb")
    return whole


@contextmanager
def reaching(url: str, done: str) -> Iterator[None]:
    """Turn whatever a file system raises into a `RunError` that says that a URL cannot be `done`."""
    try:
        yield
    except JudgeEvalError:
        raise
    except Exception as error:  # each file system has errors of its own
        raise RunError(f"{public_url(url)}: cannot be {done}: {error_text(error, url)}") from None


def read_beat(folder: Path, url: str) -> dict[str, Any] | None:
    """Read which machine judges the run that a folder stands for; None where none does.

    Raises:
        RunError: The storage cannot be read.
    """
    system, base = file_system(url)
    with reaching(url, "read"):
        try:
            beat = json.loads(system.cat_file(f"{base.rstrip('/')}/{folder.name}/{BEAT}"))
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
    return beat if isinstance(beat, dict) else {}


def push(folder: Path, url: str) -> str:
    """Copy a run's folder to a place behind a URL, as a folder of the same name.

    The manifest comes last: what was cut short is no run, and is completed by pushing again.

    Args:
        folder: The run's folder; no process may be writing it.
        url: The folder of runs there, such as `s3://bucket/runs`.

    Returns:
        Where the run is now, without credentials.

    Raises:
        ConfigError: Such URLs cannot be opened here.
        RunError: The folder is no run, is being written, was changed, or cannot be copied.
    """
    manifest = load_manifest(folder)
    with locked(folder):
        if manifest.seal is not None:
            check_results(folder / RESULTS, manifest)
        system, base = file_system(url)
        target = f"{base.rstrip('/')}/{folder.name}"
        with reaching(url, "written"):
            system.makedirs(target, exist_ok=True)
            if system.exists(f"{target}/{MANIFEST}"):  # while its files change, no seal stands beside them
                under_way = manifest.model_copy(update={"status": "running", "results": None})
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
    """Copy a run from behind a URL into a folder of runs; it can be resumed, compared and shown there.

    Args:
        url: The run's folder, such as `s3://bucket/runs/20260101-120000-abcdef12`.
        out: The folder of runs here.

    Returns:
        The run's folder.

    Raises:
        ConfigError: Such URLs cannot be opened here.
        RunError: There is no run, it was changed, or one of the same name is here already.
    """
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
        check_results(temporary / RESULTS, load_manifest(temporary))
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
    """Copy a file of a file system of fsspec to this machine, in one step.

    Raises:
        FileNotFoundError: There is no such file.
    """
    with system.open(source, "rb") as file, replacing(target) as out:
        shutil.copyfileobj(file, out, 1 << 20)
