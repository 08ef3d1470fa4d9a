"""What people read on the terminal: tables of metrics, verdicts with their evidence marked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from judge_eval.cli.printing.claimgrid import claim_grid, claim_lines
from judge_eval.cli.printing.door import BAD, DOUBTFUL, GOOD, coloured, give_json
from judge_eval.quotes import marked
from judge_eval.runs.folder.describing import cascaded, describe, doubts, failures, remarks
from judge_eval.runs.folder.signs import sign, strip
from judge_eval.runs.folder.wording import interval, number, word
from judge_eval.shown import one_line, printable

if TYPE_CHECKING:
    from judge_eval.runs.folder.records import TraceResult
    from judge_eval.runs.folder.run import Run
    from judge_eval.runs.scoring.figure import Figure
    from judge_eval.schema import Chunk, NoVerdict, Outcome, Verdict


def console() -> Console:
    """Return a console on stdout that adds no markup of its own; wide and without colours off a terminal."""
    watched = sys.stdout.isatty()
    shown = coloured(sys.stdout)
    return Console(
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
        width=None if watched else 200,
        force_terminal=shown,  # FORCE_COLOR asks for what the door would spell out
        color_system="auto" if shown else None,
    )


def say(text: str = "", style: str = "") -> None:
    """Print a line; text is shown as it is, without markup and without what would steer a terminal."""
    console().print(Text(printable(text), style=style))


def say_table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Sequence[int] = ()
) -> None:
    """Print a plain table; text is shown as it is, without markup.

    Args:
        columns: The headings.
        rows: The cells.
        right: The places of the columns that are set to the right.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if place in right else "left"
        table.add_column(one_line(column), justify=justify, no_wrap=place in right, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(one_line(cell)) for cell in row))
    console().print(table)


def summary(run: Run, json_: bool = False, page: str | None = None) -> None:
    """Print what a run found: the table of metrics, what failed, what it took, where it is; or its JSON.

    Args:
        run: The run.
        json_: Whether its manifest is printed instead.
        page: The address of its page, where a server shows it.
    """
    m = run.manifest
    if json_:
        give_json(m.model_dump_json(indent=2))
        return
    say(describe(m))
    say()
    failed = any(a.n_failed for a in m.aggregates.values())
    columns = ["metric", "mean", "95% interval", "n"]
    rows = [[name, number(a.mean), interval(a.interval), str(a.n)] for name, a in m.aggregates.items()]
    if failed:
        columns += ["failed", "bounds"]
        for row, a in zip(rows, m.aggregates.values(), strict=True):
            row += [str(a.n_failed), interval(a.bounds)]
    say_table(columns, rows, right=(1, 3, 4))
    say()
    if m.tally.failed_verdicts:
        say(f"{failures(m.tally)}; `bounds` say where they could lie.", BAD)
    for doubt in doubts(m.tally):
        say(f"{doubt}.", DOUBTFUL)
    for each in remarks(m):
        say(f"{each}.", DOUBTFUL)
    if m.dataset.skipped:
        say(f"{m.dataset.skipped} invalid records were skipped.", DOUBTFUL)
    for each in m.dataset.remarks:
        say(f"{each}.", DOUBTFUL)
    for each in cascaded(m):
        say(f"{each}.")
    say(took(run))
    if m.tally.dropped:
        say(f"the server would not take: {', '.join(m.tally.dropped)}")
    if run.folder is not None:
        said = Text(f"run {m.id[:8]} (").append(m.status, style=status_style(m.status))
        console().print(said.append(f") in {printable(str(run.folder))}"))
    if page is not None:
        say(f"its page: {page}")


def status_style(status: str) -> str:
    """Return how the status of a run is shown on a terminal."""
    return {"done": GOOD, "failed": BAD}.get(status, DOUBTFUL)


def show_spread(run: Run) -> None:
    """Print each metric's percentiles over traces, and its mean over the traces of each tag."""
    rows = []
    for name, a in run.aggregates.items():
        q = a.quantiles
        marks = [number(q.p20), number(q.p50), number(q.p90)] if q else ["none"] * 3
        clusters = "" if a.clusters is None else str(a.clusters)
        rows.append([name, *marks, a.method or "", clusters])
    say()
    say_table(["metric", "p20", "p50", "p90", "interval by", "clusters"], rows, right=(1, 2, 3, 5))
    by_tag = [
        [tag, name, number(mean.mean), interval(mean.interval), str(mean.n), str(mean.n_failed or "")]
        for name, a in run.aggregates.items()
        for tag, mean in a.tags.items()
    ]
    if by_tag:
        by_tag.sort(key=lambda row: row[0])
        say()
        say_table(["tag", "metric", "mean", "95% interval", "n", "failed"], by_tag, right=(2, 4, 5))


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
    if refused := t.cache.get("refused"):
        parts.append(f"{refused} row{'s' if refused > 1 else ''} of the cache refused")
    if beside := t.cache.get("beside"):
        parts.append(f"{beside} answer{'s' if beside > 1 else ''} paid beside another process's")
    return ", ".join(parts)


def trace_card(result: TraceResult) -> None:
    """Print a trace with every verdict, its reason, and the chunk with the quote marked."""
    out, trace = console(), result.trace
    say(one_line(f"trace {result.trace_id}"), "bold")
    for name, text in (("query", trace.query), ("reference", trace.reference), ("answer", trace.answer)):
        if text:
            out.print(Text(f"{name + ':':<11}{printable(text)}"))
    scores = "  ".join(f"{one_line(name)} {number(value)}" for name, value in result.scores.items())
    out.print(Text(f"{'scores:':<11}{scores}"))
    for line in claim_grid(result):
        out.print(line)
    if not result.outcomes:
        say("nothing was retrieved")
    for rank, (chunk, outcome) in enumerate(zip(trace.chunks, result.outcomes, strict=True), 1):
        say()
        out.print(_headline(rank, chunk, outcome))
        out.print(_with_evidence(chunk, outcome))
        if reason := outcome.explanation:
            head = "" if outcome.kind == "verdict" and outcome.reason is None else "reason: "
            out.print(Text(f"   {head}{one_line(reason)}"))
        if outcome.kind == "verdict" and outcome.evidence and not outcome.evidence_found:
            say(f"   quote not found in the chunk, or too short: {printable(outcome.evidence)!r}", DOUBTFUL)
        if outcome.kind == "verdict" and outcome.instruction_in_chunk:
            say("   the judge saw an instruction in this chunk", DOUBTFUL)
        for line in claim_lines(result, rank):
            out.print(line)


def signs(outcomes: Sequence[Outcome]) -> Text:
    """Draw one sign a rank, as `strip` does: what is relevant and what failed stand out on a terminal."""
    drawn = Text()
    for outcome in outcomes:
        drawn.append(sign(outcome), style=_style(outcome))
    return drawn if outcomes else Text(strip(outcomes))


def _style(outcome: Outcome) -> str:
    if outcome.kind == "no_verdict":
        return BAD
    return GOOD if outcome.relevant else "dim"


def _headline(rank: int, chunk: Chunk, outcome: Verdict | NoVerdict) -> Text:
    told = f"NO VERDICT ({outcome.why})" if outcome.kind == "no_verdict" else word(outcome)
    label = "" if chunk.label is None else f", human label {chunk.label}"
    head = Text(f"{rank}. [{sign(outcome)}] ")
    head.append(told, style=_style(outcome))
    return head.append(one_line(f"  {chunk.id}{label}"))


def _with_evidence(chunk: Chunk, outcome: Verdict | NoVerdict) -> Text:
    """Return a chunk's text with the evidence between `>>` and `<<`."""
    out = Text(f"   {one_line(chunk.title)}: " if chunk.title else "   ")
    for place, piece in enumerate(marked(" ".join(chunk.text.split()), outcome.quote)):
        if place % 2:
            out.append(f">>{printable(piece)}<<", style="bold")
        else:
            out.append(printable(piece))
    return out


def figure(given: Figure) -> str:
    """Write a figure with its interval."""
    if given.value is None:
        return "undefined"
    span = "" if given.interval is None else f" [{given.interval[0]:.4f}, {given.interval[1]:.4f}]"
    return f"{given.value:.4f}{span}"
