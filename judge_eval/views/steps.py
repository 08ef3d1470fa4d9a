"""What people read of rerankers and of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.steps import reranker_gain
from judge_eval.safe_text import counted, signed_pair
from judge_eval.views.blocks import Cell, Column, IdList, Section, Sentence, TableBlock, Toned

if TYPE_CHECKING:
    from judge_eval.pools.sessions import SessionCall

MOST_CALLS = 200
"""How many calls are listed."""


def reranker_sections(run: Run) -> Iterator[Section]:
    """Say what the reranker changed; nothing if no trace says how its chunks were reranked."""
    gain = reranker_gain(run)
    if gain is None:
        return
    text = f"it dropped {gain.n_dropped:,} of {counted(gain.relevant, 'relevant chunk')}"
    for first in gain.metrics[:1]:
        moved = signed_pair(first.difference.value or 0.0, first.difference.interval)
        text = f"the reranker moves {first.metric} from {first.before:.3f} to {first.after:.3f}, {moved}; {text}"
    named = ", ".join(f"{trace}: {chunk}" for trace, chunk in gain.dropped[:3])
    columns = (
        *(Column("metric"), Column("retrieved", "number"), Column("reranked", "number")),
        *(Column("difference", "signed"), Column("95% interval", "signed interval")),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (m.metric, m.before, m.after, m.difference.value, m.difference.interval) for m in gain.metrics
    )
    text += f" ({named})" if named else ""
    text += f" and {gain.open:,} without a verdict" if gain.open else ""
    text += f"; {counted(gain.traces, 'trace')}"
    text += f", {gain.failed:,} with failed verdicts, whose possible values the interval covers" if gain.failed else ""
    yield Section("reranker", (Sentence(text), TableBlock("reranker", columns, rows)))


def session_sections(run: Run) -> Iterator[Section]:
    """List sessions: all of them by call, then a row for each call; nothing if no session has two searches."""
    from judge_eval.pools.sessions import session_report

    report = session_report(run)
    if report is None:
        return
    calls = [call for session in report.sessions for call in session.calls]
    wasted, chunks = sum(call.wasted is True for call in calls), sum(call.chunks for call in calls)
    again, open_ = sum(call.duplicates for call in calls), sum(call.wasted is None for call in calls)
    what = "claims" if report.of_claims else "relevant chunks"
    text = (
        f"{counted(len(report.sessions), 'session')} with {counted(len(calls), 'search', 'searches')}: {wasted:,} "
        f"found nothing new, {again:,} of {counted(chunks, 'chunk')} were in an earlier search of the session"
    )
    text += f"; failed verdicts leave open whether {open_:,} found something new" if open_ else ""
    text += f"; {counted(report.rerankers, 'call')} of rerankers left out" if report.rerankers else ""
    columns = (
        *(Column("search", "count"), Column("sessions", "count"), Column("Coverage@calls", "number")),
        *(Column("95% interval", "interval"), Column(f"Novelty: new {what}", "number"), Column("wasted", "share")),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f.call, f.sessions, f.coverage.value, f.coverage.interval, f.novelty, f.wasted) for f in report.by_call
    )
    listed = (
        *(Column("session"), Column("search", "count"), Column("trace"), Column("query", cut=50)),
        *(Column("chunks", "count"), Column("seen before", "count"), Column("relevant", "count")),
        *(Column(f"new {what}", "count"), Column("covered")),
    )
    each: tuple[tuple[Cell, ...], ...] = tuple(
        (session.id, number, IdList((c.trace,)), c.query, c.chunks, c.duplicates, c.relevant, *_new(c))
        for session in report.sessions
        for number, c in enumerate(session.calls, 1)
    )
    yield Section("sessions", (Sentence(text), TableBlock("sessions", columns, rows)))
    yield Section("calls", (TableBlock("calls", listed, each, of="searches").cut(min(MOST_CALLS, len(each))),))


def _new(call: SessionCall) -> tuple[Cell, Cell]:
    """Return what a call found first, and the share covered by then; both ends if failed verdicts leave it open."""
    new: Cell = (
        Toned("0: wasted", "bad") if call.wasted else f"{call.new} to {call.new + call.open}" if call.open else call.new
    )
    if call.coverage is None:
        return new, "no claims"
    low, high = call.coverage
    return new, f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}"
