"""The confidence from which a cheap judge's verdict may stand, with a guarantee for the risk.

A cascade asks a cheap judge first. It keeps the verdicts whose confidence reaches a threshold, and escalates
the others to a strong judge. The threshold is fitted here on one random chunk of each of n traces drawn
uniformly, which both judges have seen and neither was tuned on. Several chunks of a trace, or chunks chosen
for being doubtful, are no independent trials: the guarantee is void for them.

The risk is the chance that the cascade's answer for such a chunk is not the target's; each trace weighs the
same, however many chunks it has. Thresholds are tried from the safest, which escalates all, to the loosest,
each by the exact binomial test at the one level, up to the first that fails: a fixed sequence needs no
correction for their number (Angelopoulos et al. 2021, "Learn then Test"). The risk of the last that passed is
above alpha in at most 1 - level of all fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints, verdicts
from judge_eval.stats.acceptance import errors_allowed, traces_needed
from judge_eval.stats.cascade_fit import CascadeFit, CascadeTarget, CurvePoint
from judge_eval.stats.estimate import Estimate, Interval
from judge_eval.stats.intervals import exact_upper, proportion_interval
from judge_eval.stats.paired_rates import score_bounds
from judge_eval.sureness import CONFIDENCE_GRID, hundredths

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
    """Fit the threshold of a cascade whose answers are to be people's.

    An item is an error where the cascade's answer, the cheap verdict if kept and else the strong one, is not
    the label. So the strong judge's own errors count too: alpha must lie above the strong judge's error
    rate, and where escalating all is not shown to be within alpha there is no threshold, nor a guarantee.
    The errors may rise and fall with the threshold; what passes beyond a failure is not taken.

    Args:
        confidence: As in `fit_cascade`.
        cheap: As in `fit_cascade`.
        strong: As in `fit_cascade`.
        people: The labels, 1 for relevant and 0 for not, shape (n,).
        alpha: The greatest risk against the labels, between 0 and 1.
        level: How sure to be of it, between 0 and 1.

    Raises:
        ValueError: As `fit_cascade`.
    """
    sides = _Sides.of(confidence, cheap, strong)
    labels = verdicts(people, "people")
    if labels.size != sides.strong.size:
        raise ValueError(f"people has {labels.size} values, strong has {sides.strong.size}; pair them")
    return _fit("people", sides, labels, alpha, level)


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """What both judges said of each item, shape (n,) each."""

    place: Ints
    """How many thresholds of the grid the confidence reaches: 0 is never kept."""
    given: npt.NDArray[np.bool_]
    """Whether the cheap judge gave a verdict."""
    cheap: Floats
    strong: Floats

    @classmethod
    def of(cls, confidence: Iterable[float | None], cheap: npt.ArrayLike, strong: npt.ArrayLike) -> _Sides:
        # Plain floats are ten times as fast one by one as an array's.
        each_one = confidence.tolist() if isinstance(confidence, np.ndarray) else confidence
        reached = [None if each is None else hundredths(each) for each in each_one]
        first, second = verdicts(cheap, "cheap"), verdicts(strong, "strong")
        if not len(reached) == first.size == second.size:
            raise ValueError(
                f"confidence has {len(reached)} values, cheap {first.size}, strong {second.size}; pair them"
            )
        least = round(CONFIDENCE_GRID[0] * 100) - 1
        place = np.array([0 if each is None else max(0, each - least) for each in reached], dtype=np.int64)
        given = np.array([each is not None for each in reached], dtype=np.bool_)
        return cls(place, given, first, second)


def _fit(target: CascadeTarget, sides: _Sides, truth: Floats, alpha: float, level: float) -> CascadeFit:
    n = int(truth.size)
    cheap_wrong, strong_wrong = sides.cheap != truth, sides.strong != truth
    escalated = int(strong_wrong.sum())
    kept = _reaching(sides.place)
    kept_errors = _reaching(sides.place[cheap_wrong])
    errors = kept_errors + escalated - _reaching(sides.place[strong_wrong])
    allowed = errors_allowed(n, alpha=alpha, level=level)
    passed = allowed is not None and escalated <= allowed
    at = _SIZE
    if allowed is not None and passed:
        failures = np.flatnonzero(errors > allowed)
        at = int(failures[-1]) + 1 if failures.size else 0
    # Beyond the grid, all is escalated.
    threshold = CONFIDENCE_GRID[at] if at < _SIZE else None
    stands = sides.place > at
    answer = np.where(stands, sides.cheap, sides.strong)
    held = target == "strong" or passed
    bound = None
    if held:
        free = allowed is None or (target == "strong" and threshold is None)
        bound = 0.0 if free else exact_upper(allowed, n, level=level)
    people = target == "people"
    return CascadeFit(
        target=target,
        alpha=alpha,
        level=level,
        n=n,
        needed=traces_needed(alpha=alpha, level=level),
        allowed=allowed,
        threshold=threshold,
        holds=held,
        errors=int((answer != truth).sum()),
        bound=bound,
        kept=int(stands.sum()),
        kept_risk=_kept_risk(int((stands & cheap_wrong).sum()), int(stands.sum()), level),
        wrongly_relevant=int((answer > truth).sum()),
        wrongly_irrelevant=int((answer < truth).sum()),
        cheap_alone=_rate(int(cheap_wrong[sides.given].sum()), int(sides.given.sum()), level),
        strong_alone=_rate(escalated, n, level) if people else None,
        over_strong=_over_strong(stands, cheap_wrong, strong_wrong, level) if people and at < _SIZE else None,
        curve=tuple(
            CurvePoint(*point) for point in zip(CONFIDENCE_GRID, errors.tolist(), kept.tolist(), strict=True)
        ),
    )


def _reaching(place: Ints) -> Ints:
    """Count the items that reach each threshold of the grid, shape (51,)."""
    return np.bincount(place, minlength=_SIZE + 1)[::-1].cumsum()[::-1][1:].astype(np.int64)


@lru_cache(maxsize=1024)
def _rate(errors: int, n: int, level: float) -> Estimate:
    return proportion_interval(errors, n, level=level, method="exact")


def _all_at_once(level: float) -> float:
    """Return the level of each threshold's interval under which all of them hold at the level together.

    The threshold was chosen by the very errors that the interval is made of (Bonferroni).
    """
    return 1 - (1 - level) / _SIZE


def _kept_risk(errors: int, kept: int, level: float) -> Estimate:
    found = _rate(errors, kept, _all_at_once(level))
    if found.interval is None:
        return found
    ends = found.interval
    return Estimate(found.value, Interval(ends.low, ends.high, level, "exact, all thresholds at once"), kept)


def _over_strong(
    stands: npt.NDArray[np.bool_],
    cheap_wrong: npt.NDArray[np.bool_],
    strong_wrong: npt.NDArray[np.bool_],
    level: float,
) -> Estimate:
    better = int((stands & strong_wrong & ~cheap_wrong).sum())
    worse = int((stands & cheap_wrong & ~strong_wrong).sum())
    low, high = score_bounds(better, worse, stands.size, level=_all_at_once(level))
    value = (worse - better) / stands.size
    return Estimate(value, Interval(low, high, level, "score, all thresholds at once"), stands.size)
