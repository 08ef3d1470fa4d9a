"""Judging by two judges: a cheap one first, a strong one where the cheap one is not sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from judge_eval.errors import ConfigError
from judge_eval.judges.base import Inquiry, Judge
from judge_eval.judges.routing import route_inquiry
from judge_eval.schema import Judgment, Outcome, Scale, Stage, Trace, Verdict
from judge_eval.sureness import CONFIDENCE_GRID, is_sure

CHEAP: Stage = "cheap"
STRONG: Stage = "strong"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What the threshold of a cascade rests on, where it was fitted to a sample and not just named."""

    digest: str
    """64 hexadecimal digits: of the file that says it."""
    target: Literal["strong", "people"]
    """Whose answer is right: the strong judge's, or people's."""
    alpha: float
    """The greatest risk that was wanted: the share of the cascade's answers that are not the target's."""
    level: float
    """How sure it is that the risk is within the bound."""
    bound: float
    """What the risk is at most, at that level."""
    traces: int
    """How many traces it was fitted on."""
    coverage: float
    """The share of these whose cheap verdict stood."""
    cluster: str | None = None
    """The key of the metadata that names clusters, where traces of the data share one: the risk is of a
    random trace of a random cluster."""

    def record(self) -> dict[str, Any]:
        """Return it as a manifest keeps it, without a cluster where there is none."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("cluster", None)}


@dataclass(frozen=True, slots=True)
class Cascade:
    """A judge made of two: what the cheap one is sure of stands, the strong one is asked about the rest.

    A verdict of the cheap judge stands where the probability of its side (relevant or not) is the threshold
    or more. A chunk that it gave no verdict or no probability goes to the strong judge, whose outcome
    stands, also where it is none. Each verdict says which stage gave it; the judgment's `votes` keep what
    both said. `cascade_of` makes one for two models.

    Args:
        cheap: Asked about every chunk.
        strong: Asked about what the cheap judge is not sure of.
        threshold: One of .50, .51, ... 1.00 (`CONFIDENCE_GRID`); None sends everything to the strong judge.
        explain_positives: Whether relevant verdicts of the cheap judge go to the strong one too, for a
            reason and a quote; then its verdict stands.
        routes: Which model each asks, where they are two: keys of the evaluator's models.
        guarantee: What the threshold rests on; None where it was named, and nothing is known of the risk.

    Raises:
        ConfigError: The threshold is none of the grid, the scales differ, evidence is required of the strong
            judge alone while relevant verdicts of the cheap one stand, or the guarantee does not hold for
            positives that are explained: it was found with people as the target, whose answers may be the
            cheap judge's where the strong one is wrong.
    """

    cheap: Judge
    strong: Judge
    threshold: float | None
    explain_positives: bool = False
    routes: tuple[str, str] = (CHEAP, STRONG)
    guarantee: Guarantee | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and self.threshold not in CONFIDENCE_GRID:
            raise ConfigError(f"a cascade's threshold is {self.threshold}; it is one of .50, .51, ... 1.00")
        if self.cheap.scale != self.strong.scale:
            told = [
                f"{name} 0-{scale.maximum} (relevant from {scale.relevant})"
                for name, scale in ((CHEAP, self.cheap.scale), (STRONG, self.strong.scale))
            ]
            raise ConfigError(f"both judges of a cascade must grade on one scale, not {', '.join(told)}")
        policies = [judge.describe().get("evidence") for judge in (self.cheap, self.strong)]
        if policies[1] == "required" != policies[0] and not self.explain_positives:
            raise ConfigError(
                "evidence=required cannot be kept: relevant verdicts of the cheap judge would stand without "
                "a quote; send them to the strong one (explain_positives), or use evidence=flag"
            )
        if self.explain_positives and self.guarantee is not None and self.guarantee.target == "people":
            raise ConfigError(
                "a threshold that was fitted to labels does not hold where positives are explained: the "
                "strong judge's verdict takes their place; leave it out, or fit to the strong judge"
            )

    @property
    def scale(self) -> Scale:
        """The scale of both."""
        return self.strong.scale

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What either needs of a trace."""
        return tuple(dict.fromkeys((*self.cheap.needs, *self.strong.needs)))

    def describe(self) -> dict[str, Any]:
        """Everything about the cascade that could change a verdict."""
        return {
            "mode": "cascade",
            "threshold": self.threshold,
            "explain_positives": self.explain_positives,
            "guarantee": None if self.guarantee is None else self.guarantee.record(),
            "scale": self.scale.model_dump(),
            CHEAP: {"route": self.routes[0], **self.cheap.describe()},
            STRONG: {"route": self.routes[1], **self.strong.describe()},
        }

    def inquire(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> Inquiry:
        """Plan the judging of one trace: the cheap judge's waves, then the strong one's."""
        first = yield from route_inquiry(self.cheap.inquire(trace, known), self.routes[0])
        kept = {
            outcome.chunk_id: outcome
            for outcome in first.outcomes
            if outcome.kind == "verdict" and self.keeps(outcome)
        }
        second = yield from route_inquiry(self.strong.inquire(trace, {**kept, **known}), self.routes[1])
        unasked = {
            chunk.id for chunk in trace.chunks if not chunk.text or chunk.text.isspace()
        } | known.keys()
        outcomes = tuple(
            outcome
            if outcome.chunk_id in unasked
            else _of_stage(outcome, CHEAP if outcome.chunk_id in kept else STRONG)
            for outcome in second.outcomes
        )
        asked_once = unasked | kept.keys()
        return Judgment(
            trace_id=trace.id,
            outcomes=outcomes,
            calls=(*first.calls, *second.calls),
            votes={
                CHEAP: tuple(_vote(o, o.chunk_id not in unasked) for o in first.outcomes),
                STRONG: tuple(_vote(o, o.chunk_id not in asked_once) for o in second.outcomes),
            },
            claims=second.claims or first.claims,
        )

    def keeps(self, verdict: Verdict) -> bool:
        """Tell whether a verdict of the cheap judge stands."""
        if self.explain_positives and verdict.relevant:
            return False
        return is_sure(verdict.sureness, self.threshold)


def _of_stage(outcome: Outcome, stage: Stage) -> Outcome:
    return outcome.model_copy(update={"stage": stage}) if outcome.kind == "verdict" else outcome


def _vote(outcome: Outcome, asked: bool) -> int | None:
    return outcome.grade if asked and outcome.kind == "verdict" else None
