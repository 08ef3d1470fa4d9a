"""Statistics of scores and of agreement, on NumPy alone; each module is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judge_eval.stats.agreement import (
        ConfusionMatrix,
        Detection,
        auc,
        cohen_kappa,
        confusion_matrix,
        detection,
        gwet_ac1,
        krippendorff_alpha,
    )
    from judge_eval.stats.calibration import (
        IsotonicCalibration,
        ThresholdCalibration,
        calibrate_isotonic,
        calibrate_threshold,
    )
    from judge_eval.stats.correction import CorrectedMean, ppi_mean, ppi_mean_sampled
    from judge_eval.stats.estimate import Estimate, Interval
    from judge_eval.stats.figures import (
        TraceDisagreement,
        agreement_figures,
        agreement_of,
        alpha_interval,
        disagreements,
    )
    from judge_eval.stats.intervals import Quantiles, breakdown, mean_interval, proportion_interval, quantiles
    from judge_eval.stats.paired import NonInferiority, PairedComparison, compare_paired, non_inferiority
    from judge_eval.stats.power import minimal_detectable_difference
    from judge_eval.stats.prevalence import CorrectedRate, rogan_gladen
    from judge_eval.stats.randomisation import PairDifference, Randomisation, holm, sign_flip_test, tukey_hsd
    from judge_eval.stats.rank_overlap import rbo
    from judge_eval.stats.rankings import ranking_figures
    from judge_eval.stats.ranks import kendall_tau_b, spearman, tau_ap
    from judge_eval.stats.resample import Resampler, resample_interval
    from judge_eval.stats.sampling import Sample, simple_random_sample, stratified_sample

_HOMES = {
    "ConfusionMatrix": "agreement",
    "CorrectedMean": "correction",
    "CorrectedRate": "prevalence",
    "Detection": "agreement",
    "Estimate": "estimate",
    "Interval": "estimate",
    "IsotonicCalibration": "calibration",
    "NonInferiority": "paired",
    "PairDifference": "randomisation",
    "PairedComparison": "paired",
    "Quantiles": "intervals",
    "Randomisation": "randomisation",
    "Resampler": "resample",
    "Sample": "sampling",
    "ThresholdCalibration": "calibration",
    "TraceDisagreement": "figures",
    "agreement_figures": "figures",
    "agreement_of": "figures",
    "alpha_interval": "figures",
    "auc": "agreement",
    "breakdown": "intervals",
    "calibrate_isotonic": "calibration",
    "calibrate_threshold": "calibration",
    "cohen_kappa": "agreement",
    "compare_paired": "paired",
    "confusion_matrix": "agreement",
    "detection": "agreement",
    "disagreements": "figures",
    "gwet_ac1": "agreement",
    "holm": "randomisation",
    "kendall_tau_b": "ranks",
    "krippendorff_alpha": "agreement",
    "mean_interval": "intervals",
    "minimal_detectable_difference": "power",
    "non_inferiority": "paired",
    "ppi_mean": "correction",
    "ppi_mean_sampled": "correction",
    "proportion_interval": "intervals",
    "quantiles": "intervals",
    "ranking_figures": "rankings",
    "rbo": "rank_overlap",
    "resample_interval": "resample",
    "rogan_gladen": "prevalence",
    "sign_flip_test": "randomisation",
    "simple_random_sample": "sampling",
    "spearman": "ranks",
    "stratified_sample": "sampling",
    "tau_ap": "ranks",
    "tukey_hsd": "randomisation",
}

__all__ = [
    "ConfusionMatrix",
    "CorrectedMean",
    "CorrectedRate",
    "Detection",
    "Estimate",
    "Interval",
    "IsotonicCalibration",
    "NonInferiority",
    "PairDifference",
    "PairedComparison",
    "Quantiles",
    "Randomisation",
    "Resampler",
    "Sample",
    "ThresholdCalibration",
    "TraceDisagreement",
    "agreement_figures",
    "agreement_of",
    "alpha_interval",
    "auc",
    "breakdown",
    "calibrate_isotonic",
    "calibrate_threshold",
    "cohen_kappa",
    "compare_paired",
    "confusion_matrix",
    "detection",
    "disagreements",
    "gwet_ac1",
    "holm",
    "kendall_tau_b",
    "krippendorff_alpha",
    "mean_interval",
    "minimal_detectable_difference",
    "non_inferiority",
    "ppi_mean",
    "ppi_mean_sampled",
    "proportion_interval",
    "quantiles",
    "ranking_figures",
    "rbo",
    "resample_interval",
    "rogan_gladen",
    "sign_flip_test",
    "simple_random_sample",
    "spearman",
    "stratified_sample",
    "tau_ap",
    "tukey_hsd",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'judge_eval.stats' has no attribute {name!r}")
    value = getattr(import_module(f"judge_eval.stats.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
