"""Settings of new lists that half of the questions choose for the others: a threshold of scores, a sweep's values."""

import numpy as np

from judge_eval.errors import DataError
from judge_eval.pools.joining import NO_GRADE, read_lists
from judge_eval.record import Record
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import fill_clusters
from judge_eval.stats import Resampler
from judge_eval.stats._arrays import group_codes
from judge_eval.stats.figure import Figure


class SweepPoint(Record):
    """What one value gives over all questions."""

    value: float
    mean: Figure
    difference: Figure
    """From the first run's own lists, paired."""


class SweepReport(Record):
    """A parameter through its values, and the winner on questions that had no say in choosing it."""

    metric: str
    parameter: str
    recipe: str
    """The other settings."""
    baseline: str
    """The run whose lists the differences are from."""
    questions: int
    points: tuple[SweepPoint, ...]
    chosen: tuple[float, float]
    """The best value of each half of the questions."""
    held_out: Figure
    """The mean over all questions, each under the value that the other half chose."""
    held_out_difference: Figure
    less_is_better: bool = False


MOST_TRIED = 101
"""How many thresholds are tried, quantiles of the scores."""


class ScoreCut(Record):
    """Precision and recall of a cut, each question under the threshold that the other half of them chose by F1."""

    thresholds: tuple[float, float]
    """The best of each half."""
    precision: Figure
    recall: Figure
    """Of the relevant chunks that were retrieved."""
    uncut: Figure
    """Precision without a cut; its recall is 1."""
    questions: int


def cut_by_score(run: Run, *, seed: int = 0) -> ScoreCut:
    """Choose a threshold of the retriever's scores by cross-fitting; failed verdicts are left out.

    Higher scores are better ones; `seed` is of the halves and of the bootstrap over questions (or clusters).

    Raises:
        DataError: A chunk has no score, or no relevant chunk was found.
    """
    lists = read_lists(run)
    if (bare := np.flatnonzero(np.isnan(lists.scores))).size:
        raise DataError(f"chunk {lists.chunk_ids[bare[0]]!r} has no score; a threshold needs the retriever's scores")
    judged = np.flatnonzero(lists.grades != NO_GRADE)
    score, hit = lists.scores[judged], (lists.grades[judged] >= lists.scale.relevant).astype(np.float64)
    if not hit.any():
        raise DataError(f"run {run.name} has no relevant chunk; no threshold can be chosen")
    codes, groups = group_codes(fill_clusters(lists.clusters), len(lists.questions))
    group = np.repeat(codes, np.diff(lists.starts))[judged]
    half = (np.random.default_rng(seed).permutation(groups) % 2)[group]
    tried = np.unique(np.quantile(score, np.linspace(0, 1, MOST_TRIED), method="lower"))
    best = []
    for side in (0, 1):
        mine = half == side
        kept = score[mine] >= tried[:, None]
        f1 = 2 * (kept * hit[mine]).sum(axis=1) / np.maximum(kept.sum(axis=1) + hit[mine].sum(), 1)
        best.append(float(tried[int(np.argmax(f1))]))
    kept = score >= np.where(half == 0, best[1], best[0])
    parts = np.column_stack([kept * hit, kept, hit, np.ones(len(hit))])
    sums = np.column_stack([np.bincount(group, column, groups) for column in parts.T])
    draws = Resampler(sums, seed=seed)

    def share(above: int, below: int) -> Figure:
        return draws.estimate(lambda totals: totals[:, above] / np.maximum(totals[:, below], 1))

    return ScoreCut(
        thresholds=(best[0], best[1]),
        precision=share(0, 1),
        recall=share(0, 2),
        uncut=share(2, 3),
        questions=len(lists.questions),
    )
