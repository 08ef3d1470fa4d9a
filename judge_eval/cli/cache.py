"""`cache`: the verdicts that were paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli import options as o
from judge_eval.cli.errors import verb

app = typer.Typer(help="The replies that were paid for.", no_args_is_help=True)


def _folder(cache: Path | None) -> Path:
    from judge_eval.evaluator import default_cache

    return cache or default_cache()


@app.command("path")
@verb
def path(cache: o.Cache = None) -> None:
    """Print where the cache is."""
    print(_folder(cache))


@app.command("info")
@verb
def info(cache: o.Cache = None) -> None:
    """Tell what the cache holds."""
    from judge_eval.backends.stack import open_store

    folder = _folder(cache)
    if not folder.exists():
        print(f"{folder}: empty (not made yet)")
        return
    store = open_store(folder)
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
    from judge_eval.backends.disk import DiskStore

    folder = _folder(cache)
    if not folder.exists():
        print(f"{folder}: empty (not made yet)")
        return
    if not yes:
        typer.confirm(f"remove every reply from {folder}? They would have to be paid for again", abort=True)
    store = DiskStore(folder)
    try:
        store.clear()
    finally:
        store.close()
    print(f"{folder}: cleared")
