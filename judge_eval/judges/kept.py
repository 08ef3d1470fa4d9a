"""A judge that is asked only about chunks without a verdict."""

from collections.abc import Mapping
from typing import Any

from judge_eval.errors import ConfigError
from judge_eval.judges.judge import Judge, JudgeAround, JudgingPlan, judges_by_claims, resume_by_verdicts
from judge_eval.schema import Judgment, Outcome, Scale, Trace, Verdict


class KeptVerdicts(JudgeAround):
    """Takes over the verdicts that are known, with their votes and claims, and asks the judge about the other chunks.

    Args:
        judge: Who is asked.
        known: By trace id what is known: a judgment with an outcome of each chunk.
        source: Where the known verdicts are from, for the manifest.
        scale: The scale of the known verdicts.

    Raises:
        ConfigError: The scales differ; or the judge judges by claims, and the known verdicts of a trace that it is
            asked about are not by one set of claims.
    """

    def __init__(
        self, judge: Judge, known: Mapping[str, Judgment], source: Mapping[str, Any], scale: Scale | None = None
    ) -> None:
        super().__init__(judge)
        self._known, self._source = known, dict(source)
        if scale is not None and (scale.grades, scale.relevant) != (judge.scale.grades, judge.scale.relevant):
            raise ConfigError(f"the known verdicts are on the scale {scale.words}, the judge's on {judge.scale.words}")
        if judges_by_claims(judge):
            for trace, kept in known.items():
                if kept.open and kept.known and kept.claims is None:
                    raise ConfigError(
                        f"the known verdicts of trace {trace!r} are not by one set of claims, so no verdict by claims "
                        "can stand beside them; judge the missing chunks in another mode, or all runs by the claims "
                        "of one file"
                    )

    def describe(self) -> dict[str, Any]:
        """What the judge says of itself, and where the other verdicts are from."""
        return {**self.judge.describe(), **self._source}

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Plan the judging of the chunks without a verdict."""
        kept = self._known[trace.id]
        outcomes: tuple[Outcome, ...] = tuple([known.get(each.chunk_id, each) for each in kept.outcomes])
        kept = kept.replace(outcomes=outcomes)
        if not kept.open:
            return kept
        judgment = yield from resume_by_verdicts(self.judge.plan, trace, kept)
        unasked = {name: votes for name, votes in kept.votes.items() if name not in judgment.votes}
        return judgment.replace(parts={}, votes={**unasked, **judgment.votes}, claims=judgment.claims or kept.claims)

    def is_complete(self, trace: Trace, earlier: Judgment) -> bool:  # noqa: ARG002
        """Tell whether each chunk has a verdict."""
        return not earlier.open

    def resume(self, trace: Trace, earlier: Judgment) -> JudgingPlan:
        """Plan what is missing in an earlier judgment."""
        return resume_by_verdicts(self.plan, trace, earlier)
