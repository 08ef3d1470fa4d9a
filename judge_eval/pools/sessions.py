"""Several searches of one session as one unit: what each call added to what was found before."""

from collections import defaultdict

import numpy as np

from judge_eval.pools.pool import passages_of
from judge_eval.record import Record
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.figure import Figure
from judge_eval.stats import mean_interval


class SessionCall(Record):
    """One search of a session."""

    trace: str
    query: str
    chunks: int
    duplicates: int
    """Chunks that an earlier call of the session had."""
    relevant: int
    new: int
    """Claims covered for the first time, or relevant chunks if nobody judged by claims."""
    coverage: float
    """The share of the session's claims covered by now; without claims of all relevant chunks that it found."""

    @property
    def wasted(self) -> bool:
        """Whether it found nothing new."""
        return not self.new


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
    """`Coverage@calls`, over all sessions; one that has ended keeps its coverage."""
    novelty: float
    """New claims or relevant chunks of this call, on average."""
    wasted: float
    """The share of these calls that found nothing new."""


class SessionReport(Record):
    """What the sessions of a run found, call by call."""

    sessions: tuple[SearchSession, ...]
    by_call: tuple[CallFigures, ...]
    of_claims: bool


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
    if all(len(results) < 2 for results in grouped.values()):
        return None
    of_claims = all(result.claims is not None for results in grouped.values() for result in results)
    sessions = tuple(_session(name, results, of_claims) for name, results in grouped.items())
    by_call = []
    for number in range(max(len(session.calls) for session in sessions)):
        covered = [session.calls[min(number, len(session.calls) - 1)].coverage for session in sessions]
        made = [session.calls[number] for session in sessions if number < len(session.calls)]
        by_call.append(
            CallFigures(
                call=number + 1,
                sessions=len(made),
                coverage=Figure.of(mean_interval(covered, limits=(0.0, 1.0))),
                novelty=float(np.mean([call.new for call in made])),
                wasted=float(np.mean([call.wasted for call in made])),
            )
        )
    return SessionReport(sessions=sessions, by_call=tuple(by_call), of_claims=of_claims)


def _session(name: str, results: list[TraceResult], of_claims: bool) -> SearchSession:
    items = [_covered(result) if of_claims else _relevant(result) for result in results]
    everything: set[object] = set().union(*items)
    if of_claims:
        everything |= {claim.text for result in results if result.claims for claim in result.claims.claims}
    seen, gathered, calls = set[int](), set[object](), []
    for result, item in zip(results, items, strict=True):
        passages = passages_of(result.trace.chunks)
        new, gathered = len(item - gathered), gathered | item
        calls.append(
            SessionCall(
                trace=result.trace_id,
                query=result.trace.query,
                chunks=len(passages),
                duplicates=sum(passage in seen for passage in passages),
                relevant=sum(outcome.kind == "verdict" and outcome.relevant for outcome in result.outcomes),
                new=new,
                coverage=len(gathered) / len(everything) if everything else 0.0,
            )
        )
        seen.update(passages)
    return SearchSession(id=name, calls=tuple(calls))


def _relevant(result: TraceResult) -> set[object]:
    pairs = zip(passages_of(result.trace.chunks), result.outcomes, strict=True)
    return {passage for passage, outcome in pairs if outcome.kind == "verdict" and outcome.relevant}


def _covered(result: TraceResult) -> set[object]:
    texts = {} if result.claims is None else {claim.id: claim.text for claim in result.claims.claims}
    verdicts = (outcome for outcome in result.outcomes if outcome.kind == "verdict")
    supports = (support for verdict in verdicts for support in verdict.supports or ())
    return {texts[support.claim] for support in supports if support.support == "full" and support.claim in texts}
