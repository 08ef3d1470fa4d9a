"""How reliable a judge's probabilities are, measured against labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from judge_eval.record import Record
from judge_eval.runs.columns.verdict_table import Places
from judge_eval.stats.figure import Figure
from judge_eval.stats.probabilities import ReliabilityBin, ReliabilityFigures, reliability_figures

_FIGURES = ("ece", "brier", "log_loss", "bias")


class Reliability(Record):
    """Probabilities beside labels; see `judge_eval.stats.probabilities`."""

    n: int
    """Labelled chunks whose verdict has a probability."""
    traces: int
    without: int = 0
    """Labelled chunks whose verdict has none; they are in no figure here."""
    bins: tuple[ReliabilityBin, ...]
    """In the order of their probabilities; about equally many chunks in each, equal ones together."""
    figures: dict[str, Figure]
    """`ece` (expected calibration error), `brier`, `log_loss` and `bias` (mean probability minus the share
    that is relevant)."""

    @classmethod
    def of(cls, probabilities: ReliabilityFigures, without: int = 0) -> Reliability:
        """Write figures down."""
        figures = {name: getattr(probabilities, name) for name in _FIGURES}
        n, traces = figures["ece"].n, figures["ece"].traces or 0
        return cls(n=n, traces=traces, without=without, bins=tuple(probabilities.bins), figures=figures)


def reliability_of(
    probabilities: npt.ArrayLike, relevant: npt.ArrayLike, rows: Places, *, seed: int = 0
) -> Reliability | None:
    """Measure the judge's probabilities (NaN: none; all NaN: None) against labels; all of shape (n,)."""
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(relevant, dtype=np.float64)
    there = ~np.isnan(p)
    if not there.any():
        return None
    reliability = reliability_figures(p[there], y[there], rows[there], seed=seed)
    return Reliability.of(reliability, int(p.size - there.sum()))
