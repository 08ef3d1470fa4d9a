"""Statistics of scores and of agreement, on NumPy alone.

Each module is loaded when it is first used: a run's means need five of them, and the others would add 27 ms
to its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge_eval.lazy import attach

if TYPE_CHECKING:
    from judge_eval.stats.acceptance import errors_allowed, traces_needed
    from judge_eval.stats.agreement import cohen_kappa
    from judge_eval.stats.calibration import (
        IsotonicCalibration,
        ThresholdCalibration,
        calibrate_isotonic,
        calibrate_threshold,
    )
    from judge_eval.stats.cascade_costs import CascadeCost, cascade_cost
    from judge_eval.stats.cascade_fit import CascadeFit, CurvePoint
    from judge_eval.stats.cascade_threshold import fit_cascade, fit_cascade_to_people
    from judge_eval.stats.correction import CorrectedMean, ppi_mean, ppi_mean_sampled
    from judge_eval.stats.estimate import Estimate, Interval
    from judge_eval.stats.figures import agreement_figures, agreement_of, alpha_interval, ranking_figures
    from judge_eval.stats.intervals import breakdown, mean_interval, proportion_interval
    from judge_eval.stats.paired import PairedComparison, compare_paired
    from judge_eval.stats.power import minimal_detectable_difference
    from judge_eval.stats.prevalence import CorrectedRate, rogan_gladen
    from judge_eval.stats.randomisation import PairDifference, Randomisation, holm, sign_flip_test, tukey_hsd
    from judge_eval.stats.rank_correlation import kendall_tau_b, rbo, spearman, tau_ap
    from judge_eval.stats.resample import Resampler
    from judge_eval.stats.sampling import Sample, simple_random_sample, stratified_sample

_MODULES = {
    "acceptance": ("errors_allowed", "traces_needed"),
    "agreement": ("cohen_kappa",),
    "calibration": (
        "IsotonicCalibration",
        "ThresholdCalibration",
        "calibrate_isotonic",
        "calibrate_threshold",
    ),
    "cascade_threshold": ("fit_cascade", "fit_cascade_to_people"),
    "cascade_costs": ("CascadeCost", "cascade_cost"),
    "cascade_fit": ("CascadeFit", "CurvePoint"),
    "correction": ("CorrectedMean", "ppi_mean", "ppi_mean_sampled"),
    "estimate": ("Estimate", "Interval"),
    "figures": ("agreement_figures", "agreement_of", "alpha_interval", "ranking_figures"),
    "intervals": ("breakdown", "mean_interval", "proportion_interval"),
    "paired": ("PairedComparison", "compare_paired"),
    "power": ("minimal_detectable_difference",),
    "prevalence": ("CorrectedRate", "rogan_gladen"),
    "randomisation": ("PairDifference", "Randomisation", "holm", "sign_flip_test", "tukey_hsd"),
    "rank_correlation": ("kendall_tau_b", "rbo", "spearman", "tau_ap"),
    "resample": ("Resampler",),
    "sampling": ("Sample", "simple_random_sample", "stratified_sample"),
}

__all__ = [
    "CascadeCost", "CascadeFit", "CorrectedMean", "CorrectedRate", "CurvePoint", "Estimate", "Interval",
    "IsotonicCalibration", "PairDifference", "PairedComparison", "Randomisation", "Resampler", "Sample",
    "ThresholdCalibration", "agreement_figures", "agreement_of", "alpha_interval", "breakdown",
    "calibrate_isotonic", "calibrate_threshold", "cascade_cost", "cohen_kappa", "compare_paired",
    "errors_allowed", "fit_cascade", "fit_cascade_to_people", "holm", "kendall_tau_b", "mean_interval",
    "minimal_detectable_difference", "ppi_mean", "ppi_mean_sampled", "proportion_interval",
    "ranking_figures", "rbo", "rogan_gladen", "sign_flip_test", "simple_random_sample", "spearman",
    "stratified_sample", "tau_ap", "traces_needed", "tukey_hsd",
]  # fmt: skip

__getattr__ = attach(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
