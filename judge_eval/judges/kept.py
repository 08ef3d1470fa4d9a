"""A judge that is asked only about chunks without a verdict, all of them or a sample."""

from collections.abc import Callable, Mapping
from typing import Any

from judge_eval.errors import ConfigError
from judge_eval.judges.judge import Inquiry, Judge, JudgeAround, resume_by_verdicts
from judge_eval.schema import Chunk, Judgment, NoVerdict, Outcome, Scale, Trace, Verdict


class KeptVerdicts(JudgeAround):
    """Takes over the verdicts that are known, and asks the judge about the other chunks.

    Args:
        judge: Who is asked.
        known: What is known of a chunk by trace id and chunk; None or a `NoVerdict` if nothing is.
        source: Where the known verdicts are from, for the manifest.
        asks: Whether the judge is asked about a chunk without a verdict; if not it is `unsampled`. None: always.
        scale: The scale of the known verdicts.

    Raises:
        ConfigError: The scales differ.
    """

    def __init__(
        self,
        judge: Judge,
        known: Callable[[str, Chunk], Outcome | None],
        source: Mapping[str, Any],
        asks: Callable[[str, Chunk], bool] | None = None,
        scale: Scale | None = None,
    ) -> None:
        super().__init__(judge)
        self._known, self._source, self._asks = known, dict(source), asks
        if scale is not None and (scale.grades, scale.relevant) != (judge.scale.grades, judge.scale.relevant):
            raise ConfigError(f"the known verdicts are on the scale {scale.words}, the judge's on {judge.scale.words}")

    def describe(self) -> dict[str, Any]:
        """What the judge says of itself, and where the other verdicts are from."""
        return {**self.judge.describe(), **self._source}

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Plan the judging of the chunks that are asked about."""
        outcomes_known = ((chunk.id, self._known(trace.id, chunk)) for chunk in trace.chunks)
        kept = {id_: each for id_, each in outcomes_known if each is not None and each.kind == "verdict"}
        kept |= known
        asks = self._asks
        asked = tuple(chunk for chunk in trace.chunks if chunk.id in kept or asks is None or asks(trace.id, chunk))
        part = trace.but(chunks=asked)
        part.__dict__.pop("digest", None)  # of all its chunks
        judgment: Judgment = yield from self.judge.inquire(part, kept)
        places = {chunk.id: place for place, chunk in enumerate(asked)}
        at = [places.get(chunk.id) for chunk in trace.chunks]
        outcomes = tuple(
            NoVerdict(chunk_id=chunk.id, why="unsampled") if place is None else judgment.outcomes[place]
            for chunk, place in zip(trace.chunks, at, strict=True)
        )
        votes = {
            name: tuple(None if place is None else column[place] for place in at)
            for name, column in judgment.votes.items()
        }
        return judgment.but(outcomes=outcomes, votes=votes, parts={})

    def is_complete(self, trace: Trace, earlier: Judgment) -> bool:  # noqa: ARG002
        """Tell whether each chunk that is asked about has a verdict."""
        return not earlier.open

    def resume(self, trace: Trace, earlier: Judgment) -> Inquiry:
        """Plan what is missing in an earlier judgment."""
        return resume_by_verdicts(self.inquire, trace, earlier)
