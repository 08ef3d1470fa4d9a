"""The references of a dataset, each once, on their way to being split into claims."""

from __future__ import annotations

from collections.abc import Iterable

from judge_eval.data.claimfiles import ClaimsFile, claims_line
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import Chunk, Claim, NoVerdict, Trace


class References:
    """The distinct questions with references of a dataset that have no claims yet, in its order.

    Args:
        traces: The dataset; each trace has a reference.
        held: Claims that are there already.
    """

    def __init__(self, traces: Iterable[Trace], held: ClaimsFile | None = None) -> None:
        self.held = 0
        """How many have claims already."""
        self._claims: dict[tuple[str, str], tuple[Claim, ...] | None] = {}
        passed: set[tuple[str, str]] = set()
        for trace in traces:
            asked = trace.query, trace.reference or ""
            if asked in passed:
                continue
            if held is not None and held.find(trace) is not None:
                passed.add(asked)
            elif self._claims.get(asked) is None:
                self._claims[asked] = trace.claims  # which a dataset may bring itself
        self.held = len(passed)

    def __len__(self) -> int:
        return len(self._claims)

    def open(self) -> list[Trace]:
        """Return what is left to split: a trace for each, whose one chunk stands for the reference."""
        return [
            Trace(id=str(number), query=query, reference=reference, chunks=(Chunk(id="reference", text=""),))
            for number, ((query, reference), claims) in enumerate(self._claims.items())
            if claims is None
        ]

    def take(self, result: TraceResult) -> NoVerdict | None:
        """Take in what came of one that was split; return why it has no claims, where it has none."""
        if result.claims is None:
            (outcome,) = result.outcomes
            assert outcome.kind == "no_verdict"  # as no chunk was judged
            return outcome
        self._claims[list(self._claims)[int(result.trace_id)]] = result.claims.claims
        return None

    def lines(self) -> list[str]:
        """Return the lines of those that have claims by now, in the dataset's order."""
        return [
            claims_line(query, reference, claims)
            for (query, reference), claims in self._claims.items()
            if claims is not None
        ]
