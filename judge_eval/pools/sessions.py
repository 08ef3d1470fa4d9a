"""Several searches of one session as one unit: what each call added to what was found before."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from judge_eval.pools.pool import passages_of
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
    grouped: dict[str, list[TraceResult]] = defaultdict(list)
    for result in run.results:
        if (name := session_of(result)) is not None:
            grouped[name].append(result)
    searched = {name: _searches(results) for name, results in grouped.items()}
    if all(len(results) < 2 for results in searched.values()):
        return None
    of_claims = all(result.claims is not None for results in searched.values() for result in results)
    items = {name: [(_claims if of_claims else _chunks)(r) for r in results] for name, results in searched.items()}
    every = [item for found in items.values() for item in found]
    known, missed = sum(len(item.known) for item in every), sum(item.missed for item in every)
    rate = known / (known + missed) if known + missed else 0.0
    sessions = tuple(_session(name, results, items[name]) for name, results in searched.items())
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


def _searches(results: Sequence[TraceResult]) -> list[TraceResult]:
    """Leave out rerankers of what an earlier call had found."""
    seen, kept = set[int](), []
    for result in results:
        passages = set(passages_of(result.trace.chunks))
        if not (passages <= seen and ranks_after(result)):
            kept.append(result)
        seen |= passages
    return kept


class _Found(NamedTuple):
    """What a call found of what there is to find: claims by their text, or chunks."""

    known: set[object]
    open: set[object]
    """What failed verdicts leave open."""
    missed: int
    every: set[object] | None
    """All that there is to find; None: what the session's calls found."""


def _session(name: str, results: Sequence[TraceResult], items: Sequence[_Found]) -> SearchSession:
    every: set[object] = set().union(*(item.every or () for item in items))
    fixed = items[0].every is not None
    found: set[object] = set().union(*(item.known for item in items))
    unknown = set().union(*(item.open for item in items)) - found
    seen, gathered, maybe, calls = set[int](), set[object](), set[object](), []
    for result, item in zip(results, items, strict=True):
        passages = passages_of(result.trace.chunks)
        new, gathered = len(item.known - gathered), gathered | item.known
        maybe = (maybe | item.open) - gathered
        totals = len(every), len(every)
        if not fixed:  # at least: what is open here is irrelevant and what is open later relevant; at most the reverse
            totals = len(found) + len(unknown - maybe), len(found | maybe)
        ends = len(gathered) / max(totals[0], 1), (len(gathered) + len(maybe)) / max(totals[1], 1)
        calls.append(
            SessionCall(
                trace=result.trace_id,
                query=result.trace.query,
                chunks=len(passages),
                duplicates=sum(passage in seen for passage in passages),
                relevant=sum(outcome.kind == "verdict" and outcome.relevant for outcome in result.outcomes),
                failed=sum(outcome.kind != "verdict" for outcome in result.outcomes),
                new=new,
                open=len(item.open - gathered),
                coverage=None if fixed and not every else ends,
            )
        )
        seen.update(passages)
    return SearchSession(id=name, calls=tuple(calls))


def _chunks(result: TraceResult) -> _Found:
    pairs = list(zip(passages_of(result.trace.chunks), result.outcomes, strict=True))
    known: set[object] = {passage for passage, o in pairs if o.kind == "verdict" and o.relevant}
    return _Found(
        known,
        {passage for passage, o in pairs if o.kind != "verdict" and passage not in known},
        sum(o.kind == "verdict" and not o.relevant for _, o in pairs),
        None,
    )


def _claims(result: TraceResult) -> _Found:
    judged = judged_claims(result.claims, result.outcomes) or ()
    covers: dict[str, set[object]] = defaultdict(set)
    for each in judged:
        covers[each.cover].add(each.claim.text)
    every: set[object] = {each.claim.text for each in judged}
    return _Found(covers["covered"], covers["unknown"], len(covers["missing"] | covers["partly"]), every)
