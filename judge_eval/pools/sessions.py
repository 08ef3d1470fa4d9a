"""Several searches of one session as one unit: what each call added to what was found before."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from judge_eval.pools.joining import passages_of
from judge_eval.record import Record
from judge_eval.runs.folder.judgedclaims import judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.figure import Figure
from judge_eval.runs.scoring.steps import ranks_after
from judge_eval.stats import imbens_manski


class SessionCall(Record):
    """One search of a session."""

    trace: str
    query: str
    chunks: int
    duplicates: int
    """Chunks that an earlier call of the session had."""
    relevant: int
    failed: int = 0
    """Chunks without a verdict."""
    new: int
    """Claims covered for the first time, or relevant chunks if nobody judged by claims."""
    open: int = 0
    """Claims or chunks that failed verdicts leave open, and that no call so far is known to have found."""
    coverage: tuple[float, float] | None
    """The least and the greatest share of the session's claims covered by now, without claims of all relevant chunks
    that it found; they differ by failed verdicts. None for a reference that makes no claim."""

    @property
    def wasted(self) -> bool | None:
        """Whether it found nothing new; None if failed verdicts leave that open."""
        return None if not self.new and self.open else not self.new


class SearchSession(Record):
    """The searches of one agent run or conversation, in their order."""

    id: str
    calls: tuple[SessionCall, ...]


class CallFigures(Record):
    """All sessions after so many calls."""

    call: int
    sessions: int
    """How many made this call."""
    coverage: Figure
    """`Coverage@calls`, over all sessions; one that has ended keeps its coverage. What failed verdicts leave open is
    found as often as what is known, and the interval covers all that it could be."""
    novelty: float
    """`Novelty`: new claims or relevant chunks of this call, on average; what is left open is none."""
    wasted: float
    """The share of these calls that are known to have found nothing new."""


class SessionReport(Record):
    """What the sessions of a run found, call by call."""

    sessions: tuple[SearchSession, ...]
    by_call: tuple[CallFigures, ...]
    of_claims: bool
    rerankers: int = 0
    """Calls of rerankers, which search nothing: their chunks are those of an earlier call."""


def session_of(result: TraceResult) -> str | None:
    """Return the session of a trace: `metadata.session_id`, else `metadata.trace_id`; None without either."""
    metadata = result.trace.metadata
    return next((str(metadata[key]) for key in ("session_id", "trace_id") if metadata.get(key)), None)


def session_report(run: Run) -> SessionReport | None:
    """Group a run's traces into sessions; None if no session has two searches."""
    grouped: dict[str, list[_Call]] = defaultdict(list)
    for result in run.results:
        if (name := session_of(result)) is not None:
            grouped[name].append(_Call.of(result))
    searched = {name: _searches(calls) for name, calls in grouped.items()}
    if all(len(calls) < 2 for calls in searched.values()):
        return None
    of_claims = all(call.claims is not None for calls in searched.values() for call in calls)
    items = {n: [call.claims if of_claims and call.claims else call.found for call in searched[n]] for n in searched}
    every = [item for of_calls in items.values() for item in of_calls]
    known, missed = sum(len(item.known) for item in every), sum(item.missed for item in every)
    rate = known / (known + missed) if known + missed else 0.0
    sessions = tuple(_session(name, calls, items[name]) for name, calls in searched.items())
    measured = [session for session in sessions if session.calls[0].coverage is not None]
    by_call = []
    for number in range(max(len(session.calls) for session in sessions)):
        covered = [session.calls[min(number, len(session.calls) - 1)].coverage for session in measured]
        ends = np.array(covered, dtype=np.float64).reshape(-1, 2)
        made = [session.calls[number] for session in sessions if number < len(session.calls)]
        middle = ends[:, 0] + rate * (ends[:, 1] - ends[:, 0])
        by_call.append(
            CallFigures(
                call=number + 1,
                sessions=len(made),
                coverage=Figure.of(imbens_manski(ends[:, 0], ends[:, 1], middle, limits=(0.0, 1.0))),
                novelty=float(np.mean([call.new for call in made])),
                wasted=float(np.mean([call.wasted is True for call in made])),
            )
        )
    rerankers = sum(len(grouped[name]) - len(searched[name]) for name in grouped)
    return SessionReport(sessions=sessions, by_call=tuple(by_call), of_claims=of_claims, rerankers=rerankers)


class _Found(NamedTuple):
    """What a call found of what there is to find: claims by their text, or chunks."""

    known: set[object]
    open: set[object]
    """What failed verdicts leave open."""
    missed: int
    every: set[object] | None
    """All that there is to find; None: what the session's calls found."""


class _Call(NamedTuple):
    """What is read of a trace."""

    trace: str
    query: str
    passages: tuple[int, ...]
    relevant: int
    failed: int
    reranked: bool
    found: _Found
    claims: _Found | None

    @classmethod
    def of(cls, result: TraceResult) -> "_Call":
        passages = passages_of(result.trace.chunks)
        verdicts = [outcome if outcome.kind == "verdict" else None for outcome in result.outcomes]
        good = [verdict is not None and verdict.relevant for verdict in verdicts]
        known: set[object] = {passage for passage, hit in zip(passages, good, strict=True) if hit}
        lost: set[object] = {passage for passage, verdict in zip(passages, verdicts, strict=True) if verdict is None}
        failed = verdicts.count(None)
        chunks = _Found(known, lost - known, len(verdicts) - failed - sum(good), None)
        reranked = ranks_after(result) is not None
        return cls(
            result.trace_id, result.trace.query, tuple(passages), sum(good), failed, reranked, chunks, _claims(result)
        )


def _claims(result: TraceResult) -> _Found | None:
    if result.claims is None:
        return None
    covers: dict[str, set[object]] = defaultdict(set)
    for each in judged_claims(result.claims, result.outcomes) or ():
        covers[each.cover].add(each.claim.text)
    every: set[object] = set().union(*covers.values())
    return _Found(covers["covered"], covers["unknown"], len(covers["missing"] | covers["partly"]), every)


def _searches(calls: Sequence[_Call]) -> list[_Call]:
    """Leave out rerankers of what an earlier call had found."""
    seen, kept = set[int](), []
    for call in calls:
        if not (call.reranked and seen.issuperset(call.passages)):
            kept.append(call)
        seen.update(call.passages)
    return kept


def _session(name: str, made: Sequence[_Call], items: Sequence[_Found]) -> SearchSession:
    every: set[object] = set().union(*(item.every or () for item in items))
    fixed = items[0].every is not None
    known: set[object] = set().union(*(item.known for item in items))
    unknown = set().union(*(item.open for item in items)) - known
    seen, gathered, maybe, calls = set[int](), set[object](), set[object](), []
    for call, item in zip(made, items, strict=True):
        new, gathered = len(item.known - gathered), gathered | item.known
        maybe = (maybe | item.open) - gathered
        totals = len(every), len(every)
        if not fixed:  # at least: what is open here is irrelevant and what is open later relevant; at most the reverse
            totals = len(known) + len(unknown - maybe), len(known | maybe)
        ends = len(gathered) / max(totals[0], 1), (len(gathered) + len(maybe)) / max(totals[1], 1)
        calls.append(
            SessionCall(
                trace=call.trace,
                query=call.query,
                chunks=len(call.passages),
                duplicates=sum(passage in seen for passage in call.passages),
                relevant=call.relevant,
                failed=call.failed,
                new=new,
                open=len(item.open - gathered),
                coverage=None if fixed and not every else ends,
            )
        )
        seen.update(call.passages)
    return SearchSession(id=name, calls=tuple(calls))
