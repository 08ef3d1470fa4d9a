"""The references of a dataset, each once, on their way to being split into claims."""

from collections.abc import Iterable
from typing import TypeAlias

from judge_eval.data.claimfiles import ClaimsFile, claims_line
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import Chunk, Claim, NoVerdict, Trace, Turn


class References:
    """The distinct questions with references of a dataset that have no claims yet, in its order."""

    def __init__(self, traces: Iterable[Trace], file: ClaimsFile | None = None) -> None:
        self.existing = 0
        """How many have claims already."""
        self._claims: dict[_Key, tuple[Claim, ...] | None] = {}
        self._history: dict[_Key, tuple[Turn, ...]] = {}
        passed: set[_Key] = set()
        for trace in traces:
            key = _key(trace)
            if key in passed:
                continue
            if file is not None and file.find(trace) is not None:
                passed.add(key)
            elif self._claims.get(key) is None:
                self._claims[key] = trace.claims  # which a dataset may bring itself
                if trace.history:
                    self._history[key] = trace.history
        self.existing = len(passed)

    def __len__(self) -> int:
        return len(self._claims)

    def open(self) -> list[Trace]:
        """Return a trace for each reference without claims; its one chunk stands for the reference."""
        return [
            Trace(
                id=str(number),
                query=query,
                history=self._history.get((query, reference, conversation), ()),
                reference=reference,
                chunks=(Chunk(id="reference", text=""),),
            )
            for number, ((query, reference, conversation), claims) in enumerate(self._claims.items())
            if claims is None
        ]

    def take(self, result: TraceResult) -> NoVerdict | None:
        """Take in the result of such a trace; return why it has no claims, if it has none."""
        if result.claims is None:
            (outcome,) = result.outcomes
            assert outcome.kind == "no_verdict"  # as no chunk was judged
            return outcome
        self._claims[_key(result.trace)] = result.claims.claims
        return None

    def lines(self) -> list[str]:
        """Return the lines of the references with claims, in the dataset's order."""
        return [
            claims_line(key[0], key[1], claims, self._history.get(key, ()))
            for key, claims in self._claims.items()
            if claims is not None
        ]


_Key: TypeAlias = tuple[str, str, str]
"""What a split depends on: question, reference and the conversation as it is shown."""


def _key(trace: Trace) -> _Key:
    return trace.query, trace.reference or "", trace.conversation
