"""Runs as JSON, JSON Lines, CSV or Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from pydantic import JsonValue

from judge_eval.data.writing import trace_line
from judge_eval.errors import ConfigError
from judge_eval.export.tables import result_rows
from judge_eval.files import csv_text, write_atomically
from judge_eval.runs.folder.describing import cascaded, describe, doubts, failures, remarks
from judge_eval.runs.folder.run import Run
from judge_eval.runs.folder.wording import interval, number
from judge_eval.runs.scoring.missedclaims import missed_claims
from judge_eval.shown import markdown, safe_cell, shortened, web_address

MOST_MISSED = 3
"""How many missed claims a summary names."""
VERDICT_COLUMNS = (
    "trace_id",
    "rank",
    "chunk_id",
    "kind",
    "grade",
    "relevant",
    "why",
    "reason",
    "evidence",
    "evidence_found",
    "instruction_in_chunk",
    "confidence",
    "expected_grade",
    "stage",
    "label",
    "query",
)


def as_json(run: Run) -> str:
    """Write the manifest and all results as one JSON document."""
    results = [result.model_dump(mode="json") for result in run.results]
    document = {**run.manifest.model_dump(mode="json"), "results": results}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def linked(text: str, href: str | None) -> str:
    """Write a text as Markdown, linked where the address is one of the web."""
    href = web_address(href)
    return f"[{markdown(text)}](<{href}>)" if href else markdown(text)


def as_csv(run: Run, *, safe_cells: bool = False) -> str:
    """Write one row a verdict: where it stands, all that it says, label, question, and the trace's scores.

    Args:
        run: The run.
        safe_cells: Whether texts that a spreadsheet would compute begin with a `'` (see `safe_cell`).
    """
    columns = [*VERDICT_COLUMNS, *run.manifest.metrics]
    rows: list[list[object]] = [[*columns]]
    for result in run.results:
        for outcome, row in zip(result.outcomes, result_rows(result), strict=True):
            row |= {"reason": outcome.explanation}  # a cell cannot tell null from an empty text
            row |= {"kind": "no_verdict" if row["grade"] is None else "verdict", "query": result.trace.query}
            row |= result.scores
            rows.append(["" if row.get(name) is None else row[name] for name in columns])
    return csv_text([map(safe_cell, row) for row in rows] if safe_cells else rows)


def labelled_lines(run: Run) -> Iterator[str]:
    """Yield the traces as they were read, a line each, with the verdicts beside the chunks.

    A chunk's `metadata.judge_eval` holds the outcome, that of the trace the scores and the claims; a chunk's
    `label` stays what people said. The file can be judged again as it is: outcomes are never shown to a
    judge.
    """
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
    """Write the summary as Markdown: what was judged, the metrics, what failed, the claims missed most."""
    m = run.manifest
    lines = [f"## judge_eval: {linked(m.name, m.href)}", ""]
    lines += [
        markdown(describe(run.manifest)),
        "",
        "| metric | mean | 95% interval | n | failed |",
        "|---|---|---|---|---|",
    ]
    for name, a in m.aggregates.items():
        lines.append(
            f"| {markdown(name)} | {number(a.mean)} | {interval(a.interval)} | {a.n} | {a.n_failed or ''} |"
        )
    if m.tally.failed_verdicts:
        lines += ["", f"**{markdown(failures(run.manifest.tally))}**"]
    for doubt in doubts(run.manifest.tally):
        lines += ["", markdown(doubt)]
    for remark in (*remarks(m), *cascaded(m)):
        lines += ["", markdown(remark)]
    lines += _claims(run)
    return "\n".join(lines) + "\n"


def _claims(run: Run) -> list[str]:
    """Say what is covered of the claims, and which are missed most; nothing where none were judged by."""
    told = missed_claims(run.results)
    if told is None:
        return []
    lines = ["", f"**{markdown(told.sentence)}**"]
    if told.missed:
        lines += [
            "",
            f"Missed most, of {told.distinct:,} claim{'s' if told.distinct > 1 else ''} missed:",
            "",
        ]
    for one in told.missed[:MOST_MISSED]:
        kind = " (vital)" if one.vital else ""
        said = f"**{markdown(shortened(one.text, 200))}**{kind}: {markdown(one.told)}"
        lines.append(f"- {said}; {markdown(one.query)}")
    return lines


WRITERS: dict[str, Callable[[Run], str]] = {".json": as_json, ".csv": as_csv, ".md": as_markdown}


def check_suffix(path: Path, known: Collection[str] = tuple(WRITERS)) -> None:
    """See that a file can be written under this name.

    Args:
        path: The file.
        known: The suffixes that name a format.

    Raises:
        ConfigError: The suffix is none of them.
    """
    if path.suffix.lower() not in known:
        raise ConfigError(f"cannot write {path}: the suffix says the format; use {', '.join(known)}")


def write(run: Run, path: Path) -> None:
    """Write a run to a file, in the format its suffix names.

    Raises:
        ConfigError: The suffix is none of .json, .csv, .md, or the file cannot be written.
    """
    check_suffix(path)
    write_text(path, WRITERS[path.suffix.lower()](run))


def write_text(path: Path, text: str) -> None:
    """Write a file in one step.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        write_atomically(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None
