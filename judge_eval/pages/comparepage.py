"""The page that compares two runs: its JSON, and the traces that changed."""

from collections.abc import Sequence

from judge_eval.compare.comparison import CutsFound
from judge_eval.errors import ConfigError
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.figures import head
from judge_eval.pages.page import Page, PageData, PageSettings
from judge_eval.pages.rows import Table
from judge_eval.runs.folder.labels import with_labels
from judge_eval.runs.folder.records import SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import less_is_better
from judge_eval.safe_text import counted
from judge_eval.views.blocks import JSON, Sentence
from judge_eval.views.comparison import CHANGE_WORDS, attribution_sections, curve_sections
from judge_eval.views.findings import cuts_notes
from judge_eval.views.note_sentences import notes_of_runs
from judge_eval.views.page_html import page_html, sections_html

_WIDTH, _HEIGHT, _GAP, _LOW, _LEFT = 560, 180, 26, 70, 34


def curve_svg(cuts: CutsFound) -> str:
    """Draw both means by the words read above the band of their difference, a line at the common budget; or nothing."""
    points = cuts.curve
    if len(points) < 2:
        return ""
    most = points[-1].words

    def x(words: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 8) * words / most, 1)

    def high(value: float) -> float:
        return round(_HEIGHT - (_HEIGHT - 20) * value, 1)

    def low(value: float) -> float:
        return round(_HEIGHT + _GAP + _LOW / 2 - _LOW / 2 * value, 1)

    xs = [x(point.words) for point in points]
    bands = [(at, point.interval) for at, point in zip(xs, points, strict=True) if point.interval is not None]
    edges = [f"{at},{low(ends[1])}" for at, ends in bands] + [f"{at},{low(ends[0])}" for at, ends in reversed(bands)]
    sides = (-5, 13) if points[-1].baseline >= points[-1].candidate else (13, -5)  # above the upper curve
    parts = [
        *(_line(_LEFT, high(value), _WIDTH, high(value), "grid") for value in (0, 0.5, 1)),
        *(_text(4, high(value) + 4, f"{value:g}") for value in (0, 0.5, 1)),
        _line(_LEFT, low(0), _WIDTH, low(0), "grid") + _text(4, low(0) + 4, "B − A"),
        f'<polygon class="band" points="{" ".join(edges)}"/>',
        _steps(xs, [high(p.baseline) for p in points], "first"),
        _steps(xs, [high(p.candidate) for p in points], "second"),
        _steps(xs, [low(p.difference) for p in points], "change"),
        _text(_WIDTH - 24, high(points[-1].baseline) + sides[0], "A"),
        _text(_WIDTH - 24, high(points[-1].candidate) + sides[1], "B"),
        _text(_LEFT, _HEIGHT + 14, "0") + _text(_WIDTH - 34, _HEIGHT + 14, f"{most:,} words", "end"),
    ]  # fmt: skip
    if cuts.headline is not None:
        parts.append(_line(x(cuts.budget), 4, x(cuts.budget), _HEIGHT + _GAP + _LOW, "budget"))
    label = f"{cuts.curve_of} of A (solid) and B (dashed) by the words read, and their difference with its 95% interval"
    return (
        f'<svg class="wordcurve" role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {_HEIGHT + _GAP + _LOW}">'
        f"{''.join(parts)}</svg>"
    )


def _steps(xs: Sequence[float], ys: Sequence[float], kind: str) -> str:
    path = f"M{xs[0]} {ys[0]}" + "".join(f"H{x}V{y}" for x, y in zip(xs[1:], ys[1:], strict=True))
    return f'<path class="{kind}" d="{path}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'


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
        "read": _read(compared) + sections_html(curve_sections(record)),
        "common": record.paired[0],
        "only_a": record.only_baseline[0],
        "only_b": record.only_candidate[0],
        "shown": None if shown == changed else {"n": shown, "of": changed},
        "sentences": _sentences(compared, shown, changed),
    }


def _read(compared: ComparedRuns) -> str:
    """Say what the cuts mean, and draw what was read by the number of words."""
    names = compared.baseline.run.name, compared.candidate.run.name
    return "".join(
        page_html(Sentence(f"{note}.") for note in cuts_notes(cuts, names)) + curve_svg(cuts)
        for cuts in compared.record.cuts
    )


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
    missing = ", ".join(f"{counted(n, 'trace')} only in {name}" for n, name in alone if n)
    whole = shown == changed
    return {
        "scope": "Differences are B (candidate) minus A (baseline), over "
        f"{counted(record.paired[0], 'trace')} in common{missing and '; '}{missing}.",
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
