"""A panel that learns: members' votes weighted by labels of other traces."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

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
MOST_PANELS = 20_000
"""How many panels are tried at most."""


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


@dataclass(frozen=True, slots=True)
class BestPanel:
    """The members that are worth most within a cost; the figures are of traces that neither chose nor fitted them."""

    members: tuple[int, ...]
    """Chosen on all traces, in their order."""
    cost: float
    agreed: int
    """How many of the folds chose the same."""
    log_loss: Estimate
    right: Estimate
    """The share of chunks whose relevance the stacked members tell as the label does."""
    behind: Estimate
    """How much greater the log loss is than that of all members, stacked."""


def best_panel(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    traces: Iterable[Hashable],
    *,
    size: int = 3,
    costs: Sequence[float] | None = None,
    within: float | None = None,
    folds: int = 5,
    seed: int = 0,
) -> BestPanel:
    """Choose the panel of at most so many members with the least log loss, stacked, among those within a cost.

    Every panel is tried. What the choice is worth is measured by choosing anew without each fold of the traces.

    Args:
        probabilities: Each member's that a chunk is relevant, shape (n, members); NaN where it has no verdict.
        labels: Relevant by human label (1) or not (0), shape (n,).
        traces: The trace of each chunk.
        size: The most members, >= 1.
        costs: Of each member, >= 0; None counts members.
        within: The most that a panel may cost in all; None: anything.
        folds: How many folds, >= 2.
        seed: Of the folds.

    Raises:
        ValueError: No panel is within the cost, there are more than `MOST_PANELS`, or too few traces.
    """
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    codes, groups = group_codes(traces, len(y), "traces")
    if groups < FEWEST or np.unique(y).size < 2:
        raise ValueError(f"{groups} labelled traces; at least {FEWEST} with labels of both kinds are needed")
    price = np.ones(p.shape[1]) if costs is None else np.asarray(costs, dtype=np.float64)
    limit = np.inf if within is None else within * (1 + 1e-12)
    if sum(comb(p.shape[1], k) for k in range(1, size + 1)) > MOST_PANELS:
        raise ValueError(f"there are more than {MOST_PANELS:,} panels of up to {size} of {p.shape[1]} members")
    sizes = range(1, min(size, p.shape[1]) + 1)
    panels = [np.array(each) for k in sizes for each in combinations(range(p.shape[1]), k)]
    panels = sorted((each for each in panels if price[each].sum() <= limit), key=lambda each: float(price[each].sum()))
    if not panels:
        raise ValueError(f"the cheapest member costs {price.min():g}, more than {within:g}")
    fold = deal_folds(codes, groups, folds, seed)
    logits = np.where(np.isnan(p), 0.0, logit(np.nan_to_num(p, nan=0.5)))
    kinds = [np.unique(column, return_inverse=True) for column in logits.T]
    penalty = np.log(groups) / 2  # as BIC: a member that adds nothing is not chosen
    held_out, best, chosen = np.empty(len(y)), np.full(folds + 1, np.inf), [panels[0]] * (folds + 1)
    for panel in panels:  # equal rows are fitted once: grades have few values
        _, first, cell = np.unique(
            np.ravel_multi_index([kinds[k][1] for k in panel], [len(kinds[k][0]) for k in panel]),
            return_index=True,
            return_inverse=True,
        )
        rows, cell = logits[first][:, panel], cell.reshape(-1)
        counts = np.zeros((folds, len(rows), 2))
        np.add.at(counts, (fold, cell, y.astype(np.int64)), 1.0)
        for k in range(folds + 1):
            left = counts.sum(axis=0) - (counts[k] if k < folds else 0.0)
            weights, there = left.sum(axis=1), left.sum(axis=1) > 0
            line = _fit(rows[there], left[there, 1] / weights[there], weights[there])
            fitted = clipped(sigmoid(line[0] + rows @ line[1:]))
            loss = -float((left * np.log(np.column_stack([1 - fitted, fitted]))).sum()) + penalty * len(panel)
            if loss < best[k] - 1e-9:
                best[k], chosen[k] = loss, panel
                if k < folds:
                    held_out[fold == k] = fitted[cell[fold == k]]
    members, clusters = chosen[folds], codes.tolist()
    return BestPanel(
        members=tuple(members.tolist()),
        cost=float(price[members].sum()),
        agreed=sum(np.array_equal(each, members) for each in chosen[:folds]),
        log_loss=mean_interval(losses(held_out, y), clusters=clusters),
        right=mean_interval(((held_out >= 0.5) == (y > 0.5)).astype(float), clusters=clusters, limits=(0.0, 1.0)),
        behind=mean_interval(losses(held_out, y) - losses(_held_out(logits, y, fold), y), clusters=clusters),
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


def _fit(logits: Floats, y: Floats, weights: Floats | float = 1.0) -> Floats:
    design = np.column_stack([np.ones(len(y)), logits])
    return fit_logistic(design, y, penalty=np.append(1e-9, np.full(logits.shape[1], PENALTY)), weights=weights)


def _held_out(logits: Floats, y: Floats, fold: npt.NDArray[np.int64]) -> Floats:
    out = np.empty(len(y))
    for k in np.unique(fold).tolist():
        line = _fit(logits[fold != k], y[fold != k])
        out[fold == k] = sigmoid(line[0] + logits[fold == k] @ line[1:])
    return clipped(out)
