"""What people read of a run: its title, its tables, its claims and its traces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.errors import ConfigError, advise
from judge_eval.metrics import parse_metric
from judge_eval.runs.folder.describing import judged_by, models_of, prompt_of
from judge_eval.runs.folder.records import Aggregate, Manifest, Status, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import needs_total
from judge_eval.runs.scoring.missedclaims import ClaimsMissed, MissedClaim, missed_claims
from judge_eval.runs.scoring.reranker import reranker_gain
from judge_eval.safe_text import counted, interval, public_url, shortened, signed_pair
from judge_eval.schema import Chunk, Outcome
from judge_eval.views import blocks
from judge_eval.views.blocks import MEAN, Column, TableColumns, View, columns_of, make_section, make_table
from judge_eval.views.claims import vital_word
from judge_eval.views.missing import missing_sections
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
    sections = (
        make_section("title", blocks.Headline((blocks.Link(m.name, m.href),), "## judge_eval: "), described_by(m)),
        *missing_sections(run),
        *_figure_sections(m),
        *reranker_sections(run),
        *claim_sections(run),
        *slices_of_run(run),
    )
    return View("run", sections)


@blocks.view_of.register
def notebook_view(run: Run) -> View:
    """Build what a notebook shows: the summary, then the first traces."""
    more = run.manifest.tally.traces - FIRST_TRACES
    first = islice(run.results, FIRST_TRACES)
    traces = _traces_table(first, run.manifest.metrics[:3], max(0, more), "traces in run.results")
    return View("run", (*summary_view(run).sections, make_section("traces", traces)))


def terminal_view(run: Run, page: str | None = None) -> View:
    """Build what a command prints when a run has ended, or is shown: it names the folder last."""
    metrics, remarks = _figure_sections(run.manifest)
    where: list[blocks.Pieces | str] = []
    if run.folder is not None:
        status = blocks.Toned(run.status, _status_tone(run.status))
        where.append(blocks.Pieces((f"run {run.id[:8]} (", status, f") in {run.folder}")))
    if page is not None:
        where.append(f"its page: {page}")
    sections = (
        make_section("title", described_by(run.manifest)),
        *missing_sections(run),
        *reranker_sections(run),
        metrics,
        *slices_of_run(run),
        make_section("remarks", *remarks.blocks, *where),
    )
    return View("run", sections)


def runs_view(manifests: Sequence[Manifest], unreadable: Sequence[tuple[str, str]]) -> View:
    """List runs; below them the folders that cannot be read, each with the reason."""
    columns: TableColumns = [
        *("id", "started (UTC)", "status", ("traces", "count"), ("failed", "count"), "first metric"),
        *(Column("judge", cut=44), "label", "tags"),
    ]
    rows: list[tuple[blocks.Cell, ...]] = []
    for m in manifests:
        name, first = next(iter(m.aggregates.items()), ("", None))
        score = f"{name} {first.shown} {interval(first.interval)}" if first else ""
        status = blocks.Toned(m.status, _status_tone(m.status))
        failed = blocks.Toned(m.tally.failed_verdicts or None, "bad")
        started = f"{m.created:%Y-%m-%d %H:%M}"
        judge = ", ".join(filter(None, (models_of(m), prompt_of(m))))
        rows.append((m.id[:8], started, status, m.tally.traces, failed, score, judge, m.label or "", ", ".join(m.tags)))
    for folder, reason in unreadable:
        rows.append((folder[:40], "", blocks.Toned("unreadable", "bad"), None, None, "", "", reason, ""))
    return blocks.table_view(columns, rows)


def _figure_sections(m: Manifest) -> tuple[blocks.Section, blocks.Section]:
    """Return the table of metrics, and what a reader should know of it."""
    table = metrics_table(m.aggregates, pooled="pool" in m.judge)
    return make_section("metrics", table), make_section("remarks", *remarks_of(m), took(m.tally))


def metrics_table(aggregates: Mapping[str, Aggregate], pooled: bool = False) -> blocks.TableBlock:
    """List the means with their intervals; if verdicts failed, also what could become of the means."""
    # `pooled`: whether what exists is what a pool of runs holds.
    columns: TableColumns = ["metric", *MEAN, ("n", "count")]
    rows: list[tuple[blocks.Cell, ...]] = [
        (of_pool(name) if pooled else name, a.mean if a.headline == "mean" else a.shown, a.interval, a.n + a.n_expected)
        for name, a in aggregates.items()
    ]
    if any(a.n_failed for a in aggregates.values()):
        columns = [*columns, ("failed", "count"), ("bounds", "interval")]
        ends = ((a.n_failed, a.bounds) for a in aggregates.values())
        rows = [(*row, *end) for row, end in zip(rows, ends, strict=True)]
    return make_table("metrics", columns, rows)


def of_pool(metric: str) -> str:
    """Name a metric that was computed against a pool: those that rest on what exists say so."""
    return f"{metric} of the pool" if needs_total(metric) else metric


def described_by(m: Manifest) -> str:
    """Say in one line what was judged, by whom and how."""
    return f"{m.dataset.name}: {counted(m.tally.traces, 'trace')}, {judged_by(m)}"


def _status_tone(status: Status) -> Tone:
    if status == "done":
        return "good"
    return "bad" if status == "failed" else "doubtful"


def claim_sections(run: Run, most: int = MOST_MISSED, *, tags: bool = False) -> Iterator[blocks.Section]:
    """Say what is covered of the claims, and which are missed most; nothing of a run without claims."""
    # `tags` lists what is covered by tag, in place of the claims.
    missed = missed_claims(run.results)
    if missed is not None:
        sentence = blocks.Sentence(covered_sentence(missed), "doubtful" if missed.counts.missed else "plain")
        table = _cover_by_tag(missed) if tags else _missed_most(missed, most)
        yield make_section("claims", sentence, *([table] if table.rows or table.more else []))


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


def claim_blocks(missed: ClaimsMissed) -> Iterator[blocks.TableBlock | blocks.Sentence]:
    """Yield the claims of a run in full: what is covered, all that the record lists as missed, each tag."""
    count = counted(missed.distinct, "claim")
    head = f"{count} missed, the most missed first" if missed.distinct else "No claim is known to be missed"
    yield from (blocks.Sentence(covered_sentence(missed)), blocks.Sentence(head, "strong"))
    if missed.missed:
        yield _missed_most(missed, len(missed.missed))
    if missed.tags:
        yield from (blocks.Sentence("Claims by tag", "strong"), _cover_by_tag(missed))
        yield blocks.Sentence("Each trace counts its claims; claims not known are in no share.")


def _missed_most(missed: ClaimsMissed, most: int) -> blocks.TableBlock:
    columns: TableColumns = ["missed most", "kind", Column("claim", cut=70), "traces", Column("question", wide=True)]
    rows = [
        (missed_frequency(claim), vital_word(claim.vital), claim.text, blocks.IdList(claim.traces), claim.query)
        for claim in missed.missed[:most]
    ]
    left = missed.distinct - len(rows)
    return make_table("missed claims", columns, rows, max(0, left), "missed claims")


def _cover_by_tag(missed: ClaimsMissed) -> blocks.TableBlock:
    counts = columns_of("count", "covered", "partly", "not covered", "not known")
    rows = (
        (tag.tag, c.covered_share, c.covered, c.partly, c.missing, c.unknown or None)
        for tag in missed.tags
        for c in [tag.counts]
    )
    return make_table("claims by tag", ["tag", ("claims covered", "number"), *counts], rows)


def _traces_table(
    results: Iterable[TraceResult], metrics: Sequence[str], more: int = 0, of: str = ""
) -> blocks.TableBlock:
    """List traces with their ranks and the scores of some metrics; `more` are left out."""
    rows = (
        (
            result.trace_id,
            strip_of(result.trace.chunks, result.outcomes),
            *(result.scores.get(name) for name in metrics),
            shortened(result.trace.query, 80),
        )
        for result in results
    )
    scores = columns_of("number", *metrics)
    return make_table("traces", ["trace", ("ranks", "strip"), *scores, Column("query", cut=60)], rows, more, of)


TRACE = "trace"
"""What traces are sorted by if it is not a metric: their ids."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Traces of a run, by their places among its results."""

    places: list[int]
    left: int = 0
    """How many more fit, but were beyond the limit."""
    valueless: int = 0
    """How many of those that fit have no value of the metric they are sorted by; they come last."""


def sorting_key(order: str, metrics: Sequence[str]) -> tuple[str, bool]:
    """Read what traces are sorted by, a metric or `trace`, and whether a `-` turns the order round."""
    down, name = order.startswith("-"), order.removeprefix("-")
    if name == TRACE:
        return name, down
    wanted = name if name in metrics else str(parse_metric(name))
    if wanted not in metrics:
        known = advise(name, [*metrics, TRACE])
        raise ConfigError(f"this run has no {wanted} to sort by; {known} (`judge-eval score` computes others)")
    return wanted, down


def pick_traces(
    results: Sequence[TraceResult], by: tuple[str, bool] | None = None, most: int | None = None, *, failed: bool = False
) -> Picked:
    """Choose and order traces; equal ones stay in the dataset's order, which `by` None keeps."""
    # Of each trace only what it is sorted by is kept in memory.
    name, down = by or ("", False)
    keyed = [
        (result.trace_id if name == TRACE else result.scores.get(name) if name else 0.0, place)
        for place, result in enumerate(results)
        if result.failed or not failed
    ]
    known = [(key, place) for key, place in keyed if key is not None]
    without = [place for key, place in keyed if key is None]
    if by is not None:
        known.sort(key=lambda pair: pair[0], reverse=down)
    places = [place for _, place in known] + without
    shown = places if most is None else places[:most]
    return Picked(shown, len(places) - len(shown), len(without))


def picked_sections(run: Run, picked: Picked, by: tuple[str, bool] | None = None) -> Iterator[blocks.Section]:
    """List traces of a run that were asked for."""
    names = list(run.manifest.metrics[:4])
    if by is not None and by[0] in run.manifest.metrics and by[0] not in names:
        names[-1:] = [by[0]]
    table = _traces_table((run.results[place] for place in picked.places), names, picked.left)
    shown: list[blocks.TableBlock | blocks.Sentence] = [table] if table.rows or picked.left else []
    if picked.valueless and by is not None:
        text = f"{picked.valueless:,} have no {by[0]}, since verdicts failed: they come last"
        shown.append(blocks.Sentence(text, "doubtful"))
    if shown:
        yield make_section("traces", *shown)


def strip_of(chunks: Sequence[Chunk], outcomes: Sequence[Outcome]) -> blocks.Strip:
    """Draw one mark a rank: `+` relevant, a dot not, a digit if graded (`X` for 10), `!` failed."""
    return blocks.Strip(
        tuple(
            blocks.Mark(outcome.sign, outcome_tone(outcome), f"{rank}. {chunk.id}: {_reading(outcome)}")
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


def spread_sections(run: Run) -> Iterator[blocks.Section]:
    """List each metric's percentiles over traces, and its mean over the traces of each tag."""
    rows = []
    for name, a in run.aggregates.items():
        q = a.quantiles
        marks = (q.p20, q.p50, q.p90) if q else (None,) * 3
        rows.append((name, *marks, a.method or "", a.clusters))
    columns: TableColumns = ["metric", *columns_of("number", "p20", "p50", "p90"), "interval by", ("clusters", "count")]
    yield make_section("spread", make_table("percentiles", columns, rows))
    by_tag = [
        (tag, name, mean.mean, mean.interval, mean.n, mean.n_failed or None)
        for name, a in run.aggregates.items()
        for tag, mean in a.tags.items()
    ]
    if by_tag:
        columns = ["tag", "metric", *MEAN, ("n", "count"), ("failed", "count")]
        by_tag.sort(key=lambda row: row[0])
        yield make_section("tags", make_table("by tag", columns, by_tag))


def cache_view(place: str | Path, *, shared: bool, hits: int) -> View:
    """Say where replies are kept, and who shares the place: on a clean clone its replies surprise."""
    came = f" ({hits:,} came from there)" if hits else ""
    everyone = ", which all your projects share" if shared else ""
    lines = [f"answers are kept in {_shown_place(place)}{everyone}{came}"]
    if shared:
        lines.append('to give this project a cache of its own, put `cache = "project"` in judge_eval.toml')
    return View("cache", (make_section("cache", *lines),))


def variance_sentence(split: "VarianceSplit") -> str:
    """Say where the uncertainty of a mean comes from."""
    parts = f"{split.by_traces:.0%} traces, {split.by_judge:.0%} judge, {split.residual:.0%} residual"
    advice = "more traces help, more samples hardly do"
    if split.by_judge + split.residual > 0.5:
        advice = "more samples help as much as more traces" if split.by_judge <= 0.5 else "more samples help"
    return f"the variance of the mean {split.metric} over {split.traces:,} traces is {parts}: {advice}"


def _shown_place(place: str | Path) -> str:
    """Return a place as people write it: `~` for the home folder, relative below this one, no password."""
    if isinstance(place, str):
        return public_url(place)
    absolute = place.expanduser().absolute()
    for top, name in ((Path.cwd(), ""), (Path.home(), "~/")):
        if absolute.is_relative_to(top) and absolute != top:
            return f"{name}{absolute.relative_to(top)}"
    return str(absolute)


def member_sections(run: Run) -> Iterator[blocks.Section]:
    """Say how far the members of a panel agree; nothing of a run without several."""
    if not any(result.votes for result in run.results):
        return
    from judge_eval.study.members import member_agreement, variance_split

    panel = member_agreement(run)
    if panel is None:
        return
    counts = columns_of("count", "verdicts", "failed")
    columns: TableColumns = ["member", *counts, ("relevant", "share"), ("outvoted", "count")]
    rows = ((m.name, m.n, m.failed or None, m.relevant, m.dissents) for m in panel.members)
    pairs = [*panel.kappas.items()][:6]
    kappas = ", ".join(f"{pair} {'undefined' if k is None else format(k, '.3f')}" for pair, k in pairs)
    flips = f"flips: {panel.flips.text} of {panel.chunks} chunks"
    sentence = f"{flips}; ordinal alpha {panel.alpha.text}; kappa {kappas}"
    split = variance_split(run)
    more = () if split is None else (variance_sentence(split),)
    yield make_section("members", make_table("members", columns, rows), sentence, *more)


def reranker_sections(run: Run) -> Iterator[blocks.Section]:
    """Say what the reranker changed; nothing if no trace says how its chunks were reranked."""
    gain = reranker_gain(run)
    if gain is None:
        return
    text = f"it dropped {gain.n_dropped:,} of {counted(gain.relevant, 'relevant chunk')}"
    for first in gain.metrics[:1]:
        moved = signed_pair(first.difference.value or 0.0, first.difference.interval)
        text = f"the reranker moves {first.metric} from {first.before:.3f} to {first.after:.3f}, {moved}; {text}"
    named = ", ".join(f"{trace}: {chunk}" for trace, chunk in gain.dropped[:3])
    columns = ["metric", *columns_of("number", "retrieved", "reranked"), *blocks.DIFFERENCE]
    rows = ((m.metric, m.before, m.after, m.difference, m.difference) for m in gain.metrics)
    text += f" ({named})" if named else ""
    text += f" and {gain.open:,} without a verdict" if gain.open else ""
    text += f"; {counted(gain.traces, 'trace')}"
    text += f", {gain.failed:,} with failed verdicts, whose possible values the interval covers" if gain.failed else ""
    yield make_section("reranker", text, make_table("reranker", columns, rows))
