"""Whether a judge ranks systems as people do, with intervals resampled by trace."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats
from judge_eval.stats.estimate import Estimate
from judge_eval.stats.rank_overlap import rbo
from judge_eval.stats.ranks import kendall_tau_b, spearman, tau_ap
from judge_eval.stats.resample import ResampleMethod, Resampler


def ranking_figures(
    judge: npt.ArrayLike,
    human: npt.ArrayLike,
    *,
    p: float = 0.9,
    level: float = 0.95,
    method: ResampleMethod = "percentile",
    replicates: int = 1000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Return how well the ranking of systems by a judge matches that by people.

    Systems are ranked by their mean over traces. The names are `tau_b`, `tau_ap` (the human ranking being
    the reference), `spearman` and `rbo`. Whole traces are resampled, all systems together. The percentile
    interval is the default, since ranks move in steps that BCa's corrections do not fit.

    Args:
        judge: A metric under the judge's verdicts, shape (traces, systems), finite.
        human: The same metric under human labels.
        p: The persistence of `rbo`, strictly between 0 and 1.
        level: Confidence level.
        method: `percentile` or `bca`.
        replicates: Bootstrap replicates, >= 100.
        seed: Seed of the bootstrap.

    Returns:
        Estimates by name, n being the number of traces; a value is None where a ranking does not vary, or
        there are fewer than two systems.

    Raises:
        ValueError: The shapes differ or do not fit, a value is missing, or an option is out of range.
    """
    tables = np.asarray(judge, dtype=np.float64), np.asarray(human, dtype=np.float64)
    if tables[0].ndim != 2 or tables[0].shape != tables[1].shape or tables[0].shape[0] < 1:
        shapes = f"{tables[0].shape} and {tables[1].shape}"
        raise ValueError(f"two tables of shape (traces, systems) are needed, got {shapes}")
    if not 0 < p < 1:
        raise ValueError(f"p: {p} is not between 0 and 1; 0.9 looks at about 10 ranks")
    parts = np.stack(tables, axis=1)
    draws = Resampler(parts, level=level, method=method, replicates=replicates, seed=seed)
    correlations: dict[str, Callable[[Floats, Floats], float | None]] = {
        "tau_b": kendall_tau_b,
        "tau_ap": lambda judged, labelled: tau_ap(labelled, judged),
        "spearman": spearman,
        "rbo": lambda judged, labelled: rbo(_scores(judged), _scores(labelled), p),
    }

    def each_row(correlation: Callable[[Floats, Floats], float | None]) -> Callable[[Floats], Floats]:
        def statistic(sums: Floats) -> Floats:
            found = [correlation(row[0], row[1]) for row in sums.round(10)]  # equal scores stay tied
            return np.array([np.nan if value is None else value for value in found])

        return statistic

    return {name: draws.estimate(each_row(correlation)) for name, correlation in correlations.items()}


def _scores(values: Floats) -> dict[int, float]:
    return dict(enumerate(values.tolist()))
