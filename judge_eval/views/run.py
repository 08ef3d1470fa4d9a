"""What people read of a run: its title, its tables, its claims and its traces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.runs.folder.describing import judged_by, models_of, prompt_of
from judge_eval.runs.folder.records import Aggregate, Manifest, Status, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import needs_total
from judge_eval.runs.scoring.missedclaims import ClaimsMissed, MissedClaim, missed_claims
from judge_eval.safe_text import counted, interval, public_url, shortened
from judge_eval.schema import Chunk, Outcome
from judge_eval.views.blocks import (
    Cell,
    Column,
    Headline,
    IdList,
    Link,
    Mark,
    Pieces,
    Section,
    Sentence,
    Strip,
    TableBlock,
    TableColumns,
    Toned,
    View,
    ViewBlock,
    make_table,
    table_view,
    view_of,
)
from judge_eval.views.claims import vital_word
from judge_eval.views.missing import missing_sections
from judge_eval.views.ordering import Picked
from judge_eval.views.reranker import reranker_sections
from judge_eval.views.run_remarks import remarks_of, took
from judge_eval.views.slices import slices_of_run
from judge_eval.views.tones import Tone

if TYPE_CHECKING:
    from judge_eval.study.members import VarianceSplit

MOST_MISSED = 3
"""How many missed claims a summary names."""
LISTED_CLAIMS = 10
"""How many missed claims a terminal lists."""
FIRST_TRACES = 20
"""How many traces a notebook lists."""


def summary_view(run: Run) -> View:
    """Build the summary of a run for people who are not at its folder: Markdown, a comment, a note."""
    m = run.manifest
    title = Headline((Link(m.name, m.href),), "## judge_eval: "), Sentence(described_by(m))
    return View(
        "run",
        (
            Section("title", title),
            *missing_sections(run),
            *figure_sections(m),
            *reranker_sections(run),
            *claim_sections(run),
            *slices_of_run(run),
        ),
    )


@view_of.register
def notebook_view(run: Run) -> View:
    """Build what a notebook shows: the summary, then the first traces."""
    more = run.manifest.tally.traces - FIRST_TRACES
    first = islice(run.results, FIRST_TRACES)
    traces = traces_table(first, run.manifest.metrics[:3], max(0, more), "traces in run.results")
    return View("run", (*summary_view(run).sections, Section("traces", (traces,))))


def terminal_view(run: Run, page: str | None = None) -> View:
    """Build what a command prints when a run has ended, or is shown: it names the folder last."""
    blocks: list[ViewBlock] = []
    if run.folder is not None:
        status = Toned(run.status, status_tone(run.status))
        blocks.append(Pieces((f"run {run.id[:8]} (", status, f") in {run.folder}")))
    if page is not None:
        blocks.append(Sentence(f"its page: {page}"))
    metrics, remarks = figure_sections(run.manifest)
    described = Section("title", (Sentence(described_by(run.manifest)),))
    return View(
        "run",
        (
            described,
            *missing_sections(run),
            *reranker_sections(run),
            metrics,
            *slices_of_run(run),
            Section(remarks.name, (*remarks.blocks, *blocks)),
        ),
    )


def runs_view(manifests: Sequence[Manifest], unreadable: Sequence[tuple[str, str]]) -> View:
    """List runs; below them the folders that cannot be read, each with the reason."""
    counts: TableColumns = [("traces", "count"), ("failed", "count")]
    columns: TableColumns = ["id", "started (UTC)", "status", *counts, "first metric"]
    columns += [Column("judge", cut=44), "label", "tags"]
    rows: list[tuple[Cell, ...]] = []
    for m in manifests:
        name, first = next(iter(m.aggregates.items()), ("", None))
        score = f"{name} {first.shown} {interval(first.interval)}" if first else ""
        status, failed = Toned(m.status, status_tone(m.status)), Toned(m.tally.failed_verdicts or None, "bad")
        started = f"{m.created:%Y-%m-%d %H:%M}"
        judge = ", ".join(filter(None, (models_of(m), prompt_of(m))))
        rows.append((m.id[:8], started, status, m.tally.traces, failed, score, judge, m.label or "", ", ".join(m.tags)))
    for folder, reason in unreadable:
        rows.append((folder[:40], "", Toned("unreadable", "bad"), None, None, "", "", reason, ""))
    return table_view(columns, rows)


def figure_sections(m: Manifest) -> tuple[Section, Section]:
    """Return the table of metrics, and what a reader should know of it."""
    remarks: tuple[ViewBlock, ...] = (*remarks_of(m), Sentence(took(m.tally)))
    return Section("metrics", (metrics_table(m.aggregates, pooled="pool" in m.judge),)), Section("remarks", remarks)


def metrics_table(aggregates: Mapping[str, Aggregate], pooled: bool = False) -> TableBlock:
    """List the means with their intervals; if verdicts failed, also what could become of the means."""
    # `pooled`: whether what exists is what a pool of runs holds.
    numbers: TableColumns = [("mean", "number"), ("95% interval", "interval"), ("n", "count")]
    rows: list[tuple[Cell, ...]] = [
        (of_pool(name) if pooled else name, a.mean if a.headline == "mean" else a.shown, a.interval, a.n + a.n_expected)
        for name, a in aggregates.items()
    ]
    if any(a.n_failed for a in aggregates.values()):
        numbers += [("failed", "count"), ("bounds", "interval")]
        ends = [(a.n_failed, a.bounds) for a in aggregates.values()]
        rows = [(*row, *end) for row, end in zip(rows, ends, strict=True)]
    return make_table("metrics", ["metric", *numbers], rows)


def of_pool(metric: str) -> str:
    """Name a metric that was computed against a pool: those that rest on what exists say so."""
    return f"{metric} of the pool" if needs_total(metric) else metric


def described_by(m: Manifest) -> str:
    """Say in one line what was judged, by whom and how."""
    return f"{m.dataset.name}: {counted(m.tally.traces, 'trace')}, {judged_by(m)}"


def status_tone(status: Status) -> Tone:
    """Return how the status of a run is set off."""
    if status == "done":
        return "good"
    return "bad" if status == "failed" else "doubtful"


# -------------------------------------------------------------------------------------------- claims


def claim_sections(run: Run, most: int = MOST_MISSED, *, tags: bool = False) -> Iterator[Section]:
    """Say what is covered of the claims, and which are missed most; nothing of a run without claims."""
    # `tags` lists what is covered by tag, in place of the claims.
    missed = missed_claims(run.results)
    if missed is not None:
        sentence = Sentence(covered_sentence(missed), "doubtful" if missed.counts.missed else "plain")
        table = _cover_by_tag(missed) if tags else _missed_most(missed, most)
        yield Section("claims", (sentence, *([table] if table.rows or table.more else [])))


def covered_sentence(missed: ClaimsMissed) -> str:
    """Say how many claims are covered, and what is not known of them."""
    counts, vital = missed.counts, missed.vital
    covered = f"{counts.covered:,} of {counts.known:,} claims covered"
    notes = [f"vital: {vital.covered:,} of {vital.known:,}"]
    notes += [f"{counts.partly:,} partly covered"] if counts.partly else []
    notes += [f"{counts.unknown:,} more not known, as verdicts are missing"] if counts.unknown else []
    notes += [f"{missed.contradicted:,} contradicted by a chunk"] if missed.contradicted else []
    notes += [f"{counted(missed.without_claims, 'trace')} without a claim"] if missed.without_claims else []
    notes += [f"{counted(missed.not_judged, 'trace')} not judged by claims"] if missed.not_judged else []
    return f"{covered} ({'; '.join(notes)})"


def missed_frequency(claim: MissedClaim) -> str:
    """Say how often a claim is missed: `in 3 of 4 traces (1 partly covered; 1 more not known)`."""
    counts = claim.counts
    notes = [f"{counts.partly} partly covered"] if counts.partly else []
    notes += [f"{counts.unknown} more not known"] if counts.unknown else []
    return f"in {counts.missed} of {counted(counts.known, 'trace')}" + (f" ({'; '.join(notes)})" if notes else "")


def claim_blocks(missed: ClaimsMissed) -> Iterator[ViewBlock]:
    """Yield the claims of a run in full: what is covered, all that the record lists as missed, each tag."""
    count = counted(missed.distinct, "claim")
    head = f"{count} missed, the most missed first" if missed.distinct else "No claim is known to be missed"
    yield from (Sentence(covered_sentence(missed)), Sentence(head, "strong"))
    if missed.missed:
        yield _missed_most(missed, len(missed.missed))
    if missed.tags:
        yield from (Sentence("Claims by tag", "strong"), _cover_by_tag(missed))
        yield Sentence("Each trace counts its claims; claims not known are in no share.")


def _missed_most(missed: ClaimsMissed, most: int) -> TableBlock:
    columns: TableColumns = ["missed most", "kind", Column("claim", cut=70), "traces", Column("question", wide=True)]
    rows = [
        (missed_frequency(claim), vital_word(claim.vital), claim.text, IdList(claim.traces), claim.query)
        for claim in missed.missed[:most]
    ]
    left = missed.distinct - len(rows)
    return make_table("missed claims", columns, rows, max(0, left), "missed claims")


def _cover_by_tag(missed: ClaimsMissed) -> TableBlock:
    names = ("covered", "partly", "not covered", "not known")
    columns: TableColumns = [("claims covered", "number"), *((name, "count") for name in names)]
    rows = (
        (tag.tag, c.covered_share, c.covered, c.partly, c.missing, c.unknown or None)
        for tag in missed.tags
        for c in [tag.counts]
    )
    return make_table("claims by tag", ["tag", *columns], rows)


# -------------------------------------------------------------------------------------------- traces


def traces_table(results: Iterable[TraceResult], metrics: Sequence[str], more: int = 0, of: str = "") -> TableBlock:
    """List traces with their ranks and the scores of some metrics; `more` are left out."""
    scores: TableColumns = [("ranks", "strip"), *((name, "number") for name in metrics)]
    rows = (
        (
            result.trace_id,
            strip_of(result.trace.chunks, result.outcomes),
            *(result.scores.get(name) for name in metrics),
            shortened(result.trace.query, 80),
        )
        for result in results
    )
    return make_table("traces", ["trace", *scores, Column("query", cut=60)], rows, more, of)


def picked_sections(run: Run, picked: Picked, by: tuple[str, bool] | None = None) -> Iterator[Section]:
    """List traces of a run that were asked for."""
    names = list(run.manifest.metrics[:4])
    if by is not None and by[0] in run.manifest.metrics and by[0] not in names:
        names[-1:] = [by[0]]
    table = traces_table((run.results[place] for place in picked.places), names, picked.left)
    blocks: list[ViewBlock] = [table] if table.rows or picked.left else []
    if picked.valueless and by is not None:
        text = f"{picked.valueless:,} have no {by[0]}, since verdicts failed: they come last"
        blocks.append(Sentence(text, "doubtful"))
    if blocks:
        yield Section("traces", tuple(blocks))


def strip_of(chunks: Sequence[Chunk], outcomes: Sequence[Outcome]) -> Strip:
    """Draw one mark a rank: `+` relevant, a dot not, a digit if graded (`X` for 10), `!` failed."""
    return Strip(
        tuple(
            Mark(outcome.sign, outcome_tone(outcome), f"{rank}. {chunk.id}: {_reading(outcome)}")
            for rank, (chunk, outcome) in enumerate(zip(chunks, outcomes, strict=True), 1)
        )
    )


def outcome_tone(outcome: Outcome) -> Tone:
    """Return how an outcome is set off."""
    if outcome.kind == "no_verdict":
        return "bad"
    return "good" if outcome.relevant else "quiet"


def _reading(outcome: Outcome) -> str:
    if outcome.kind == "no_verdict":
        return f"no verdict: {outcome.why}"
    return f"{'relevant' if outcome.relevant else 'not relevant'}: {outcome.explanation}"


# ------------------------------------------------------------------------------------------- spread


def spread_sections(run: Run) -> Iterator[Section]:
    """List each metric's percentiles over traces, and its mean over the traces of each tag."""
    numbers: TableColumns = [(name, "number") for name in ("p20", "p50", "p90")]
    rows = []
    for name, a in run.aggregates.items():
        q = a.quantiles
        marks = (q.p20, q.p50, q.p90) if q else (None,) * 3
        rows.append((name, *marks, a.method or "", a.clusters))
    percentiles = make_table("percentiles", ["metric", *numbers, "interval by", ("clusters", "count")], rows)
    yield Section("spread", (percentiles,))
    by_tag = [
        (tag, name, mean.mean, mean.interval, mean.n, mean.n_failed or None)
        for tag, name, mean in sorted(
            ((tag, name, mean) for name, a in run.aggregates.items() for tag, mean in a.tags.items()),
            key=lambda row: row[0],
        )
    ]
    if by_tag:
        means: TableColumns = [("mean", "number"), ("95% interval", "interval")]
        columns: TableColumns = ["tag", "metric", *means, ("n", "count"), ("failed", "count")]
        yield Section("tags", (make_table("by tag", columns, by_tag),))


# ------------------------------------------------------------------------------------------- members

_PAIRS = 6
"""Of how many pairs of members kappa is named."""


def cache_view(place: str | Path, *, shared: bool, hits: int) -> View:
    """Say where replies are kept, and who shares the place: on a clean clone its replies surprise."""
    came = f" ({hits:,} came from there)" if hits else ""
    everyone = ", which all your projects share" if shared else ""
    lines = [f"answers are kept in {shown_place(place)}{everyone}{came}"]
    if shared:
        lines.append('to give this project a cache of its own, put `cache = "project"` in judge_eval.toml')
    return View("cache", (Section("cache", tuple(map(Sentence, lines))),))


def variance_sentence(split: "VarianceSplit") -> str:
    """Say where the uncertainty of a mean comes from."""
    parts = f"{split.by_traces:.0%} traces, {split.by_judge:.0%} judge, {split.residual:.0%} residual"
    advice = "more traces help, more samples hardly do"
    if split.by_judge + split.residual > 0.5:
        advice = "more samples help as much as more traces" if split.by_judge <= 0.5 else "more samples help"
    return f"the variance of the mean {split.metric} over {split.traces:,} traces is {parts}: {advice}"


def shown_place(place: str | Path) -> str:
    """Return a place as people write it: `~` for the home folder, relative below this one, no password."""
    if isinstance(place, str):
        return public_url(place)
    absolute = place.expanduser().absolute()
    for top, name in ((Path.cwd(), ""), (Path.home(), "~/")):
        if absolute.is_relative_to(top) and absolute != top:
            return f"{name}{absolute.relative_to(top)}"
    return str(absolute)


def member_sections(run: Run) -> Iterator[Section]:
    """Say how far the members of a panel agree; nothing of a run without several."""
    if not any(result.votes for result in run.results):
        return
    from judge_eval.study.members import member_agreement, variance_split

    panel = member_agreement(run)
    if panel is None:
        return
    columns: TableColumns = [
        "member",
        ("verdicts", "count"),
        ("failed", "count"),
        ("relevant", "share"),
        ("outvoted", "count"),
    ]
    rows = ((m.name, m.n, m.failed or None, m.relevant, m.dissents) for m in panel.members)
    kappas = ", ".join(
        f"{pair} {'undefined' if k is None else format(k, '.3f')}" for pair, k in list(panel.kappas.items())[:_PAIRS]
    )
    flips = f"flips: {panel.flips.text} of {panel.chunks} chunks"
    sentence = f"{flips}; ordinal alpha {panel.alpha.text}; kappa {kappas}"
    split = variance_split(run)
    more = () if split is None else (Sentence(variance_sentence(split)),)
    yield Section("members", (make_table("members", columns, rows), Sentence(sentence), *more))
