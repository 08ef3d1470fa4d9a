"""A run, or two side by side, as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from judge_eval.backends.storing.store import Store
from judge_eval.errors import ConfigError, StoreError
from judge_eval.files import write_atomically
from judge_eval.pages.card import card_page
from judge_eval.pages.comparepage import SideBySide, compare_page
from judge_eval.pages.matrixpage import SeveralRuns, matrix_page
from judge_eval.pages.overview import Table
from judge_eval.pages.recall import Memory
from judge_eval.pages.rows import JSON
from judge_eval.pages.runpage import run_page
from judge_eval.runs.folder.labels import with_labels
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import blocks as cut

BLOCK = 25
"""Traces that are packed together, and unpacked together when one of them is looked at."""

MOST = 10_000
"""The most traces that a report holds in full."""

STYLES = ("pages.css", "compare.css", "runs.css", "claims.css")
"""The pages' styles; a later file has the last word."""

SCRIPTS = ("dom.js", "draw.js", "strips.js", "clamp.js", "claims.js", "source.js", "traces.js", "card.js",
           "reliability.js", "runtabs.js", "baselines.js", "runpage.js", "comparepage.js", "matrixpage.js",
           "app.js")  # fmt: skip
"""The pages' modules in the order in which one file holds them."""

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const|class|let)", re.MULTILINE)


@cache
def web(name: str) -> str:
    """Read a file of the pages."""
    return (files("judge_eval.pages") / "web" / name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return the pages' modules as one script: their imports left out, their exports plain."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", web(name))) for name in SCRIPTS)


def run_report(
    run: Run,
    baseline: Run | None = None,
    *,
    store: Store | None = None,
    most: int | None = MOST,
) -> str:
    """Make the report of a run.

    Args:
        run: The run, with its later labels where it has a folder.
        baseline: A run to show differences from.
        store: The cache in which the judge's raw replies are looked up; None leaves them out.
        most: The most traces to hold in full; figures are of all. Of a larger run these are the traces
            that lost most against the baseline, or without one those without a value and those with the
            worst scores. None holds all.
    """
    table = Table(with_labels(run), most)
    sides = None if baseline is None else SideBySide(Table(baseline, most), table)
    rows = sides.rows if sides else table.rows
    memory, systems = Memory(run.manifest, store), list[str]()
    results = table.run.results if table.whole else (table.run.results[place] for place in table.places)
    details = (card_page(result, table.scale, table.metrics, memory, systems) for result in results)
    blocks = list(pack_blocks(details))
    if baseline is None or sides is None:
        page = run_page(table)
    else:
        page = run_page(table, baseline.manifest, sides.metrics, sides.told("This run"))
    data = {"page": "run", **page, "rows": [row.data() for row in rows], "systems": systems}
    return document(run.name, data, blocks)


def compare_report(baseline: Run, candidate: Run, *, most: int | None = MOST) -> str:
    """Make the compare page of two runs.

    Args:
        baseline: Run A.
        candidate: Run B.
        most: The most traces to hold; of larger runs these are the changed traces that moved most, and
            figures are of all. None holds all.
    """
    tables = Table(with_labels(baseline), most), Table(with_labels(candidate), most)
    sides = SideBySide(*tables, "moved")
    light = [
        {"p": row.position, "id": row.id, "q": row.query, "c": row.change, "d": row.deltas}
        for row in sides.changed
    ]
    data = {"page": "compare", **compare_page(sides), "changed": light}
    blocks = list(pack_blocks(sides.in_full(sides.changed)))
    return document(f"{baseline.name} against {candidate.name}", data, blocks)


def matrix_report(runs: Sequence[Run], *, most: int | None = MOST) -> str:
    """Make the page of three runs or more side by side.

    Args:
        runs: The runs; others are compared with the first.
        most: The most traces to hold, those in which the runs are furthest apart; figures are of all. None
            holds all.

    Raises:
        ConfigError: They are too many.
    """
    several = SeveralRuns([Table(with_labels(run), most) for run in runs], most)
    blocks = list(pack_blocks(several.in_full(row.place) for row in several.rows))
    data = {**matrix_page(several), "rows": [row.data() for row in several.rows]}
    return document(f"{len(runs)} runs side by side", data, blocks)


def pack_blocks(items: Iterable[JSON]) -> Iterator[str]:
    """Pack JSON values in blocks: deflated (zlib), in base64."""
    for block in cut(items, BLOCK):
        text = json.dumps(block, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        yield base64.b64encode(zlib.compress(text.encode("utf-8", "backslashreplace"), 9)).decode()


def embed(value: Any) -> str:
    """Write a JSON value so that it can stand inside a script element, whatever its texts hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "backslashreplace").decode()


def document(title: str, data: JSON, packed: list[str]) -> str:
    """Put a page together: style, script and data in one file, under a policy that allows nothing else."""
    style, code = "\n".join(map(web, STYLES)), script()
    policy = (
        f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(code)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="data:,">\n<title>{_escape(title)}</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This page draws its data with JavaScript, which is switched off here.</noscript>\n"
        f'<script type="application/json" id="data">{embed(data)}</script>\n'
        f'<script type="application/json" id="blocks">{embed({"size": BLOCK, "blocks": packed})}</script>\n'
        f'<script type="module">{code}</script>\n</body>\n</html>\n'
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _escape(text: str) -> str:
    return escape(text, quote=False).encode("utf-8", "replace").decode()


def save_page(text: str, path: Path) -> None:
    """Write a page's file in one step.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None


def store_at(cache: str | Path | None) -> Store | None:
    """Open a cache to look replies up in; None where there is none, or none that can be read."""
    from judge_eval.backends.stack import open_store
    from judge_eval.backends.storing.databaseurl import is_postgres

    if cache is None or (not is_postgres(cache) and not Path(cache).is_dir()):
        return None
    store = open_store(cache)
    try:
        store.info()
    except StoreError:
        return None
    return store
