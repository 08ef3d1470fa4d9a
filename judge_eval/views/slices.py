"""What people read of figures by slice."""

from __future__ import annotations

from collections.abc import Sequence

from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.slices import FEWEST, SliceBy, SliceFigure, slice_figures, slices_of
from judge_eval.views.blocks import Section, Sentence, TableColumns, Toned, make_table


def slices_section(figures: Sequence[SliceFigure], against: str = "the other traces") -> Section:
    """List slices; those that differ are set off."""
    columns: TableColumns = [
        *("by", "slice", "figure", ("n", "count"), ("mean", "number"), ("difference", "signed")),
        *(("95% interval", "signed interval"), ("p (Holm)", "p"), "verdict"),
    ]
    rows = [
        (
            *(f.by, f.name, f.figure, f.n, f.mean, f.difference, f.interval, f.p),
            Toned(f.verdict, "strong" if f.verdict == "differs" else "plain"),
        )
        for f in figures
    ]
    words = f"Slices against {against}; fewer than {FEWEST} traces, or too little power to see .05, cannot say."
    return Section("slices", (make_table("slices", columns, rows), Sentence(words)))


def run_slices(run: Run, by: Sequence[SliceBy]) -> list[SliceFigure]:
    """Return every metric of a run by slice."""
    results = list(run.results)
    kinds = [(each, slices_of(results, each)) for each in dict.fromkeys(by)]
    key = run.manifest.intervals.cluster
    clusters = [str(r.trace.metadata.get(key) or f" {place}") for place, r in enumerate(results)]
    return [
        figure
        for name in run.manifest.metrics
        for figure in slice_figures(name, [nan(r.scores.get(name)) for r in results], kinds, clusters)
    ]


def nan(value: float | None) -> float:
    """Return NaN for none."""
    return float("nan") if value is None else value
