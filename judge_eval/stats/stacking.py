"""A panel that learns: members' votes weighted by labels of other traces."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, group_codes
from judge_eval.stats.estimate import Estimate
from judge_eval.stats.intervals import mean_interval
from judge_eval.stats.logistic import fit_logistic, sigmoid
from judge_eval.stats.probabilities import (
    FEWEST,
    ReliabilityFigures,
    clipped,
    deal_folds,
    logit,
    losses,
    reliability_figures,
)

PENALTY = 1.0


@dataclass(frozen=True, slots=True)
class Stacking:
    """Members' probabilities joined by a logistic regression; every figure is of traces that were not fitted on."""

    weights: tuple[float, ...]
    """Of each member's logit, fitted on all traces."""
    intercept: float
    stacked: ReliabilityFigures
    vote: ReliabilityFigures
    """Of the share of members that call a chunk relevant, as a probability."""
    gain: Estimate
    """How much smaller the log loss of the stacked probabilities is than that of the vote."""
    adds: tuple[Estimate, ...]
    """By member, how much greater the log loss is without it."""
    effective_votes: float
    """How many independent members of the same mean error would err as this panel's mean does (Kish's design effect of
    the mean correlation of errors)."""


def stack_judges(
    probabilities: npt.ArrayLike, labels: npt.ArrayLike, traces: Iterable[Hashable], *, folds: int = 5, seed: int = 0
) -> Stacking:
    """Fit an L2-logistic regression on the members' clipped logits, cross-fitted by whole traces.

    Args:
        probabilities: Each member's that a chunk is relevant, shape (n, members); NaN where it has no verdict.
        labels: Relevant by human label (1) or not (0), shape (n,).
        traces: The trace of each chunk.
        folds: How many folds, >= 2.
        seed: Of the folds.

    Raises:
        ValueError: There are fewer than ten traces, or one kind of label.
    """
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    codes, groups = group_codes(traces, len(y), "traces")
    if groups < FEWEST or np.unique(y).size < 2:
        raise ValueError(f"{groups} labelled traces; at least {FEWEST} with labels of both kinds are needed")
    fold = deal_folds(codes, groups, folds, seed)
    logits = np.where(np.isnan(p), 0.0, logit(np.nan_to_num(p, nan=0.5)))
    held_out = _held_out(logits, y, fold)
    share = np.nanmean(np.where(np.isnan(p), np.nan, p >= 0.5), axis=1)
    vote = clipped(np.nan_to_num(share, nan=0.5))
    without = [_held_out(np.delete(logits, member, axis=1), y, fold) for member in range(p.shape[1])]

    def gained(by: Floats, over: Floats) -> Estimate:
        return mean_interval(losses(over, y) - losses(by, y), clusters=codes.tolist())

    line = _fit(logits, y)
    return Stacking(
        weights=tuple(line[1:].tolist()),
        intercept=float(line[0]),
        stacked=reliability_figures(held_out, y, codes.tolist()),
        vote=reliability_figures(vote, y, codes.tolist()),
        gain=gained(held_out, vote),
        adds=tuple(gained(held_out, other) for other in without),
        effective_votes=effective_votes(p, y),
    )


def effective_votes(probabilities: Floats, labels: Floats) -> float:
    """Return m / (1 + (m - 1) r), r the mean correlation of the errors of two members, held at 0 or more."""
    wrong = np.where(np.isnan(probabilities), np.nan, (probabilities >= 0.5) != (labels[:, None] > 0.5))
    wrong = wrong[~np.isnan(wrong).any(axis=1)]
    members = wrong.shape[1]
    varied = wrong[:, wrong.std(axis=0) > 0] if len(wrong) else wrong[:, :0]
    if varied.shape[1] < 2:
        return float(members)
    apart = np.corrcoef(varied.T)[np.triu_indices(varied.shape[1], 1)]
    return float(members / (1 + (members - 1) * max(0.0, float(apart.mean()))))


def _fit(logits: Floats, y: Floats) -> Floats:
    design = np.column_stack([np.ones(len(y)), logits])
    return fit_logistic(design, y, penalty=np.append(1e-9, np.full(logits.shape[1], PENALTY)))


def _held_out(logits: Floats, y: Floats, fold: npt.NDArray[np.int64]) -> Floats:
    out = np.empty(len(y))
    for k in np.unique(fold).tolist():
        line = _fit(logits[fold != k], y[fold != k])
        out[fold == k] = sigmoid(line[0] + logits[fold == k] @ line[1:])
    return clipped(out)
