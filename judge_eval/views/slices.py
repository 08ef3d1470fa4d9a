"""What people read of figures by slice."""

from collections.abc import Iterator, Sequence

from judge_eval.note import unsliced
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.slices import FEWEST, SliceFigure, run_slices
from judge_eval.safe_text import counted
from judge_eval.views import blocks
from judge_eval.views.blocks import DIFFERENCE, Column, Section, TableColumns, Toned, make_section, make_table
from judge_eval.views.note_sentences import note_sentence

SLICES = "Slices: by tag, language, length, source"
"""What a page calls them."""
MOST_SLICES = 100
"""How many slices of a figure are listed, those that differ first if there are more."""


def slice_sections(figures: Sequence[SliceFigure], against: str = "the other traces") -> Iterator[Section]:
    """List slices, of a comparison a table for each metric; those that differ are set off."""
    if not figures:
        return
    tested = sum(f.p is not None for f in figures)
    apart = [figures]
    if figures[0].wins is not None:
        apart = [[f for f in figures if f.figure == name] for name in dict.fromkeys(f.figure for f in figures)]
    tables = [_table(each, tested) for each in apart]
    words = f"Slices against {against}; fewer than {FEWEST} traces, or too little power to see .05, cannot say."
    if any(f.verdict == "not tested" for f in figures):
        words += (
            " Of a kind with more than 20 values those five are shown, without a test, whose traces lost most in sum; "
            "--by tests them all."
        )
    if any(f.by == "language" and f.name.startswith("(") for f in figures):
        words += " A script in brackets is guessed from the question, because the trace states no language."
    differ = dict.fromkeys(f"{f.by} {f.name}" for f in figures if f.verdict == "differs")
    some = ", ".join([*differ][:3]) + (", ..." if len(differ) > 3 else "")
    count = sum(f.verdict == "differs" for f in figures)
    folded = f"{counted(len(figures), 'figure')} by slice, {count} differ{some and ': '}{some}"
    yield make_section("slices", *tables, words, folded=folded)


def _table(figures: Sequence[SliceFigure], tested: int) -> blocks.TableBlock:
    changes = figures[0].wins is not None  # of a comparison: the mean is the difference
    listed = list(figures)
    if len(listed) > MOST_SLICES:
        listed.sort(key=lambda f: (2.0 if f.p is None else f.p, -f.n))
    rows = []
    for f in listed[:MOST_SLICES]:
        name = f.name if not f.same else f"{f.name} (= {', '.join(f.same)})"
        wins, losses = f.wins or 0, f.losses or 0
        mean, counts = (None, f"{wins}/{f.n - wins - losses}/{losses}") if changes else (f.mean, None)
        verdict: str = f.verdict
        if verdict == "not confirmed" and tested > 1:
            verdict = f"not shown after correction for {tested:,} figures"
        shown = Toned(verdict, "strong" if f.verdict == "differs" else "plain")
        rows.append((f.by, name, f.figure, f.n, mean, f.difference, f.interval, f.p, counts, shown))
    columns: TableColumns = [
        *("by", "slice", "figure", ("n", "count"), Column("mean", "number", optional=True), *DIFFERENCE),
        *(("p (Holm)", "p"), Column("win/tie/loss", "counts", optional=True), "verdict"),
    ]
    return make_table("slices", columns, rows, len(listed) - len(rows), "slices")


def slices_of_run(run: Run) -> Iterator[Section]:
    """List every metric of a run by the slices that it was asked for."""
    if run.manifest.intervals.by:
        figures = run_slices(run)
        yield from slice_sections(figures)
        if none := unsliced(figures, run.manifest.intervals.by):
            yield make_section("slices", *map(note_sentence, none))
