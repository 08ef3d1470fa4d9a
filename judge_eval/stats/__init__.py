"""Statistics of scores and of agreement, on NumPy alone."""

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
from judge_eval.stats.overlap import rbo
from judge_eval.stats.paired import NonInferiority, PairedComparison, compare_paired, non_inferiority
from judge_eval.stats.power import minimal_detectable_difference
from judge_eval.stats.prevalence import CorrectedRate, rogan_gladen
from judge_eval.stats.randomisation import PairDifference, Randomisation, holm, sign_flip_test, tukey_hsd
from judge_eval.stats.rankings import ranking_figures
from judge_eval.stats.ranks import kendall_tau_b, spearman, tau_ap
from judge_eval.stats.resample import Resampler, resample_interval
from judge_eval.stats.sampling import Sample, simple_random_sample, stratified_sample

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
