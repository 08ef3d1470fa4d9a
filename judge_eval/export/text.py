"""Runs as JSON, JSON Lines, CSV or Markdown."""

import errno
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from pydantic import JsonValue

from judge_eval.data.files.jsonl import trace_line
from judge_eval.errors import ConfigError
from judge_eval.export.format import Format, stream
from judge_eval.export.tables import VERDICT_TYPES, result_rows
from judge_eval.files import csv_text, writing_named
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.slices import run_slices
from judge_eval.safe_text import safe_cell
from judge_eval.views.markdown import markdown_of
from judge_eval.views.run import summary_view

_LEFT_OUT = ("grade_probabilities", "retriever_score", "title", "text")
_COLUMNS = [name for name in VERDICT_TYPES if name not in _LEFT_OUT]
VERDICT_COLUMNS = (*_COLUMNS[:3], "kind", *_COLUMNS[3:], "query")
"""The columns of the CSV before the metrics."""


def json_head(run: Run) -> dict[str, JsonValue]:
    """Return the manifest, with the figures by slice if the run was asked for them."""
    head: dict[str, JsonValue] = run.manifest.model_dump(mode="json")
    if run.manifest.intervals.by:
        head["slices"] = [figure.model_dump(mode="json") for figure in run_slices(run)]
    return head


def json_parts(run: Run) -> Iterator[str]:
    """Yield the manifest and all results as one JSON document, a part for each result."""

    def written(value: object) -> str:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)

    whole = json_head(run)
    whole.pop("results", None)  # their digest
    head = written({**whole, "results": []})
    yield head.removesuffix("]\n}")
    begun = False
    for result in run.results:
        yield (",\n    " if begun else "\n    ") + written(result.model_dump(mode="json")).replace("\n", "\n    ")
        begun = True
    yield "\n  ]\n}\n" if begun else "]\n}\n"


def as_json(run: Run) -> str:
    """Write `json_parts` as one text."""
    return "".join(json_parts(run))


def csv_lines(run: Run, *, safe_cells: bool = False) -> Iterator[str]:
    """Yield one row a verdict: where it stands, all that it says, label, question, and the trace's scores."""
    columns = [*VERDICT_COLUMNS, *run.manifest.metrics]
    yield csv_text([columns])
    for result in run.results:
        rows: list[list[object]] = []
        for outcome, row in zip(result.outcomes, result_rows(result), strict=True):
            row |= {"reason": outcome.explanation}  # a cell cannot tell null from an empty text
            row |= {"kind": "no_verdict" if row["grade"] is None else "verdict", "query": result.trace.query}
            row |= result.scores
            rows.append(["" if row.get(name) is None else row[name] for name in columns])
        yield csv_text([map(safe_cell, row) for row in rows] if safe_cells else rows)


def labelled_lines(run: Run) -> Iterator[str]:
    """Yield the traces as they were read, a line each, with the verdicts beside the chunks."""
    # A chunk's `metadata.judge_eval` holds the outcome, that of the trace the scores and the claims; a chunk's `label`
    # stays what people said. The file can be judged again as it is: outcomes are never shown to a judge.
    for result in run.results:
        chunks = []
        for chunk, outcome in zip(result.trace.chunks, result.outcomes, strict=True):
            note = {"judge_eval": outcome.model_dump(exclude={"chunk_id"})}
            chunks.append(chunk.model_copy(update={"metadata": chunk.metadata | note}))
        notes: dict[str, JsonValue] = {"scores": dict(result.scores), "run": run.id}
        if result.claims is not None:
            notes["claims"] = result.claims.model_dump(mode="json")
        update = {"chunks": tuple(chunks), "metadata": {**result.trace.metadata, "judge_eval": notes}}
        yield trace_line(result.trace.model_copy(update=update)).decode()


def as_markdown(run: Run) -> str:
    """Write the summary as Markdown: what was judged, the metrics, all remarks, the claims missed most."""
    return markdown_of(summary_view(run))


SUFFIXES = (".json", ".csv", ".md")
"""Those of the files that commands write a run to."""


def check_suffix(path: Path, known: Collection[str] = SUFFIXES) -> None:
    """Check that a file's suffix is one of those that name a format."""
    if path.suffix.lower() not in known:
        raise ConfigError(f"cannot write {path}: the suffix selects the format; use {', '.join(known)}")


def prepare(paths: Collection[Path], known: Collection[str] = SUFFIXES) -> None:
    """Check, before the work begins, that files can be written: their suffixes, which must differ, and their folders.

    Folders that do not exist are created.
    """
    seen: set[str] = set()
    for path in paths:
        check_suffix(path, known)
        suffix = path.suffix.lower()
        if suffix in seen:
            raise ConfigError(f"two files end in {suffix}; name one file of each format")
        seen.add(suffix)
    for path in paths:
        with writing_named(path):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):
                pass


def write(run: Run, path: Path) -> None:
    """Write a run to a file, in the format its suffix names."""
    check_suffix(path)
    with writing_named(path):
        next(form for form in EXPORTS if path.suffix.lower() in form.suffixes).write(run, path)


def write_text(path: Path, text: str | Iterable[str]) -> None:
    """Write a text, or its parts one by one, to a file that takes its place in one step."""
    with writing_named(path):
        stream([text] if isinstance(text, str) else text, path)


EXPORTS = (
    Format("jsonl", labelled_lines, (".jsonl",)),
    Format("csv", csv_lines, (".csv",)),
    Format("json", json_parts, (".json",)),
    Format("markdown", lambda run: [as_markdown(run)], (".md",)),
)
