"""The rows of a large run, kept so that its page opens at once the next time; see `derived_files`."""

import io
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from judge_eval.installed import own_version
from judge_eval.pages import derived_files
from judge_eval.pages.rows import Table
from judge_eval.record import uncollected
from judge_eval.runs.columns.verdict_table import VerdictTable
from judge_eval.runs.folder.journal import ResultsFile
from judge_eval.runs.folder.labels import Labelled
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.views.data import JSON

LARGE: Final = 32 * 2**20
"""Bytes of results from which rows are kept."""
_FORMAT = 4
_ARRAYS = tuple(field.name for field in fields(VerdictTable) if field.name not in ("metrics", "names"))


def is_large(run: Run) -> bool:
    """Tell whether the rows of a run are kept: it has ended, and its results are large."""
    results, digest = run.results, run.manifest.results_digest
    return isinstance(results, ResultsFile) and digest is not None and digest.bytes >= LARGE


def has_rows(run: Run) -> bool:
    """Tell whether rows are kept that were made from the run as it is now."""
    return derived_files.is_of(*_place(run))


def keep(table: Table, page: JSON) -> None:
    """Keep the rows and the page of a run; what cannot be written is made again the next time."""
    run, rows, columns = table.run, table.rows, table.columns
    assert isinstance(run.results, ResultsFile)
    asked = [[row.id, row.query] for row in rows]
    texts = {"rows": asked, "metrics": columns.metrics, "names": columns.names, "page": page}
    arrays: dict[str, Any] = {name: getattr(columns, name) for name in _ARRAYS}
    arrays["texts"] = np.frombuffer(json.dumps(texts).encode(), np.uint8)
    arrays["places"] = run.results.places
    with suppress(OSError):
        if not run.results.unchanged():
            return
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        derived_files.keep_derived(*_place(run), packed.getbuffer())


def kept(run: Run) -> tuple[Table, JSON] | None:
    """Return the rows and the page that are kept of a run; None if there are none that fit."""
    assert isinstance(run.results, ResultsFile)
    with suppress(OSError, ValueError, KeyError, TypeError, IndexError, EOFError):
        origin = _origin(run)
        if (packed := derived_files.read_derived(_place(run)[0], origin)) is None:
            return None
        with np.load(io.BytesIO(packed), allow_pickle=False) as arrays, uncollected():
            table, page = _restored(run, arrays)
            digest = run.manifest.results_digest
            placed = digest is not None and run.results.placed(arrays["places"], digest.sha256)
            return (table, page) if placed and _origin(run) == origin else None
    return None


def labelled(table: Table, run: Run) -> Table:
    """Return the rows of a run with its later labels, without reading the results."""
    if not isinstance(run.results, Labelled):
        return table
    columns = table.columns.with_labels(run.results.labels)
    return _table(run, columns, [(row.id, row.query) for row in table.rows])


def _restored(run: Run, arrays: Any) -> tuple[Table, JSON]:
    texts = json.loads(arrays["texts"].tobytes())
    columns = VerdictTable(
        metrics=tuple(texts["metrics"]),
        names=tuple(map(tuple, texts["names"])),
        **{name: arrays[name] for name in _ARRAYS},
    )
    return _table(run, columns, texts["rows"]), texts["page"]


def _table(run: Run, columns: VerdictTable, texts: Iterable[Sequence[str]]) -> Table:
    """Make a table of what is known, without reading the results."""
    table = Table.__new__(Table)
    table.run, table.most, table.watch, table.columns, table.texts = run, None, None, columns, []
    table.scale, table.places = scale_of(run), list(range(len(columns)))
    table.rows = table.rows_of(table.places, ((id_, query) for id_, query in texts))
    return table


def _place(run: Run) -> tuple[Path, JSON]:
    assert run.folder is not None
    return derived_files.derived_place("rows", str(run.folder.resolve())), _origin(run)


def _origin(run: Run) -> JSON:
    """Describe what rows are made from: the files as they are, and the program."""
    assert isinstance(run.results, ResultsFile)
    manifest, stamp = derived_files.whole_manifest_digest(run.manifest), list(run.results.stamp())
    return {"v": _FORMAT, "program": own_version(), "results": stamp, "manifest": manifest}
