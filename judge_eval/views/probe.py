"""What people read of a judge that was probed."""

from collections.abc import Iterator, Mapping

from judge_eval.study.probe_report import ProbeReport, ProbeResult
from judge_eval.views.blocks import Section, Sentence, Toned, View, make_table
from judge_eval.views.note_sentences import note_sentence


def probe_view(report: ProbeReport) -> View:
    """Build what people read of a probed judge: how often each probe fooled it, and with what."""
    rows = (
        (
            r.probe,
            Toned(f"{r.fooled} of {r.n}", "bad" if r.fooled else "good" if r.n else "plain"),
            r.rate.text,
            "" if r.flip_rate is None else r.flip_rate.text,
            r.text,
        )
        for r in report.results
    )
    probes = make_table("probes", ["probe", "fooled", "rate [95% interval]", "flips", "test input"], rows)
    title = Sentence(f"{report.judge}: probed with {report.traces} traces, {report.calls} calls")
    return View(
        "probe",
        (Section("title", (title,)), Section("probes", (probes,)), Section("findings", tuple(_findings(report)))),
    )


def _findings(report: ProbeReport) -> Iterator[Sentence]:
    if report.separation is not None and report.gold_rate is not None and report.random_rate is not None:
        yield Sentence(
            f"gold chunks relevant: {report.gold_rate.text}; random chunks: {report.random_rate.text}; "
            f"separation {report.separation.text}"
        )
    for r in report.results:
        if r.variants:
            counts = ", ".join(f"{name} {fooled} of {n}" for name, (fooled, n) in r.variants.items())
            yield Sentence(f"{r.probe}: {counts}{_noticed(r)}")
        for line in _confidences(r):
            yield Sentence(f"{r.probe}: {line}")
        for example in r.examples:
            text = f"  {r.probe} {example.variant} {example.trace_id}: {example.text[:120]}"
            yield Sentence(text, "quiet")
    irrelevant = [r for r in report.results if r.chunks]
    if irrelevant and not any(r.assurance for r in irrelevant):
        yield Sentence("the judge returned no probabilities, so its confidence in accepted chunks is not known")
    for warning in report.warnings:
        yield Sentence(f"warning: {note_sentence(warning)}", "bad")


def _noticed(result: ProbeResult) -> str:
    if result.noticed is not None:
        return f"; noticed in {result.noticed} of {result.noticing}"
    return "" if result.noticing is None else "; not known whether one was noticed (the judge does not report it)"


def _confidences(result: ProbeResult) -> Iterator[str]:
    """Yield what is said of accepted chunks, then of probabilities: a line each."""
    if result.chunks is not None and result.chunks > result.n:
        yield f"{result.false_positives} of {result.chunks} chunks accepted"
    if result.rejected_before:
        yield f"{result.rejected_before} chunks were rejected under the true reference and are not counted"
    if (sure := result.assurance) is not None:
        missing = f" ({sure.untold} without one)" if sure.untold else ""
        accepted = "" if sure.accepted_mean is None else f" at {sure.accepted_mean:.4f} on average"
        yield (
            f"probability of being relevant {sure.mean.text} on average of {sure.n} chunks{missing}; accepted "
            f"{sure.accepted}{accepted}"
        )


def probe_checks(report: ProbeReport, limits: Mapping[str, float]) -> Iterator[tuple[bool, str]]:
    """Yield whether each limit (the greatest share of fooled traces), and a failing canary, is kept."""
    by_name = {result.probe: result for result in report.results}
    for name, limit in limits.items():
        result = by_name.get(name)
        if result is None or (rate := result.rate.value) is None:
            yield False, f"{name} has no verdict, so the limit {limit:g} cannot be checked"
        else:
            sentence = f"{name} fooled the judge in {rate:.4f} of {result.n} traces"
            yield rate <= limit, f"{sentence}, {'over' if rate > limit else 'within'} {limit:g}"
    if report.separates is False:
        yield False, "the polarity canary: gold chunks are not graded above random ones"
