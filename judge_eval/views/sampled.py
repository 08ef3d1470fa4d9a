"""What people read of a run that judged a sample of its pool."""

from collections.abc import Iterator

from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.sampled import is_sampled
from judge_eval.safe_text import counted
from judge_eval.views.blocks import Cell, Column, Section, Sentence, TableBlock


def sample_sections(run: Run) -> Iterator[Section]:
    """Yield the estimates for the whole pool; nothing of other runs."""
    if not is_sampled(run):
        return
    from judge_eval.pools.sampling import SHARES, sample_report

    report = sample_report(run)
    assert report is not None  # it is of a sample
    columns = (
        *(Column("estimated for all chunks"), Column("mean", "number"), Column("95% interval", "interval")),
        *(Column(f"half width at {share:.0%}", "share") for share in SHARES),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, figure.value, figure.interval, *report.half_widths[name]) for name, figure in report.figures.items()
    )
    text = (
        f"{report.judged:,} of {counted(report.chunks, 'chunk')} judged ({report.judged / max(1, report.chunks):.0%}), "
        "the first ranks in full; the intervals include the sampling"
    )
    if any(figure.interval is None for figure in report.figures.values()) and report.drawn:
        text += f"; {report.drawn:.0f} chunks of a question were drawn by chance, too few for intervals of ratios"
    yield Section("sample", (Sentence(text), TableBlock("sample", columns, rows)))
