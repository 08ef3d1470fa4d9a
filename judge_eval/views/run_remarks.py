"""What a reader of a run's numbers should know: failures, doubts, what its data are, what it took."""

from collections.abc import Iterator

from judge_eval.note import uncalibrated, without_claims
from judge_eval.runs.folder.describing import imported_from
from judge_eval.runs.folder.records import Manifest, Retrieval, Tally
from judge_eval.safe_text import counted, interval, number, shortened
from judge_eval.stats import proportion_interval
from judge_eval.views.blocks import Remark
from judge_eval.views.note_sentences import cascaded, note_sentence

JUDGE_AGAIN = "`judge-eval run` with the same options resumes run {} and judges only failed verdicts again"


def remarks_of(m: Manifest) -> list[Remark]:
    """Return everything that a reader of a run's numbers should know, the gravest first."""
    # Every medium shows all of it; what is added here appears in each of them.
    cascade = (Remark("cascade", text, "plain") for text in cascaded(m.judge, m.tally))
    return [*_failures(m), *_doubts(m), *_data(m), *_unanswerable(m), *_reranking(m), *cascade]


def incomplete_line(m: Manifest, max_failures: int = 0) -> str | None:
    """Say why a run is incomplete, with more failed verdicts than allowed; None if it is not."""
    # Those of chunks without text are not counted.
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
        have = counted(empty, "chunk has", "chunks have")
        yield Remark(
            "empty", f"{have} no text and so no verdict (`empty`); the option `blank` can make them irrelevant"
        )
    for i, group in enumerate(m.concentrations[:3]):
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
    yield from (Remark("uncalibrated", note_sentence(note)) for note in uncalibrated(m))


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
    asked = counted(u.traces, "unanswerable question")
    text = f"{asked}, in no mean: nothing returned for {u.empty:,} ({number(u.empty / u.traces)} {interval(share)})"
    text += f"; {u.chunks / u.traces:.1f} chunks on average"
    if u.accepted is None:
        text += "; nobody was asked about them"
    elif u.accepted:
        which = counted(u.accepted, "has a chunk", "have a chunk")
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
        which = "calls of the last seconds before may be in no figure"
        if t.lost is not None:
            which = f"up to {counted(t.lost, 'more call')} may have been paid"
        parts.append(f"{f'killed {times}' if t.killed else 'workers died'}: {which}")
    if refused := t.cache.get("refused"):
        parts.append(f"{counted(refused, 'row')} of the cache refused")
    if beside := t.cache.get("beside"):
        parts.append(f"{counted(beside, 'answer')} paid beside another process's")
    return ", ".join(parts)
