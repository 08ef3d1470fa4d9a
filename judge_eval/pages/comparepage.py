"""The page that compares two runs: its JSON, and the traces that changed."""

from collections.abc import Sequence

from judge_eval.compare.comparison import CutsFound
from judge_eval.errors import ConfigError
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.figures import head
from judge_eval.pages.page import Page, PageData, PageSettings
from judge_eval.pages.rows import Table
from judge_eval.pages.wordcurve import curve_svg
from judge_eval.runs.folder.labels import with_labels
from judge_eval.runs.folder.records import SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import less_is_better
from judge_eval.views.blocks import JSON, Sentence
from judge_eval.views.comparison import CHANGE_WORDS, attribution_sections, curve_sections
from judge_eval.views.cut_sentences import cuts_notes
from judge_eval.views.note_sentences import notes_of_runs
from judge_eval.views.page_html import page_html, sections_html


def compare_page(compared: ComparedRuns, by: Sequence[SliceBy] = ()) -> JSON:
    """Return everything of a compare page but its changed traces."""
    record, metrics = compared.record, compared.metrics
    counts, same = record.changed[0], int((compared.kinds == 0).sum())
    shown, changed = len(compared.changed), sum(counts.values())
    return {
        "a": head(compared.baseline.run.manifest),
        "b": head(compared.candidate.run.manifest),
        "opening": compared.opening("B"),
        "warnings": notes_of_runs(record, record.warnings),
        "notes": notes_of_runs(record, record.notes),
        "metrics": list(metrics.values()),
        "points": {name: compared.points(name) for name in metrics},
        "differences": {name: compared.ladder(name) for name in metrics},
        "words": CHANGE_WORDS,
        "changes": {**({"same": same} if same else {}), **counts},
        "claims": compared.claims,
        "slices": compared.slices(by),
        "whose": sections_html(attribution_sections(record)),
        "read": "".join(_read(cuts, compared) for cuts in record.cuts) + sections_html(curve_sections(record)),
        "common": record.paired[0],
        "only_a": record.only_baseline[0],
        "only_b": record.only_candidate[0],
        "shown": None if shown == changed else {"n": shown, "of": changed},
        "sentences": _sentences(compared, shown, changed),
    }


def _read(cuts: CutsFound, compared: ComparedRuns) -> str:
    """Say what the cuts mean, and draw what was read by the number of words."""
    names = compared.baseline.run.name, compared.candidate.run.name
    return page_html([Sentence(f"{note}.") for note in cuts_notes(cuts, names)]) + curve_svg(cuts)


_COLUMNS = (
    ("difference", "B minus A; coloured only if the 95% interval leaves out 0"),
    ("p", "at most .05 only if the 95% interval leaves out 0: of the test that the interval inverts"),
    ("p (Holm)", "p adjusted for the number of metrics in the table"),
    ("wins, ties, losses", "traces in which B is better than A, equal, or worse"),
    ("n", "traces that have a value in both runs"),
    ("detectable", "the smallest true difference that so many traces show in 80 of 100 cases, adjusted as p (Holm)"),
)


def _sentences(compared: ComparedRuns, shown: int, changed: int) -> JSON:
    record = compared.record
    alone = (record.only_baseline[0], "A"), (record.only_candidate[0], "B")
    missing = ", ".join(f"{_traces(n)} only in {name}" for n, name in alone if n)
    whole = shown == changed
    return {
        "scope": "Differences are B (candidate) minus A (baseline), over "
        f"{_traces(record.paired[0])} in common{missing and '; '}{missing}.",
        "doubt": "A difference in scores may not come from the retriever" if record.differences else "Warnings",
        "sides": "In brackets, “there” is A (the baseline) and “here” is B (the candidate).",
        "columns": _COLUMNS,
        "nothing": "The runs have no metric and trace in common.",
        "better": {
            name: f"{'Below' if less_is_better(name) else 'Above'} the diagonal B is better. "
            "A larger mark stands for more traces. Click a mark to list its changed traces."
            for name in compared.metrics
        },
        "ladder": f"One bar a trace{'' if whole else ' of those that moved most'}, candidate minus baseline.",
        "part": None
        if whole
        else f"This file holds the {shown:,} changed traces that moved most, of {changed:,}; "
        "all figures are of all traces.",
        "strips": "Lines join the same chunk: thin if it stayed, dashed if it moved, thick if its verdict flipped.",
    }


def _traces(n: int) -> str:
    return f"{n:,} trace{'' if n == 1 else 's'}"


def _make(runs: Sequence[Run], settings: PageSettings) -> PageData:
    if len(runs) != 2:
        raise ConfigError(f"{len(runs)} runs: the page compare shows two")
    baseline, candidate = (Table(with_labels(run), settings.most) for run in runs)
    compared = ComparedRuns(baseline, candidate, "moved")
    light = [
        {name: getattr(row, name) for name in ("position", "id", "query", "change", "deltas")}
        for row in compared.changed
    ]
    title = f"{candidate.run.name} against {baseline.run.name}"
    return PageData(
        title, {**compare_page(compared, settings.by), "changed": light}, compared.in_full(compared.changed)
    )


PAGE = Page("compare", "/compare", "comparepage.js", _make)
