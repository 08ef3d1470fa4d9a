"""The secret that lives beside a cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from judge_eval.backends.storing.dbfile import make_folder
from judge_eval.backends.storing.disk import DiskStore
from judge_eval.backends.storing.store import Store
from judge_eval.errors import StoreError
from judge_eval.fences import kept_secret, secret_of_process


def secret_beside(store: Store | None) -> Callable[[], bytes]:
    """Return what tells the secret of a cache's folder; without such a folder that of this process.

    Nothing is read or made before it is called. What it has told it tells again, whatever becomes of the
    folder, so that a run's requests stay alike.
    """
    return partial(_beside, store.folder) if isinstance(store, DiskStore) else secret_of_process


@cache
def _beside(folder: Path) -> bytes:
    try:
        make_folder(folder)
    except (OSError, StoreError):
        return secret_of_process()
    return kept_secret(folder)
