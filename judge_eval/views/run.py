"""What people read of a run: all its sentences, remarks and tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.note import without_claims
from judge_eval.registry import parts_of, stated_of
from judge_eval.runs.folder.describing import backends_by_route, imported_from, judged_by, models_of, prompt_of
from judge_eval.runs.folder.records import Aggregate, Manifest, Retrieval, Status, Tally, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import needs_total
from judge_eval.runs.scoring.missedclaims import ClaimsMissed, MissedClaim, missed_claims
from judge_eval.safe_text import counted, interval, public_url, shortened
from judge_eval.schema import Chunk, Outcome
from judge_eval.stats import proportion_interval
from judge_eval.views.blocks import (
    Cell,
    Column,
    Headline,
    IdList,
    Link,
    Mark,
    Pieces,
    Remark,
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
from judge_eval.views.note_sentences import cascaded, note_sentence
from judge_eval.views.ordering import Picked
from judge_eval.views.reranker import reranker_sections
from judge_eval.views.slices import slices_of_run
from judge_eval.views.tones import Tone

if TYPE_CHECKING:
    from judge_eval.study.members import VarianceSplit

MOST_GROUPS = 3
"""How many groups of traces with more failures than others are named."""
JUDGE_AGAIN = "`judge-eval run` with the same options resumes run {} and judges only failed verdicts again"
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
        judge = ", ".join(filter(None, (models_of(m).rstrip("/"), prompt_of(m))))
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


# ------------------------------------------------------------------------------------------- remarks


def remarks_of(m: Manifest) -> list[Remark]:
    """Return everything that a reader of a run's numbers should know, the gravest first."""
    # Every medium shows all of it; what is added here appears in each of them.
    cascade = (Remark("cascade", text, "plain") for text in cascaded(m.judge, m.tally))
    return [*_failures(m), *_doubts(m), *_data(m), *_unanswerable(m), *_reranking(m), *cascade]


def incomplete_line(m: Manifest, max_failures: int = 0) -> str | None:
    """Say why a run is incomplete; None if it is not.

    Args:
        m: The run's manifest.
        max_failures: How many failed verdicts are allowed; those of chunks without text are not counted.
    """
    whys = []
    if m.tally.open_verdicts > max_failures:
        whys.append(f"{counted(m.tally.open_verdicts, 'verdict')} failed, --max-failures is {max_failures:,}")
    retrieval = m.dataset.retrieval
    if retrieval is not None and retrieval.failed:
        whys.append(f"the retriever failed for {counted(retrieval.failed, 'question')}")
    return f"incomplete: {'; '.join(whys)}" if whys else None


def _failures(m: Manifest) -> Iterator[Remark]:
    t = m.tally
    if t.failed_verdicts:
        whys = ", ".join(f"{why} {count}" for why, count in t.failures.items())
        verdicts, traces = counted(t.failed_verdicts, "verdict"), counted(t.failed_traces, "trace")
        aggregates = m.aggregates.values()
        if m.aggregates and not any(a.n_failed for a in aggregates):
            effect = "no mean depends on the failed verdicts"
        elif any(a.headline == "bounds" for a in aggregates):
            effect = "more than 5% of all, so bounds are shown instead of the means"
        else:
            effect = "these traces count with an expected value; the intervals cover all values they could have"
        yield Remark("failures", f"{verdicts} failed in {traces} ({whys}); {effect}", "bad")
    if t.example is not None:
        e = t.example
        chunk = f"chunk {shortened(e.chunk_id, 60)} of trace {shortened(e.trace_id, 60)}"
        share = f"{e.count:,} of {t.failed_verdicts:,}"
        detail = f": {e.detail}" if e.detail else ""
        yield Remark("example", f"most frequent reason: {e.why} ({share}), first in {chunk}{detail}", "bad")
    if empty := t.failures.get("empty"):
        have = "1 chunk has" if empty == 1 else f"{empty:,} chunks have"
        yield Remark(
            "empty", f"{have} no text and so no verdict (`empty`); the option `blank` can make them irrelevant"
        )
    for i, group in enumerate(m.concentrations[:MOST_GROUPS]):
        what = f"tagged {group.name}" if group.kind == "tag" else f"with {group.name} characters of chunks"
        share = f"{group.failed} of {group.traces:,}, others {group.others_failed} of {group.others:,}"
        again = "" if i or m.imported or not t.open_verdicts else f"; {JUDGE_AGAIN.format(m.id[:8])}"
        yield Remark("concentrated", f"more traces {what} have failed verdicts ({share}){again}", "bad")


def _doubts(m: Manifest) -> Iterator[Remark]:
    t = m.tally
    if t.fewer_votes:
        rest = "1 verdict rests" if t.fewer_votes == 1 else f"{t.fewer_votes} verdicts rest"
        advice = "" if m.imported else "; resume the run to ask the others again"
        yield Remark("votes", f"{rest} on fewer members than the panel has{advice}")
    if t.unsupported:
        rest = "verdict rests" if t.unsupported == 1 else "verdicts rest"
        chunks, count = ("its chunk", "it") if t.unsupported == 1 else ("their chunks", "them")
        yield Remark(
            "evidence", f"{t.unsupported} relevant {rest} on no quote found in {chunks}; the means count {count}"
        )
    if t.beyond_total:
        names = ", ".join(t.beyond) + (", ..." if t.beyond_total > len(t.beyond) else "")
        have = "1 trace has" if t.beyond_total == 1 else f"{t.beyond_total} traces have"
        yield Remark(
            "relevant_total",
            f"{have} more relevant verdicts than relevant_total says ({names}); those found are counted",
        )

    asked = [m.judge, *parts_of(m.judge)]
    if any(judge.get("contract") == "verdict" for judge in asked) and "calibration" not in m.judge:
        yield Remark("uncalibrated", _of_single_tokens(m))
    model = f"{m.backend.get('provider')}/{m.backend.get('model')}"
    served = m.backend.get("base_url")  # what a server's models give is not looked up
    if not served and "calibration" not in m.judge and stated_of(model).uncalibrated:
        params = m.backend.get("params")
        score = "cosine" if isinstance(params, dict) and "pooling" in params else "probability"
        yield Remark(
            "uncalibrated",
            f"{model} counts a chunk as relevant from a {score} of 0.5, which nobody has "
            "calibrated; labels (`calibrate`) or a cascade (`cascade fit`) tell what its probabilities are worth",
        )


def _of_single_tokens(m: Manifest) -> str:
    params = [backend.get("params") for backend in backends_by_route(m.backend).values()]
    if "logprobs" in m.tally.dropped or not any(isinstance(each, dict) and "logprobs" in each for each in params):
        return "verdicts are single tokens; the server gives no log-probabilities, so the token is the verdict"
    scale = m.judge.get("scale")
    if isinstance(scale, dict) and scale.get("maximum") != 1:
        return (
            f"verdicts are single tokens: a chunk is relevant from grade {scale.get('relevant')}, which says little "
            "until labels set a threshold (`calibrate`)"
        )
    return (
        "verdicts are single tokens: a chunk is relevant from P(true) = 0.5, which means nothing until labels set a "
        "threshold (`calibrate`); without log-probabilities the token is the verdict"
    )


def _data(m: Manifest) -> Iterator[Remark]:
    unmatched = imported_from(m).get("unmatched")
    if isinstance(unmatched, int) and unmatched > 0:
        are = "1 verdict of the file is" if unmatched == 1 else f"{unmatched} verdicts of the file are"
        yield Remark("unmatched", f"{are} of chunks that the data do not hold; nothing was made of them")
    if isinstance(applied := m.judge.get("calibration"), dict):
        what = [f"relevant from {applied['threshold']}"] if "threshold" in applied else []
        if "probability" in applied:
            what = [f"relevant from a probability of {applied['probability']:.4g}"]
        what += ["probabilities"] if "method" in applied else []
        labels = f"{applied.get('traces')} labelled traces of run {applied.get('run')}"
        yield Remark("calibration", f"calibrated: {' and '.join(what)} by {labels}")
    if isinstance(pool := m.judge.get("pool"), dict):
        deep = "all ranks" if pool.get("depth") is None else f"depth {pool['depth']}"
        left = f"; {pool['left_out']} traces are not in it" if pool.get("left_out") else ""
        names = ", ".join(map(str, systems)) if isinstance(systems := pool.get("systems"), list) else ""
        text = f"recalls and ideal lists are of the pool ({names}; {deep}), not of all chunks that exist{left}"
        yield Remark("pool", text, "plain")
    if m.tally.repeated:
        read = "1 chunk reads" if m.tally.repeated == 1 else f"{m.tally.repeated} chunks read"
        yield Remark(
            "repeats",
            f"{read} like an earlier one of the same trace, and every rank counts; AP(dedup=text) and "
            "P(dedup=text) count a text once",
        )
    for note in without_claims("not in the mean", {name: a.n_undefined for name, a in m.aggregates.items()}):
        yield Remark("without_claims", note_sentence(note))
    if skipped := m.dataset.skipped:
        yield Remark("skipped", f"{counted(skipped, 'invalid record was', 'invalid records were')} skipped")
    if (retrieval := m.dataset.retrieval) is not None:
        yield from _retrieval(retrieval)
    yield from (Remark("data", text) for text in m.dataset.remarks)
    if m.tally.dropped:
        yield Remark("dropped", f"the server does not take: {', '.join(m.tally.dropped)}", "plain")


def _retrieval(retrieval: Retrieval) -> Iterator[Remark]:
    took = ""
    if retrieval.seconds is not None:
        took = f" in {retrieval.seconds[0]:.3f} s (p50), {retrieval.seconds[1]:.3f} s (p95)"
    yield Remark(
        "retrieval", f"{retrieval.retriever} answered {counted(retrieval.questions, 'question')}{took}", "plain"
    )
    if retrieval.failed:
        named = "; ".join(retrieval.failures) + ("; ..." if retrieval.failed > len(retrieval.failures) else "")
        of = f"{retrieval.failed} of {counted(retrieval.questions, 'question')}"
        yield Remark("retriever failed", f"the retriever failed for {of}, which are in no mean ({named})")


def _unanswerable(m: Manifest) -> Iterator[Remark]:
    if (u := m.unanswerable) is None:
        return
    share = proportion_interval(u.empty, u.traces).interval
    have = "1 unanswerable question" if u.traces == 1 else f"{u.traces:,} unanswerable questions"
    text = f"{have}, in no mean: nothing returned for {u.empty:,} ({u.empty / u.traces:.3f} {interval(share)})"
    text += f"; {u.chunks / u.traces:.1f} chunks on average"
    if u.accepted is None:
        text += "; nobody was asked about them"
    elif u.accepted:
        which = "1 has a chunk" if u.accepted == 1 else f"{u.accepted:,} have a chunk"
        text += f"; {which} that was accepted: wrong flag or fooled judge, see `show`"
    yield Remark("unanswerable", text, "plain")


def _reranking(m: Manifest) -> Iterator[Remark]:
    if (r := m.reranking) is None or m.dataset.search is not None:
        return
    if r.perfect - r.mean < 0.0005:
        gain = f"a perfect reranker of the same chunks would gain nothing: {r.metric} is {r.mean:.3f}"
    else:
        gain = f"a perfect reranker of the same chunks would reach {r.metric} {r.perfect:.3f} from {r.mean:.3f}"
    lost = ""
    if r.nothing_relevant:
        none = f"{r.nothing_relevant:,} of {counted(r.traces, 'trace')}"
        lost = f"; {1 - r.perfect:.3f} is lost because nothing relevant was retrieved ({none})"
    elsewhere = m.unanswerable.traces if m.unanswerable else 0
    some = f"; this is of the {counted(r.traces, 'trace')} without a failed verdict"
    yield Remark("reranking", gain + lost + (some if r.traces < m.tally.traces - elsewhere else ""), "plain")


def took(t: Tally) -> str:
    """Say what a run took."""
    parts = [counted(t.verdicts, "verdict"), counted(t.calls, "call"), f"{t.hits:,} from the cache"]
    if t.calls:
        parts.append(f"{t.input_tokens:,} + {t.output_tokens:,} tokens")
    if t.cost:
        parts.append(f"${t.cost:.4f}")
    if t.retries:
        parts.append(counted(sum(t.retries.values()), "retry", "retries"))
    if t.killed or t.lost:
        times = "once" if t.killed == 1 else f"{t.killed} times"
        which = "calls in flight then, and of the last second before, are in no figure"
        if t.lost is not None:
            which = f"up to {counted(t.lost, 'more call')} may have been paid"
        parts.append(f"{f'killed {times}' if t.killed else 'workers died'}: {which}")
    if refused := t.cache.get("refused"):
        parts.append(f"{counted(refused, 'row')} of the cache refused")
    if beside := t.cache.get("beside"):
        parts.append(f"{counted(beside, 'answer')} paid beside another process's")
    return ", ".join(parts)


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
