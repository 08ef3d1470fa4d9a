"""A judge beside a floor: a judge without a language model that any other must beat."""

from __future__ import annotations

import numpy as np

from judge_eval.runs.folder.validation import FloorComparison
from judge_eval.stats import auc, auc_difference
from judge_eval.stats.figure import Figure
from judge_eval.study.matching import Pairs


def compare_with_floor(pairs: Pairs, model: str) -> FloorComparison:
    """Compare a judge with the floor of this name, whose scores stand beside the verdicts."""
    assert pairs.floor is not None
    scores = pairs.judge if auc_of_probabilities(pairs) is None else pairs.probable
    assert scores is not None
    there = ~np.isnan(pairs.floor)
    mine, floor = scores[there], pairs.floor[there]
    relevant, units = (pairs.human >= pairs.scale.relevant)[there], pairs.units[there].tolist()
    return FloorComparison(
        model=model,
        judge=auc(mine, relevant, units),
        floor=auc(floor, relevant, units),
        difference=auc_difference(mine, floor, relevant, units),
        without=int((~there).sum()),
    )


def auc_of_probabilities(pairs: Pairs) -> Figure | None:
    """Return the AUC of a judge's probabilities; None unless the verdict on each labelled chunk has one."""
    if pairs.probable is None or np.isnan(pairs.probable).any():
        return None
    return auc(pairs.probable, pairs.human >= pairs.scale.relevant, pairs.units.tolist())
