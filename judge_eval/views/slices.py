"""What people read of figures by slice."""

from collections.abc import Iterator, Sequence

from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.slices import FEWEST, SliceFigure, run_slices, unsliced
from judge_eval.safe_text import counted
from judge_eval.views.blocks import Section, Sentence, TableColumns, Toned, make_table

SLICES = "Slices: by tag, language, length, source"
"""What a page calls them."""
MOST_SLICES = 100
"""How many slices are listed, those that differ first if there are more."""


def slice_sections(figures: Sequence[SliceFigure], against: str = "the other traces") -> Iterator[Section]:
    """List slices; those that differ are set off. Without any there is nothing to say."""
    if not figures:
        return
    changes = all(f.mean == f.difference for f in figures)  # of a comparison: the mean is the difference
    means: TableColumns = [] if changes else [("mean", "number")]
    columns: TableColumns = ["by", "slice", "figure", ("n", "count"), *means, ("difference", "signed")]
    columns += [("95% interval", "signed interval"), ("p (Holm)", "p"), "verdict"]
    listed = list(figures)
    if len(listed) > MOST_SLICES:
        listed.sort(key=lambda f: (2.0 if f.p is None else f.p, -f.n))
    rows = [
        (
            *(f.by, f.name, f.figure, f.n, *(() if changes else (f.mean,)), f.difference, f.interval, f.p),
            Toned(f.verdict, "strong" if f.verdict == "differs" else "plain"),
        )
        for f in listed[:MOST_SLICES]
    ]
    words = f"Slices against {against}; fewer than {FEWEST} traces, or too little power to see .05, cannot say."
    if any(f.by == "language" and f.name.startswith("(") for f in figures):
        words += " A script in brackets is guessed from the question, because the trace states no language."
    differ = sum(f.verdict == "differs" for f in figures)
    table = make_table("slices", columns, rows, len(listed) - len(rows), "slices")
    yield Section("slices", (table, Sentence(words)), f"{counted(len(figures), 'figure')} by slice, {differ} differ")


def slices_of_run(run: Run) -> Iterator[Section]:
    """List every metric of a run by the slices that it was asked for."""
    if run.manifest.intervals.by:
        figures = run_slices(run)
        yield from slice_sections(figures)
        if none := unsliced(figures, run.manifest.intervals.by):
            yield Section("slices", tuple(map(Sentence, none)))
