"""What earlier sittings of a run have judged, and what is left to ask of its traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from judge_eval.engine import Item, Judged
from judge_eval.errors import DataError, RunError
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import Call, Claim, Trace, Verdict


@dataclass(slots=True)
class _Known:
    """What a run holds of a trace."""

    digest: str
    verdicts: Mapping[str, Verdict]
    calls: tuple[Call, ...]
    """The calls that the verdicts rest on."""
    finished: bool
    claims: tuple[Claim, ...] | None
    """The claims that it was judged by, where it was."""


class Earlier:
    """What earlier sittings have judged, each trace handed out once.

    Args:
        results: Theirs; of several of one trace the last counts.
    """

    def __init__(self, results: Iterable[TraceResult]) -> None:
        self._known: dict[str, _Known] = {}
        self._calls: dict[int, tuple[Call, ...]] = {}
        for result in results:
            finished = not result.failed
            verdicts = {} if finished else {o.chunk_id: o for o in result.outcomes if o.kind == "verdict"}
            calls = tuple(call for call in result.calls if verdicts.keys() & set(call.chunk_ids))
            claims = None if result.claims is None else result.claims.claims
            self._known[result.trace_id] = _Known(result.digest, verdicts, calls, finished, claims)

    def item(self, position: int, trace: Trace) -> Item | None:
        """Return what is left to judge of a trace; None where it is finished.

        Raises:
            DataError: It is not the trace that was judged.
        """
        known = self._known.pop(trace.id, None)
        if known is None:
            return Item(position, trace, {})
        if known.digest != trace.digest:
            raise DataError(
                f"trace {trace.id!r} is not the one this run judged: its text or chunks have changed"
            )
        if known.finished:
            return None
        if known.calls:
            self._calls[position] = known.calls
        return Item(position, trace, known.verdicts, known.claims)

    def all_calls(self, judged: Judged) -> tuple[Call, ...]:
        """Join a trace's calls of this sitting and of earlier ones, in the order of the chunks."""
        earlier = self._calls.pop(judged.position, ())
        if not earlier:
            return judged.judgment.calls
        ranks = {chunk.id: rank for rank, chunk in enumerate(judged.trace.chunks)}
        joined = {call.key: call for call in earlier + judged.judgment.calls}.values()
        # Of calls that begin at one chunk the one about most comes first: the last is that chunk's own.
        return tuple(sorted(joined, key=lambda call: (ranks[call.chunk_ids[0]], -len(call.chunk_ids))))

    def check_all_seen(self) -> None:
        """See that every trace that was judged is still in the data.

        Raises:
            RunError: One is not.
        """
        if self._known:
            names = ", ".join(map(repr, list(self._known)[:3]))
            raise RunError(
                f"{len(self._known)} traces of this run are not in the data any more: {names}, ..."
            )
