"""Files in the user's cache folder that hold what was derived from runs, so that a page opens at once the next time.

Each is under a digest of its own, holds only for its origin (the very files of the runs, and this version of the
program), and is made again otherwise. It is never in a run's folder, which others may write.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from judge_eval.files import open_plain, replacing
from judge_eval.installed import own_version
from judge_eval.runs.folder.records import Manifest
from judge_eval.runs.folder.run_files import LABELS, MANIFEST, RESULTS
from judge_eval.runs.folder.validation import VALIDATION
from judge_eval.views.data import JSON

MOST: Final = 50
"""The most files of a kind that are kept."""
FROM: Final = 4 * 2**20
"""Bytes of results from which pages of several runs are kept."""
LARGEST_PAGE: Final = 16 * 2**20
"""Bytes that a kept page may have."""


def derived_place(kind: str, *names: str) -> Path:
    """Return where what is derived from these names is kept; `kind` is the file's suffix."""
    base = os.environ.get("XDG_CACHE_HOME")
    name = hashlib.sha256(os.fsencode("\0".join(names))).hexdigest()[:32]
    return (Path(base) if base else Path.home() / ".cache") / "judge_eval_pages" / f"{name}.{kind}"


def is_of(place: Path, origin: JSON) -> bool:
    """Tell whether a file is there that was derived from this origin."""
    with suppress(OSError, ValueError), open_plain(place) as file:
        file.readline(100)
        return bool(json.loads(file.readline(1 << 20)) == origin)
    return False


def read_derived(place: Path, origin: JSON) -> bytes | None:
    """Return what a file of this user holds if it was derived from this origin and is as it was written."""
    with suppress(OSError, ValueError), open_plain(place) as file:
        if os.fstat(file.fileno()).st_uid == os.getuid():
            written, head, body = file.readline(100).strip(), file.readline(1 << 20), file.read()
            digest = hashlib.sha256(head)
            digest.update(body)
            if digest.hexdigest().encode() == written and json.loads(head) == origin:
                return body
    return None


def keep_derived(place: Path, origin: JSON, body: bytes | memoryview) -> None:
    """Keep what was derived from an origin, and remove the oldest files of the kind beyond `MOST`."""
    head = json.dumps(origin).encode() + b"\n"
    digest = hashlib.sha256(head)
    digest.update(body)
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(place) as file:
            file.write(digest.hexdigest().encode() + b"\n" + head)
            file.write(body)
        files = sorted(place.parent.glob(f"*{place.suffix}"), key=lambda each: each.stat().st_mtime, reverse=True)
        for old in files[MOST:]:
            old.unlink(missing_ok=True)


def whole_manifest_digest(manifest: Manifest) -> str:
    """Return the SHA-256 of a manifest."""
    return hashlib.sha256(manifest.model_dump_json().encode()).hexdigest()


def page_of_runs(name: str, runs: Sequence[tuple[Path, Manifest]], make: Callable[[], JSON]) -> JSON:
    """Return a page of runs: the kept one if their files are as they were, else `make` it and keep it if it is large.

    Pages of runs that are judged, or small, are made each time.
    """
    if (origin := _origin(runs)) is None:
        return make()
    place = derived_place("page", name, *(str(folder.resolve()) for folder, _ in runs))
    if (known := read_derived(place, origin)) is not None:
        page: JSON = json.loads(known)
        return page
    page = make()
    body = json.dumps(page).encode()
    if len(body) <= LARGEST_PAGE and _origin(runs) == origin:
        keep_derived(place, origin, body)
    return page


def _origin(runs: Sequence[tuple[Path, Manifest]]) -> JSON | None:
    digests = [manifest.results_digest for _, manifest in runs]
    if None in digests or sum(digest.bytes for digest in digests if digest is not None) < FROM:
        return None
    each = [[whole_manifest_digest(manifest), *map(list, stamps_of(folder))] for folder, manifest in runs]
    return {"program": own_version(), "runs": each}


def stamps_of(folder: Path) -> tuple[tuple[int, ...], ...]:
    """Return what tells whether a file changed of which pages are made, empty for one that is not there.

    They are the manifest and results of a run, its labels, and the table of validated judges beside it.
    """
    return tuple(map(_stamp, (folder / MANIFEST, folder / RESULTS, folder / LABELS, folder.parent / VALIDATION)))


def _stamp(path: Path) -> tuple[int, ...]:
    with suppress(OSError):
        status = path.lstat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return ()
