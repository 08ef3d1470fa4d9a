"""A judge that asks nobody: verdicts that were given elsewhere, put to the chunks they are of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from judge_eval.judges.base import Inquiry
from judge_eval.judges.parsing import evidence_found
from judge_eval.record import trusted
from judge_eval.schema import Chunk, Judgment, NoVerdict, Outcome, Scale, Trace, Verdict
from judge_eval.wire import Passage


class ImportedVerdicts:
    """Answers from verdicts that are there already, without a wave of requests.

    Args:
        find: Returns what is known of a chunk, by trace id and chunk id; its quote is checked here.
        scale: The grades of the verdicts.
        source: Where they come from, for the run's manifest.
    """

    needs: tuple[Literal["reference", "answer"], ...] = ()

    def __init__(self, find: Callable[[str, str], Outcome], scale: Scale, source: Mapping[str, Any]) -> None:
        self._find, self.scale, self._source = find, scale, dict(source)

    def describe(self) -> dict[str, Any]:
        """Where the verdicts come from, and their scale."""
        return {"mode": "imported", "imported": self._source, "scale": self.scale.model_dump()}

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Look up every chunk of a trace; nothing is ever asked."""
        yield from ()
        outcomes = tuple(known.get(chunk.id) or self._outcome(trace, chunk) for chunk in trace.chunks)
        return trusted(
            Judgment, {"trace_id": trace.id, "outcomes": outcomes, "calls": (), "votes": {}, "claims": None}
        )

    def _outcome(self, trace: Trace, chunk: Chunk) -> Verdict | NoVerdict:
        found = self._find(trace.id, chunk.id)
        if found.kind == "no_verdict" or not found.evidence:
            return found
        stands = evidence_found(found.evidence, Passage(chunk.text, chunk.title))
        return found.model_copy(update={"evidence_found": stands})
