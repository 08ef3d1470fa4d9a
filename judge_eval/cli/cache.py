"""`cache`: the verdicts that were paid for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import verb

if TYPE_CHECKING:
    from judge_eval.backends.storing.disk import DiskStore
    from judge_eval.backends.storing.postgres import PostgresStore

app = typer.Typer(help="The replies that were paid for.", no_args_is_help=True)


def _open(cache: str | None) -> DiskStore | PostgresStore | None:
    """Open the cache; None (and said so) where its folder was not made yet."""
    from judge_eval.backends.storing.disk import DiskStore
    from judge_eval.backends.storing.postgres import PostgresStore, is_postgres
    from judge_eval.evaluator import default_cache

    place = cache or default_cache()
    if isinstance(place, str) and is_postgres(place):
        return PostgresStore(place)
    if not Path(place).expanduser().exists():
        print(f"{place}: empty (not made yet)")
        return None
    return DiskStore(place)


@app.command("path")
@verb
def path(cache: o.Cache = None) -> None:
    """Print where the cache is."""
    from judge_eval.backends.storing.postgres import PostgresStore, is_postgres
    from judge_eval.evaluator import default_cache

    place = cache or default_cache()
    print(PostgresStore(place).location if isinstance(place, str) and is_postgres(place) else place)


@app.command("init")
@verb
def init(cache: o.Cache = None) -> None:
    """Make the table of a cache in a database; a folder is made by its first use.

    Example:
    judge-eval cache init --cache postgresql://user:password@host:5432/name
    """
    from judge_eval.backends.storing.postgres import PostgresStore, is_postgres
    from judge_eval.evaluator import default_cache

    place = cache or default_cache()
    if not (isinstance(place, str) and is_postgres(place)):
        print(f"{place}: nothing to do, a folder is made by its first use")
        return
    store = PostgresStore(place)
    try:
        store.create()
    finally:
        store.close()
    print(f"{store.location}: ready")


@app.command("info")
@verb
def info(cache: o.Cache = None) -> None:
    """Tell what the cache holds."""
    store = _open(cache)
    if store is None:
        return
    try:
        found = store.info()
    finally:
        store.close()
    note = ", read-only" if found.read_only else ""
    print(f"{found.path}: {found.entries:,} replies, {found.bytes:,} bytes{note}")


@app.command("clear")
@verb
def clear(
    cache: o.Cache = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove every reply from the cache; they would have to be paid for again."""
    store = _open(cache)
    if store is None:
        return
    place = getattr(store, "location", None) or getattr(store, "folder", "")
    if not yes:
        typer.confirm(f"remove every reply from {place}? They would have to be paid for again", abort=True)
    try:
        store.clear()
    finally:
        store.close()
    print(f"{place}: cleared")
