"""`cache`: the verdicts that were paid for."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from judge_eval.cli.exit_codes import VerbGroup
from judge_eval.cli.flags.common import Json, Runs, Yes
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import CachingFlags
from judge_eval.cli.printing.output import give_json, tell
from judge_eval.settings import setting

if TYPE_CHECKING:
    from judge_eval.llm.cache.disk import DiskStore
    from judge_eval.llm.cache.postgres import PostgresStore

Cache: TypeAlias = Annotated[CachingFlags, only("cache")]
app = VerbGroup("The replies that were paid for, stored for reuse.")


def _database(caching: CachingFlags) -> PostgresStore | None:
    """Open the cache in a database; None where it is a folder."""
    from judge_eval.llm.cache.postgres import PostgresStore
    from judge_eval.llm.stack import open_store

    store = open_store(caching.location)
    return store if isinstance(store, PostgresStore) else None


def _open(caching: CachingFlags) -> DiskStore | PostgresStore | None:
    """Open the cache; None (and said so) where its folder was not made yet."""
    from judge_eval.llm.cache.disk import DiskStore

    database = _database(caching)
    if database is None and not Path(caching.location).expanduser().exists():
        tell(f"{caching.location}: empty (not created yet)")
        return None
    return database or DiskStore(caching.location)


@app.verb("path")
def path(caching: Cache) -> None:
    """Print where the cache is.

    Example:
    judge-eval cache path
    """
    database = _database(caching)
    tell(caching.location if database is None else database.location)


@app.verb("init")
def init_table(caching: Cache) -> None:
    """Create the table of a cache in a database; a folder is created on first use.

    Example:
    judge-eval cache init --cache postgresql://user:password@host:5432/name
    """
    store = _database(caching)
    if store is None:
        tell(f"{caching.location}: nothing to do, a folder is created on first use")
        return
    with closing(store):
        store.create()
    tell(f"{store.location}: ready")


@app.verb("info")
def info(caching: Cache, json_: Json = False) -> None:
    """Show what the cache holds.

    Examples:
    judge-eval cache info
    judge-eval cache info --json
    """
    from judge_eval.llm.stack import open_store

    if not json_ and _open(caching) is None:
        return
    with closing(open_store(caching.location)) as store:
        contents = store.info()
    if json_:
        give_json(json.dumps(asdict(contents), indent=2))
        return
    note = ", read-only" if contents.read_only else ""
    tell(f"{contents.path}: {contents.entries:,} replies, {contents.bytes:,} bytes{note}")


RUNS = 20
"""How many of the newest runs are searched for the nearest answer."""


@app.verb("why")
def why(
    trace: Annotated[str, typer.Argument(help="The id of a trace.")],
    runs: Runs,
    caching: Cache,
    chunk: Annotated[str | None, typer.Argument(help="The id of one of its chunks; all of them by default.")] = None,
    run: str = setting("latest", "The run that asked: its id, label:NAME or latest."),
    json_: Json = False,
) -> None:
    """Say why a chunk was asked about again: which part of the key differs from the nearest stored answer.

    The other runs in the folder tell what was asked before; no call is made.

    Examples:
    judge-eval cache why q1
    judge-eval cache why q1 c3 --run label:main --json
    """
    from itertools import islice

    from judge_eval.eval_run import EvalRun
    from judge_eval.pages.report import store_at
    from judge_eval.runs.judging.nearest import nearest_questions
    from judge_eval.runs.judging.recall import Memory
    from judge_eval.runs.keeping.lookup import list_runs
    from judge_eval.views.key_differences import difference_sentence, nearest_data, nearest_sentence

    own, store = runs.load(run), store_at(caching.location)
    try:
        others = (
            EvalRun.load(folder) for folder, m in list_runs(runs.out) if m.id != own.id and not m.imported and m.files
        )
        questions = nearest_questions(own, trace, list(islice(others, RUNS)), Memory(own.manifest, store), chunk)
    finally:
        if store is not None:
            store.close()
    if json_:
        give_json(json.dumps([nearest_data(each) for each in questions], indent=2, ensure_ascii=False))
        return
    for each in questions:
        tell(nearest_sentence(each))
        for difference in each.differences:
            tell(f"  {difference_sentence(difference)}")


@app.verb("clear")
def clear(caching: Cache, yes: Yes = False) -> None:
    """Remove every reply from the cache; asking again costs money.

    Example:
    judge-eval cache clear --yes
    """
    store = _open(caching)
    if store is None:
        return
    place = getattr(store, "location", None) or getattr(store, "folder", "")
    if not yes:
        typer.confirm(f"remove every reply from {place}? Asking again costs money", abort=True)
    with closing(store):
        store.clear()
    tell(f"{place}: cleared")
