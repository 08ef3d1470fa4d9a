"""What the plugin writes: why an assertion failed, and the table at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judge_eval.runs.folder.describing import failures
from judge_eval.runs.folder.signs import strip
from judge_eval.runs.folder.wording import number, word
from judge_eval.runs.scoring.aggregate import less_is_better, reaches
from judge_eval.shown import logged, one_line

if TYPE_CHECKING:
    from judge_eval.pytest_plugin.bench import Bench
    from judge_eval.runs.folder.records import TraceResult
    from judge_eval.runs.folder.run import Run

SHOWN = 3
"""How many traces a message shows, the worst ones."""


def failure_message(run: Run, wanted: Mapping[str, float], bench: Bench | None) -> str:
    """Say which metrics are not good enough, and show the verdicts that made them so.

    Args:
        run: What was judged, with the metrics asked for.
        wanted: The value to reach, by metric.
        bench: Who judged, where that is known.
    """
    lines = []
    for name, least in wanted.items():
        aggregate = run.aggregates[name]
        holds = not aggregate.n_failed and aggregate.mean is not None and reaches(name, aggregate.mean, least)
        most, verb = "at most" if less_is_better(name) else "at least", "holds" if holds else "fails"
        lines.append(f"{one_line(name)} is {number(aggregate.mean)}, wanted {most} {number(least)}: {verb}")
    if run.manifest.tally.failed_verdicts:
        lines.append(
            f"{one_line(failures(run.manifest.tally))}; a metric over what was not judged does not pass"
        )
    results = sorted(run.results, key=lambda result: _rank(result, wanted))
    for result in results[:SHOWN]:
        lines += ["", *_card(result)]
    if len(results) > SHOWN:
        lines += ["", f"... and {len(results) - SHOWN} more traces"]
    if bench is not None:
        lines += ["", one_line(f"verdicts: {bench.source}")]
        if bench.advice:
            lines.append(one_line(f"record them again: {bench.advice}"))
    return logged("\n".join(lines))


def _rank(result: TraceResult, wanted: Mapping[str, float]) -> float:
    """Order traces by how far they miss, those without a value first."""
    signs = {name: -1.0 if less_is_better(name) else 1.0 for name in wanted}
    gaps = [
        -1.0 if (s := result.scores.get(name)) is None else signs[name] * (s - least)
        for name, least in wanted.items()
    ]
    return min(gaps)


def _card(result: TraceResult) -> Iterator[str]:
    scores = "  ".join(f"{one_line(name)} {number(value)}" for name, value in result.scores.items())
    yield f"trace {one_line(result.trace_id)}  {strip(result.outcomes)}  {scores}"
    yield f"  query: {_brief(result.trace.query)}"
    if result.trace.reference:
        yield f"  reference: {_brief(result.trace.reference)}"
    for rank, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True), 1):
        reason = outcome.explanation
        verdict = f"{word(outcome)}: {_brief(reason)}" if reason else word(outcome)
        yield f"  {rank:>3} {strip([outcome])} {one_line(chunk.id)}  {verdict}"
        yield f"        {_brief(chunk.text)}"


def _brief(text: str) -> str:
    text = one_line(" ".join(text.split()))
    return text if len(text) <= 90 else text[:87] + "..."


def summary_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write the table at the end of a run, one line an assertion, in the order of the tests' names."""
    shown: list[tuple[str, ...]] = [("test", "metric", "score", "wanted", "verdicts", "failed", "")]
    shown += [
        (
            one_line(str(row["test"])),
            one_line(str(row["metric"])),
            number(row["score"]),
            f"{'<=' if row['less'] else '>='} {number(row['wanted'])}",
            str(row["verdicts"]),
            str(row["failed"] or ""),
            "" if row["ok"] else "FAILED",
        )
        for row in sorted(rows, key=lambda row: str(row["test"]))
    ]
    widths = [max(len(line[place]) for line in shown) for place in range(len(shown[0]))]
    return [
        logged("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        for line in shown
    ]
