"""The references of a dataset, each once, on their way to being split into claims."""

from collections.abc import Iterable

from judge_eval.data.claimfiles import ClaimsFile, claims_line
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import Chunk, Claim, NoVerdict, Trace


class References:
    """The distinct questions with references of a dataset that have no claims yet, in its order."""

    def __init__(self, traces: Iterable[Trace], file: ClaimsFile | None = None) -> None:
        self.existing = 0
        """How many have claims already."""
        self._claims: dict[tuple[str, str], tuple[Claim, ...] | None] = {}
        passed: set[tuple[str, str]] = set()
        for trace in traces:
            pair = trace.query, trace.reference or ""
            if pair in passed:
                continue
            if file is not None and file.find(trace) is not None:
                passed.add(pair)
            elif self._claims.get(pair) is None:
                self._claims[pair] = trace.claims  # which a dataset may bring itself
        self.existing = len(passed)

    def __len__(self) -> int:
        return len(self._claims)

    def open(self) -> list[Trace]:
        """Return a trace for each reference without claims; its one chunk stands for the reference."""
        return [
            Trace(id=str(number), query=query, reference=reference, chunks=(Chunk(id="reference", text=""),))
            for number, ((query, reference), claims) in enumerate(self._claims.items())
            if claims is None
        ]

    def take(self, result: TraceResult) -> NoVerdict | None:
        """Take in the result of such a trace; return why it has no claims, if it has none."""
        if result.claims is None:
            (outcome,) = result.outcomes
            assert outcome.kind == "no_verdict"  # as no chunk was judged
            return outcome
        self._claims[result.trace.query, result.trace.reference or ""] = result.claims.claims
        return None

    def lines(self) -> list[str]:
        """Return the lines of the references with claims, in the dataset's order."""
        return [
            claims_line(query, reference, claims)
            for (query, reference), claims in self._claims.items()
            if claims is not None
        ]
