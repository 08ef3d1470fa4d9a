"""What people read of a pool: its runs scored against it, and how much it misses."""

from collections.abc import Iterator

from judge_eval.pools.fitting import ScoreCut, SweepReport
from judge_eval.pools.joining import SETTLED
from judge_eval.pools.scoring import Added, PoolReport
from judge_eval.safe_text import counted, signed_pair
from judge_eval.stats.figure import Figure
from judge_eval.views.blocks import (
    Cell,
    Column,
    Headline,
    Link,
    Remark,
    Section,
    Sentence,
    TableBlock,
    TableColumns,
    View,
    ViewBlock,
    make_table,
)
from judge_eval.views.note_sentences import IN_WORDS, note_sentence
from judge_eval.views.run import of_pool

BAR = 30
"""How long the longest bar is."""
MOST_SETS = 20
"""How many sets of runs that found the same are listed, those of most chunks first."""


def pool_view(report: PoolReport) -> View:
    """Build what people read of a pool."""
    return View(
        "pool",
        (
            Section("title", tuple(_opening(report))),
            *_added(report.added),
            Section("scores", (_scores(report),)),
            Section("misses", (Sentence(missed_by(report)), _systems(report))),
            Section("remarks", tuple(_remarks(report))),
        ),
    )


def _opening(report: PoolReport) -> Iterator[ViewBlock]:
    names = ", ".join(each.system.name for each in report.systems)
    yield Headline((Link(f"Pool of {counted(len(report.systems), 'run')}: {names}"),), "## ")
    deep = "all ranks" if report.depth is None else f"depth {report.depth}"
    chunks, questions = counted(report.chunks, "chunk"), counted(report.questions, "question")
    if report.added is not None:
        yield Sentence(f"{added_sentence(report.added)}.", "strong")
    yield Sentence(f"{questions}, {chunks} ({deep}), {report.judged:,} with a verdict, {report.relevant:,} relevant")


def _percent(figure: Figure) -> str:
    """Write a share as people say it: `91% [88, 94]`."""
    ends = "" if figure.interval is None else " [{:.0f}, {:.0f}]".format(*(100 * end for end in figure.interval))
    return f"{100 * (figure.value or 0):.0f}%{ends}"


def added_sentence(added: Added) -> str:
    """Say in one sentence what runs add to each other: the best pair of several, or the weaker one of two."""
    together, names = added.best[-1].share, [each.systems[0] for each in added.each]
    if len(names) > 2:
        best = added.best[0]
        pair = f"the best pair, {' and '.join(best.systems)}, covers {_percent(best.share)} of the pool"
        return f"{pair}; all {len(names)} together {_percent(together)}"
    counts = [sum(each.chunks for each in added.found_by if name in each.systems) for name in names]
    place = counts.index(max(counts))
    strong, weak = names[place], names[1 - place]
    missed = [each for each in added.found_by if strong not in each.systems]
    lacks, gains = (sum(each.chunks for each in some) for some in (missed, [m for m in missed if weak in m.systems]))
    if not lacks:
        return f"{weak} adds nothing: {strong} has every relevant chunk of the pool"
    finds = f"{weak} finds {gains / lacks:.0%} of the relevant chunks that {strong} misses ({gains} of {lacks})"
    if gains == lacks:
        rest = f"the pool is what they found, and {strong} alone covers {_percent(added.each[place].share)} of it"
    else:
        rest = f"together they cover {_percent(together)} of the pool"
    return f"{finds}; {rest}"


def cut_sentence(cut: ScoreCut) -> str:
    """Say what a cut by the retriever's score does."""
    values = " and ".join(f"{value:.4g}" for value in dict.fromkeys(cut.thresholds))
    return (
        f"the halves of the {cut.questions:,} questions choose score>={values}; on the questions that did not "
        f"choose it precision is {cut.precision.text} (without a cut {cut.uncut.text}), and "
        f"{cut.recall.text} of the relevant chunks stay"
    )


def missed_by(report: PoolReport) -> str:
    """Say how many relevant chunks there are at least, or why nobody can say."""
    u = report.undiscovered
    if u.at_least is None:
        return f"The runs found {u.found:,} relevant chunks; nothing bounds how many more exist: {u.refused}."
    span = "" if u.interval is None else f" [{u.interval[0]:,.0f}, {u.interval[1]:,.0f}]"
    return (
        f"At least {u.at_least:,.0f}{span} relevant chunks exist (Chao1); the runs found {u.found:,}. A recall of the "
        "pool is of those found, so it is too high."
    )


def _added(added: Added | None) -> Iterator[Section]:
    """List what each run adds: a bar for each set of runs that found the same, then shares of the pool."""
    if added is None:
        return
    most, names = max(each.chunks for each in added.found_by), [each.systems[0] for each in added.each]
    bars: list[tuple[Cell, ...]] = [
        (
            *(" + ".join(each.systems) or "none", *("●" if name in each.systems else "" for name in names)),
            *(each.chunks, "█" * max(1, round(BAR * each.chunks / most))),
        )
        for each in added.found_by[:MOST_SETS]
    ]
    cut = f"within rank {added.k}"
    dots, left = [Column(name, wide=True) for name in names], len(added.found_by) - len(bars)
    sets = make_table(
        "found by", [f"relevant, found {cut} by", *dots, ("chunks", "count"), ""], bars, left, of="sets of runs"
    )
    covered: TableColumns = [("share", "share"), ("95% interval", "interval")]
    gains: TableColumns = [("adds", "signed"), ("95% interval", "signed interval")]
    columns: TableColumns = [f"covered of the pool {cut}", *covered, *gains, ("questions it alone answers", "count")]
    rows = []
    for c in (*added.each, *added.best):
        gain = (None, None, None) if c.gain is None else (c.gain.value, c.gain.interval, c.only_questions)
        rows.append((" + ".join(c.systems), c.share.value, c.share.interval, *gain))
    blocks = [sets, make_table("covered", columns, rows)]
    if added.tags:
        shares: TableColumns = [(name, "share") for name in (*names, "together")]
        tags: list[tuple[Cell, ...]] = [(each.tag, each.relevant, *each.shares) for each in added.tags]
        blocks.append(make_table("covered by tag", ["tag", ("relevant", "count"), *shares], tags, of="tags"))
    yield Section("added", tuple(blocks))


def _scores(report: PoolReport) -> TableBlock:
    columns: TableColumns = [
        *("run", "metric"),
        ("mean", "number"),
        ("95% interval", "interval"),
        ("perfect reranker", "number"),
        ("without its own chunks", "signed"),
        ("n", "count"),
    ]
    rows: list[tuple[Cell, ...]] = []
    for each in report.systems:
        for name, a in each.scores.items():
            mean = a.mean if a.headline == "mean" else a.shown
            rest = (mean, a.interval, each.perfect[name], 0.0 - each.losses[name], a.n)
            rows.append((each.system.name, of_pool(name), *rest))
    return make_table("scores", columns, rows)


def _systems(report: PoolReport) -> TableBlock:
    names = ("chunks", "without a verdict", "only its own", "of these relevant")
    counts: TableColumns = [(name, "count") for name in names]
    rows = (
        (each.system.name, each.chunks, each.unjudged, each.unique, each.unique_relevant, each.unjudged_at)
        for each in report.systems
    )
    return make_table("systems", ["run", *counts, (f"unjudged at {report.k} if left out", "share")], rows)


def _remarks(report: PoolReport) -> Iterator[Remark]:
    if report.n_conflicts:
        rule = SETTLED["majority" if report.settling == "majority" else "first"]
        first = report.conflicts[0]
        given = ", ".join(f"{name} {grade}" for name, grade in first.verdicts.items())
        have = counted(report.n_conflicts, "chunk has", "chunks have")
        where = f"first {first.chunk} of question {first.question}: {given}"
        yield Remark("conflicts", f"{have} different verdicts ({where}); {rule}")
    if unjudged := report.chunks - report.judged:
        have = counted(unjudged, "chunk of the pool has", "chunks of the pool have")
        yield Remark("unjudged", f"{have} no verdict; no recall of another run counts them", "bad")
    yield from (Remark("doubt", note_sentence(doubt)) for doubt in report.doubts)


def pool_json(report: PoolReport) -> str:
    """Return what a pool says of its runs as JSON, with its sentences."""
    return report.model_dump_json(indent=2, context=IN_WORDS)


def sweep_sentence(report: SweepReport) -> str:
    """Say which values win, and what they give on the questions that did not choose them."""
    values = " and ".join(f"{value:g}" for value in dict.fromkeys(report.chosen))
    moved = report.held_out_difference
    who = "both halves" if len(set(report.chosen)) == 1 else "the halves"
    return (
        f"{who} of the questions choose {report.parameter}={values}; on the questions that did not choose it "
        f"{report.metric} is {report.held_out.text}, {signed_pair(moved.value or 0.0, moved.interval)} "
        f"against {report.baseline}"
    )


def sweep_view(report: SweepReport) -> View:
    """Build what people read of a sweep: the held-out winner first, then the curve, each value with its band."""
    means_columns: TableColumns = [(report.metric, "number"), ("95% interval", "interval")]
    against: TableColumns = [(f"against {report.baseline}", "signed"), ("95% interval", "signed interval")]
    means = [point.mean.value or 0.0 for point in report.points]
    most = max(means) or 1.0
    rows = (
        (
            *(f"{p.value:g}", p.mean.value, p.mean.interval, p.difference.value, p.difference.interval),
            "█" * round(BAR * max(0.0, mean / most)),
        )
        for p, mean in zip(report.points, means, strict=True)
    )
    curve = make_table("curve", [report.parameter, *means_columns, *against, ""], rows)
    title = Headline((Link(f"Sweep of {report.parameter}: {report.recipe or 'the list itself'}"),), "## ")
    conclusion = Sentence(f"{sweep_sentence(report)}.", "strong")
    count = Sentence(f"{counted(report.questions, 'question')}; each half chose by the mean of the metric")
    return View("sweep", (Section("title", (title, conclusion, count)), Section("curve", (curve,))))
