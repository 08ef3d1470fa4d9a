"""What people read on the terminal: tables of metrics, verdicts with their evidence marked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from judge_eval.quotes import marked
from judge_eval.runs.folder.describing import describe, failures
from judge_eval.runs.folder.signs import sign
from judge_eval.runs.folder.wording import interval, number, printable

if TYPE_CHECKING:
    from judge_eval.runs.folder.records import TraceResult
    from judge_eval.runs.folder.run import Run
    from judge_eval.schema import Chunk, NoVerdict, Verdict


def console() -> Console:
    """Return a console on stdout that adds no markup of its own; wide where nobody watches."""
    width = None if sys.stdout.isatty() else 200
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Sequence[int] = ()
) -> Table:
    """Make a plain table; text is shown as it is, without markup."""
    out = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        out.add_column(
            column, justify="right" if place in right else "left", no_wrap=place in right, overflow="fold"
        )
    for row in rows:
        out.add_row(*(cell if isinstance(cell, Text) else Text(printable(cell)) for cell in row))
    return out


def summary(run: Run) -> None:
    """Print what a run found: the table of metrics, what failed, what it took, where it is."""
    m, out = run.manifest, console()
    out.print(Text(printable(describe(m))))
    out.print()
    failed = any(a.n_failed for a in m.aggregates.values())
    columns = ["metric", "mean", "95% interval", "n"]
    rows = [[name, number(a.mean), interval(a.interval), str(a.n)] for name, a in m.aggregates.items()]
    if failed:
        columns += ["failed", "bounds"]
        for row, a in zip(rows, m.aggregates.values(), strict=True):
            row += [str(a.n_failed), interval(a.bounds)]
    out.print(table(columns, rows, right=(1, 3, 4)))
    out.print()
    if m.tally.failed_verdicts:
        out.print(Text(f"{failures(m.tally)}; `bounds` say where they could lie.", style="bold red"))
    if m.dataset.skipped:
        out.print(Text(f"{m.dataset.skipped} invalid records were skipped.", style="yellow"))
    out.print(took(run))
    if m.tally.dropped:
        out.print(f"the server would not take: {', '.join(m.tally.dropped)}")
    if run.folder is not None:
        out.print(Text(f"run {m.id[:8]} ({m.status}) in {run.folder}"))


def spread(run: Run) -> None:
    """Print each metric's percentiles over traces, and its mean over the traces of each tag."""
    out = console()
    rows = []
    for name, a in run.aggregates.items():
        q = a.quantiles
        marks = [number(q.p20), number(q.p50), number(q.p90)] if q else ["none"] * 3
        clusters = "" if a.clusters is None else str(a.clusters)
        rows.append([name, *marks, a.method or "", clusters])
    out.print()
    out.print(table(["metric", "p20", "p50", "p90", "interval by", "clusters"], rows, right=(1, 2, 3, 5)))
    by_tag = [
        [tag, name, number(mean.mean), interval(mean.interval), str(mean.n), str(mean.n_failed or "")]
        for name, a in run.aggregates.items()
        for tag, mean in a.tags.items()
    ]
    if by_tag:
        by_tag.sort(key=lambda row: row[0])
        out.print()
        out.print(table(["tag", "metric", "mean", "95% interval", "n", "failed"], by_tag, right=(2, 4, 5)))


def took(run: Run) -> str:
    """Say what a run took."""
    t = run.manifest.tally
    parts = [f"{t.verdicts} verdicts", f"{t.calls} calls", f"{t.hits} from the cache"]
    if t.calls:
        parts.append(f"{t.input_tokens:,} + {t.output_tokens:,} tokens")
    if t.cost:
        parts.append(f"${t.cost:.4f}")
    if t.retries:
        parts.append(f"{sum(t.retries.values())} retries")
    return ", ".join(parts)


def trace_card(result: TraceResult) -> None:
    """Print a trace with every verdict, its reason, and the chunk with the quote marked."""
    out, trace = console(), result.trace
    out.print(Text(printable(f"trace {result.trace_id}"), style="bold"))
    for name, text in (("query", trace.query), ("reference", trace.reference), ("answer", trace.answer)):
        if text:
            out.print(Text(f"{name + ':':<11}{printable(text)}"))
    scores = "  ".join(f"{name} {number(value)}" for name, value in result.scores.items())
    out.print(Text(f"{'scores:':<11}{scores}"))
    if not result.outcomes:
        out.print("nothing was retrieved")
    for rank, (chunk, outcome) in enumerate(zip(trace.chunks, result.outcomes, strict=True), 1):
        out.print()
        out.print(_headline(rank, chunk, outcome))
        out.print(_with_evidence(chunk, outcome))
        reason = outcome.reason if outcome.kind == "verdict" else outcome.detail
        if reason:
            out.print(Text(f"   reason: {printable(reason)}"))
        if outcome.kind == "verdict" and outcome.evidence and not outcome.evidence_found:
            out.print(
                Text(f"   quote not found in the chunk: {printable(outcome.evidence)!r}", style="yellow")
            )
        if outcome.kind == "verdict" and outcome.instruction_in_chunk:
            out.print(Text("   the judge saw an instruction in this chunk", style="yellow"))


def _headline(rank: int, chunk: Chunk, outcome: Verdict | NoVerdict) -> Text:
    if outcome.kind == "no_verdict":
        word, style = f"NO VERDICT ({outcome.why})", "bold red"
    else:
        word = "relevant" if outcome.relevant else "not relevant"
        word, style = f"{word} (grade {outcome.grade})", "green" if outcome.relevant else "dim"
    label = "" if chunk.label is None else f", human label {chunk.label}"
    head = Text(f"{rank}. [{sign(outcome)}] ")
    head.append(word, style=style)
    return head.append(printable(f"  {chunk.id}{label}"))


def _with_evidence(chunk: Chunk, outcome: Verdict | NoVerdict) -> Text:
    """Return a chunk's text with the evidence between `>>` and `<<`."""
    out = Text(f"   {printable(chunk.title)}: " if chunk.title else "   ")
    quote = outcome.evidence if outcome.kind == "verdict" else ""
    for place, piece in enumerate(marked(" ".join(chunk.text.split()), quote)):
        if place % 2:
            out.append(f">>{printable(piece)}<<", style="bold")
        else:
            out.append(printable(piece))
    return out
