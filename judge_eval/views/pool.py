"""What people read of a pool: its runs scored against it, and how much it misses."""

from collections.abc import Iterator

from judge_eval.pools.fitting import ScoreCut, SweepReport
from judge_eval.pools.joining import SETTLED
from judge_eval.pools.scoring import Added, PoolReport
from judge_eval.safe_text import counted, signed_pair
from judge_eval.stats.figure import Figure
from judge_eval.views import blocks
from judge_eval.views.blocks import MEAN, Column, Sentence, TableColumns, View, columns_of, make_section, make_table
from judge_eval.views.note_sentences import IN_WORDS, note_sentence
from judge_eval.views.run import of_pool

BAR = 30
"""How long the longest bar is."""


def pool_view(report: PoolReport) -> View:
    """Build what people read of a pool."""
    sections = (
        make_section("title", *_opening(report)),
        *_added(report.added),
        make_section("scores", _scores(report)),
        make_section("misses", _missed_by(report), _systems(report)),
        make_section("remarks", *_remarks(report)),
    )
    return View("pool", sections)


def _opening(report: PoolReport) -> Iterator[blocks.ViewBlock | str]:
    names = ", ".join(each.system.name for each in report.systems)
    yield blocks.Headline((blocks.Link(f"Pool of {counted(len(report.systems), 'run')}: {names}"),), "## ")
    deep = "all ranks" if report.depth is None else f"depth {report.depth}"
    chunks, questions = counted(report.chunks, "chunk"), counted(report.questions, "question")
    if report.added is not None:
        yield Sentence(f"{added_sentence(report.added)}.", "strong")
    yield f"{questions}, {chunks} ({deep}), {report.judged:,} with a verdict, {report.relevant:,} relevant"


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


def _missed_by(report: PoolReport) -> str:
    u = report.undiscovered
    if u.at_least is None:
        return f"The runs found {u.found:,} relevant chunks; nothing bounds how many more exist: {u.refused}."
    span = "" if u.interval is None else f" [{u.interval[0]:,.0f}, {u.interval[1]:,.0f}]"
    return (
        f"At least {u.at_least:,.0f}{span} relevant chunks exist (Chao1); the runs found {u.found:,}. A recall of the "
        "pool is of those found, so it is too high."
    )


def _added(added: Added | None) -> Iterator[blocks.Section]:
    """List what each run adds: a bar for each set of runs that found the same, then shares of the pool."""
    if added is None:
        return
    most, names = max(each.chunks for each in added.found_by), [each.systems[0] for each in added.each]
    bars: list[tuple[blocks.Cell, ...]] = [
        (
            *(" + ".join(each.systems) or "none", *("●" if name in each.systems else "" for name in names)),
            *(each.chunks, "█" * max(1, round(BAR * each.chunks / most))),
        )
        for each in added.found_by
    ]
    cut, dots = f"within rank {added.k}", [Column(name, wide=True) for name in names]
    sets: TableColumns = [f"relevant, found {cut} by", *dots, ("chunks", "count"), ""]
    columns: TableColumns = [
        *(f"covered of the pool {cut}", ("share", "share"), ("95% interval", "interval")),
        *(("adds", "signed"), ("95% interval", "signed interval"), ("questions it alone answers", "count")),
    ]
    covered = []
    for c in (*added.each, *added.best):
        alone = None if c.gain is None else c.only_questions
        covered.append((" + ".join(c.systems), c.share, c.share, c.gain, c.gain, alone))
    by_sets = make_table("found by", sets, bars, of="sets of runs").cut(20)
    tables = [by_sets, make_table("covered", columns, covered)]
    if added.tags:
        shares = columns_of("share", *names, "together")
        tags: list[tuple[blocks.Cell, ...]] = [(each.tag, each.relevant, *each.shares) for each in added.tags]
        tables.append(make_table("covered by tag", ["tag", ("relevant", "count"), *shares], tags))
    yield make_section("added", *tables)


def _scores(report: PoolReport) -> blocks.TableBlock:
    columns: TableColumns = [
        *("run", "metric", *MEAN, ("perfect reranker", "number"), ("without its own chunks", "signed"), ("n", "count"))
    ]
    rows = []
    for each in report.systems:
        for name, a in each.scores.items():
            mean = a.mean if a.headline == "mean" else a.shown
            rest = (mean, a.interval, each.perfect[name], 0.0 - each.losses[name], a.n)
            rows.append((each.system.name, of_pool(name), *rest))
    return make_table("scores", columns, rows)


def _systems(report: PoolReport) -> blocks.TableBlock:
    counts = columns_of("count", "chunks", "without a verdict", "only its own", "of these relevant")
    rows = (
        (each.system.name, each.chunks, each.unjudged, each.unique, each.unique_relevant, each.unjudged_at)
        for each in report.systems
    )
    return make_table("systems", ["run", *counts, (f"unjudged at {report.k} if left out", "share")], rows)


def _remarks(report: PoolReport) -> Iterator[blocks.Remark]:
    if report.n_conflicts:
        rule = SETTLED["majority" if report.settling == "majority" else "first"]
        first = report.conflicts[0]
        given = ", ".join(f"{name} {grade}" for name, grade in first.verdicts.items())
        have = counted(report.n_conflicts, "chunk has", "chunks have")
        where = f"first {first.chunk} of question {first.question}: {given}"
        yield blocks.Remark("conflicts", f"{have} different verdicts ({where}); {rule}")
    if unjudged := report.chunks - report.judged:
        have = counted(unjudged, "chunk of the pool has", "chunks of the pool have")
        yield blocks.Remark("unjudged", f"{have} no verdict; no recall of another run counts them", "bad")
    yield from (blocks.Remark("doubt", note_sentence(doubt)) for doubt in report.doubts)


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
    against: TableColumns = [(f"against {report.baseline}", "signed"), ("95% interval", "signed interval")]
    means = [point.mean.value or 0.0 for point in report.points]
    most = max(means) or 1.0
    rows = (
        (f"{p.value:g}", p.mean, p.mean, p.difference, p.difference, "█" * round(BAR * max(0.0, mean / most)))
        for p, mean in zip(report.points, means, strict=True)
    )
    columns: TableColumns = [report.parameter, (report.metric, "number"), ("95% interval", "interval"), *against, ""]
    curve = make_section("curve", make_table("curve", columns, rows))
    title = blocks.Headline((blocks.Link(f"Sweep of {report.parameter}: {report.recipe or 'the list itself'}"),), "## ")
    conclusion = Sentence(f"{sweep_sentence(report)}.", "strong")
    count = f"{counted(report.questions, 'question')}; each half chose by the mean of the metric"
    return View("sweep", (make_section("title", title, conclusion, count), curve))
