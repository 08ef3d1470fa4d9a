"""A judge that is asked only about chunks without a verdict."""

from collections.abc import Callable, Mapping
from typing import Any

from judge_eval.errors import ConfigError
from judge_eval.judges.judge import Judge, JudgeAround, JudgingPlan, resume_by_verdicts
from judge_eval.schema import Chunk, Judgment, Outcome, Scale, Trace, Verdict


class KeptVerdicts(JudgeAround):
    """Takes over the verdicts that are known, and asks the judge about the other chunks.

    Args:
        judge: Who is asked.
        known: What is known of a chunk by trace id and chunk; None or a `NoVerdict` if nothing is.
        source: Where the known verdicts are from, for the manifest.
        scale: The scale of the known verdicts.

    Raises:
        ConfigError: The scales differ.
    """

    def __init__(
        self,
        judge: Judge,
        known: Callable[[str, Chunk], Outcome | None],
        source: Mapping[str, Any],
        scale: Scale | None = None,
    ) -> None:
        super().__init__(judge)
        self._known, self._source = known, dict(source)
        if scale is not None and (scale.grades, scale.relevant) != (judge.scale.grades, judge.scale.relevant):
            raise ConfigError(f"the known verdicts are on the scale {scale.words}, the judge's on {judge.scale.words}")

    def describe(self) -> dict[str, Any]:
        """What the judge says of itself, and where the other verdicts are from."""
        return {**self.judge.describe(), **self._source}

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Plan the judging of the chunks without a verdict."""
        outcomes_known = ((chunk.id, self._known(trace.id, chunk)) for chunk in trace.chunks)
        kept = {id_: each for id_, each in outcomes_known if each is not None and each.kind == "verdict"}
        judgment: Judgment = yield from self.judge.plan(trace, {**kept, **known})
        return judgment.replace(parts={})

    def is_complete(self, trace: Trace, earlier: Judgment) -> bool:  # noqa: ARG002
        """Tell whether each chunk has a verdict."""
        return not earlier.open

    def resume(self, trace: Trace, earlier: Judgment) -> JudgingPlan:
        """Plan what is missing in an earlier judgment."""
        return resume_by_verdicts(self.plan, trace, earlier)
