"""Threshold of a cascade: how it is fitted, what it keeps and what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from judge_eval.confidence import CONFIDENCE_GRID, hundredths
from judge_eval.stats._arrays import Floats, Ints, verdicts
from judge_eval.stats.figure import CLOSED, Figure, Interval
from judge_eval.stats.intervals import exact_upper, proportion_interval
from judge_eval.stats.paired import score_bounds
from judge_eval.stats.sampling import errors_allowed, traces_needed

CascadeTarget = Literal["strong", "people"]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What one threshold would do to the items it was fitted on."""

    threshold: float
    errors: int
    """How many answers of the cascade are not the target's."""
    kept: int
    """How many of the cheap judge's verdicts would stand."""

    __pydantic_config__ = CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeFit:
    """A threshold for the cheap judge's confidence, with what it rests on."""

    target: CascadeTarget
    """Whose answer is right: the strong judge's, or people's."""
    alpha: float
    """The greatest risk wanted: the share of the cascade's answers that are not the target's."""
    level: float
    """How sure it is that the risk is at most alpha, such as 0.95."""
    n: int
    """How many items it was fitted on, one a trace."""
    needed: int
    """The fewest items that can show anything, if none errs; with fewer, all is escalated."""
    allowed: int | None = None
    """The most errors under which a threshold passes; None where n is too small for any."""
    threshold: float | None = None
    """Keep a verdict whose confidence reaches it (`is_sure`); None: escalate all."""
    holds: bool
    """Whether the risk of this answer is at most alpha at the level.

    It always is with the strong judge as the target: if all is escalated nothing differs from it. With people
    as the target it is false if not even escalating all is shown to be within alpha."""
    errors: int
    """The cascade's answers that are not the target's, at the threshold (or with all escalated)."""
    bound: float | None = None
    """The upper bound of the risk at the level, at most alpha; None if nothing holds.

    Clopper and Pearson's for the errors that were allowed. That for the errors seen would not hold for a
    threshold that was chosen by them."""
    kept: int
    """The items whose cheap verdict stands."""
    kept_risk: Figure
    """The share of errors within the kept, with an exact interval that holds for all thresholds at once."""
    wrongly_relevant: int
    """Errors in which the cascade says relevant and the target not."""
    wrongly_irrelevant: int
    """Errors in which the target says relevant and the cascade not."""
    cheap_alone: Figure
    """The share of the cheap judge's own verdicts that are not the target's, exact interval."""
    strong_alone: Figure | None = None
    """The same of the strong judge, where people are the target."""
    over_strong: Figure | None = None
    """The cascade's risk minus the strong judge's, on the same items, where people are the target.

    The score interval for paired rates, for all thresholds at once; None if all is escalated."""
    curve: tuple[CurvePoint, ...]
    """Every threshold of the grid, ascending."""

    __pydantic_config__ = CLOSED

    @property
    def coverage(self) -> float:
        """The share of items whose cheap verdict stands."""
        return self.kept / self.n if self.n else 0.0


CascadeChoice = Literal["cheap", "strong", "cascade"]


@dataclass(frozen=True, slots=True)
class CascadeCost:
    """The cost of a thousand verdicts, in the unit that was given, such as dollars."""

    cascade: float
    """By the cascade: the cheap judge for all, the strong one for what is escalated."""
    break_even: float | None
    """The coverage from which on a cascade costs less than the strong judge alone; None where none does."""
    choice: CascadeChoice
    """The cheapest that keeps the target where the fit holds: a plain judge if cheaper, or just as good."""


def cascade_cost(fit: CascadeFit, cheap: float, strong: float, *, asked: float | None = None) -> CascadeCost:
    """Return the cost of a thousand verdicts of the cascade, beside that of its two judges.

    The cascade costs cheap + asked * strong a verdict.

    Args:
        fit: The cascade's threshold, with the share it keeps.
        cheap: The cost of one verdict of the cheap judge, >= 0.
        strong: That of the strong judge, in the same unit.
        asked: The share of chunks that the strong judge is asked about, from 0 to 1; by default the share
            escalated. It is larger for a judge that reads whole traces.

    Returns:
        The costs, with the choice they suggest: the cheap judge alone only if every item was kept.

    Raises:
        ValueError: A cost is negative or not finite.
    """
    for name, cost in (("cheap", cheap), ("strong", strong)):
        if not (cost >= 0 and math.isfinite(cost)):
            raise ValueError(f"{name}: the cost of a verdict must be 0 or more, got {cost!r}")
    cascade = cheap + (1 - fit.coverage if asked is None else asked) * strong
    choice: CascadeChoice = "cascade"
    if fit.kept == 0 or cascade >= strong:
        choice = "strong"
    elif fit.kept == fit.n:
        choice = "cheap"
    return CascadeCost(1000 * cascade, cheap / strong if cheap < strong else None, choice)


_SIZE = len(CONFIDENCE_GRID)


def fit_cascade(
    confidence: Iterable[float | None],
    cheap: npt.ArrayLike,
    strong: npt.ArrayLike,
    *,
    alpha: float = 0.05,
    level: float = 0.95,
) -> CascadeFit:
    """Fit the threshold of a cascade whose answers are to be the strong judge's.

    An item is an error at a threshold where its cheap verdict is kept and is not the strong one's. Errors
    are counted over all n items, kept or not, and never rise with the threshold: the answer is the least
    threshold which, with every higher one, has no more errors than allowed (`errors_allowed`).

    Args:
        confidence: The probability of the side that the cheap verdict took (`side_confidence`), one item a
            trace, n of them; None where the cheap judge gave no verdict: always escalated.
        cheap: 1 where the cheap verdict is relevant, 0 where it is not, shape (n,); any where it gave none.
        strong: The strong judge's, likewise. A verdict that failed is to be asked for again: leaving its
            trace out would favour what is easily judged.
        alpha: The greatest risk, between 0 and 1.
        level: How sure to be of it, between 0 and 1.

    Raises:
        ValueError: A value or an option is out of its range, or lengths differ.
    """
    sides = _Sides.of(confidence, cheap, strong)
    return _fit("strong", sides, sides.strong, alpha, level)


def fit_cascade_to_people(
    confidence: Iterable[float | None],
    cheap: npt.ArrayLike,
    strong: npt.ArrayLike,
    people: npt.ArrayLike,
    *,
    alpha: float = 0.05,
    level: float = 0.95,
) -> CascadeFit:
    """Fit the threshold of a cascade whose answers are to be people's; otherwise as `fit_cascade`.

    `people` are the labels, 1 for relevant and 0 for not, shape (n,). An item is an error if the cascade's answer, the
    cheap verdict if kept and else the strong one, is not the label. The strong judge's own errors count too: alpha must
    lie above its error rate. If escalating all is not shown to be within alpha, there is no threshold and no guarantee.
    The errors may rise and fall with the threshold; a threshold passes only if every higher one does.
    """
    sides = _Sides.of(confidence, cheap, strong)
    labels = verdicts(people, "people")
    if labels.size != sides.strong.size:
        raise ValueError(f"people has {labels.size} values, strong has {sides.strong.size}; pair them")
    return _fit("people", sides, labels, alpha, level)


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """The verdicts of both judges on each item, shape (n,) each."""

    place: Ints
    """How many thresholds of the grid the confidence reaches: 0 is never kept."""
    known: npt.NDArray[np.bool_]
    """Whether the cheap judge gave a verdict."""
    cheap: Floats
    strong: Floats

    @classmethod
    def of(cls, confidence: Iterable[float | None], cheap: npt.ArrayLike, strong: npt.ArrayLike) -> _Sides:
        # Plain floats are ten times as fast as those of an array.
        values = confidence.tolist() if isinstance(confidence, np.ndarray) else confidence
        reached = [None if each is None else hundredths(each) for each in values]
        first, second = verdicts(cheap, "cheap"), verdicts(strong, "strong")
        if not len(reached) == first.size == second.size:
            raise ValueError(
                f"confidence has {len(reached)} values, cheap {first.size}, strong {second.size}; pair them"
            )
        least = round(CONFIDENCE_GRID[0] * 100) - 1
        place = np.array([0 if each is None else max(0, each - least) for each in reached], dtype=np.int64)
        known = np.array([each is not None for each in reached], dtype=np.bool_)
        return cls(place, known, first, second)


def _fit(target: CascadeTarget, sides: _Sides, truth: Floats, alpha: float, level: float) -> CascadeFit:
    n = int(truth.size)
    cheap_wrong, strong_wrong = sides.cheap != truth, sides.strong != truth
    escalated = int(strong_wrong.sum())
    kept = _reaching(sides.place)
    kept_errors = _reaching(sides.place[cheap_wrong])
    errors = kept_errors + escalated - _reaching(sides.place[strong_wrong])
    allowed, at, target_met, bound = decide(target, n, escalated, errors.tolist(), alpha=alpha, level=level)
    stands = sides.place > at
    answer = np.where(stands, sides.cheap, sides.strong)
    people = target == "people"
    return CascadeFit(
        target=target,
        alpha=alpha,
        level=level,
        n=n,
        needed=traces_needed(alpha=alpha, level=level),
        allowed=allowed,
        threshold=CONFIDENCE_GRID[at] if at < _SIZE else None,
        holds=target_met,
        errors=int((answer != truth).sum()),
        bound=bound,
        kept=int(stands.sum()),
        kept_risk=_kept_risk(int((stands & cheap_wrong).sum()), int(stands.sum()), level),
        wrongly_relevant=int((answer > truth).sum()),
        wrongly_irrelevant=int((answer < truth).sum()),
        cheap_alone=_rate(int(cheap_wrong[sides.known].sum()), int(sides.known.sum()), level),
        strong_alone=_rate(escalated, n, level) if people else None,
        over_strong=_over_strong(stands, cheap_wrong, strong_wrong, level) if people and at < _SIZE else None,
        curve=tuple(CurvePoint(*point) for point in zip(CONFIDENCE_GRID, errors.tolist(), kept.tolist(), strict=True)),
    )


def decide(
    target: CascadeTarget, n: int, escalated: int, errors: Sequence[int], *, alpha: float, level: float
) -> tuple[int | None, int, bool, float | None]:
    """Choose the threshold by counts.

    Args:
        target: Whose answers are right.
        n: How many items there are.
        escalated: Errors if all is escalated.
        errors: Errors at each threshold of the grid, ascending.
        alpha: The greatest risk, between 0 and 1.
        level: How sure to be of it, between 0 and 1.

    Returns:
        The errors allowed, the place of the threshold in the grid (beyond it all is escalated), and `holds` and `bound`
        as in a `CascadeFit`.
    """
    allowed = errors_allowed(n, alpha=alpha, level=level)
    if allowed is None or escalated > allowed:
        holds = target == "strong"
        return allowed, len(errors), holds, 0.0 if holds else None
    failures = [place for place, count in enumerate(errors) if count > allowed]
    at = failures[-1] + 1 if failures else 0
    free = target == "strong" and at == len(errors)
    return allowed, at, True, 0.0 if free else exact_upper(allowed, n, level=level)


def _reaching(place: Ints) -> Ints:
    """Count the items that reach each threshold of the grid, shape (51,)."""
    return np.bincount(place, minlength=_SIZE + 1)[::-1].cumsum()[::-1][1:].astype(np.int64)


@lru_cache(maxsize=1024)
def _rate(errors: int, n: int, level: float) -> Figure:
    return proportion_interval(errors, n, level=level, method="exact")


def _all_at_once(level: float) -> float:
    """Return the level of each threshold's interval so that all of them hold together (Bonferroni)."""
    return 1 - (1 - level) / _SIZE


def _kept_risk(errors: int, kept: int, level: float) -> Figure:
    rate = _rate(errors, kept, _all_at_once(level))
    if rate.interval is None:
        return rate
    ends = rate.interval
    return Figure(rate.value, Interval(ends.low, ends.high, level, "exact, all thresholds at once"), kept)


def _over_strong(
    stands: npt.NDArray[np.bool_], cheap_wrong: npt.NDArray[np.bool_], strong_wrong: npt.NDArray[np.bool_], level: float
) -> Figure:
    better = int((stands & strong_wrong & ~cheap_wrong).sum())
    worse = int((stands & cheap_wrong & ~strong_wrong).sum())
    low, high = score_bounds(better, worse, stands.size, level=_all_at_once(level))
    value = (worse - better) / stands.size
    return Figure(value, Interval(low, high, level, "score, all thresholds at once"), stands.size)
