"""What people read of figures by slice."""

from collections.abc import Sequence

from judge_eval.runs.columns.parquet import columns_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.opened import opened
from judge_eval.runs.scoring.slices import FEWEST, SliceBy, SliceFigure, corrected_slices, slice_tests, slices_of
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
    if any(f.by == "language" and f.name.startswith("(") for f in figures):
        words += " A script in brackets is guessed from the question, because the trace states no language."
    return Section("slices", (make_table("slices", columns, rows), Sentence(words)))


def run_slices(run: Run, by: Sequence[SliceBy]) -> list[SliceFigure]:
    """Return every metric of a run by slice."""
    results = list(run.results)
    kinds = [(each, slices_of(results, each)) for each in dict.fromkeys(by)]
    key = run.manifest.intervals.cluster
    clusters = [str(r.trace.metadata.get(key) or f" {place}") for place, r in enumerate(results)]
    filled = opened(run, columns_of(run, run.manifest.metrics, key)).value  # open traces count as in the means
    return corrected_slices(
        [
            test
            for column, name in enumerate(run.manifest.metrics)
            for test in slice_tests(name, filled[:, column], kinds, clusters)
        ]
    )
