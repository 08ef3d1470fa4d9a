"""What people read of a judge that was probed, or whose biases labels show."""

from collections.abc import Iterator, Mapping

from judge_eval.safe_text import counted
from judge_eval.study.bias import LEAST_EFFECT, BiasReport
from judge_eval.study.probe_report import ProbeReport, ProbeResult
from judge_eval.views.blocks import Sentence, Toned, View, ViewBlock, make_section, make_table
from judge_eval.views.note_sentences import note_sentence, ties_sentence


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
    title = f"{report.judge}: probed with {report.traces} traces, {report.calls} calls"
    findings = make_section("findings", *_findings(report))
    return View("probe", (make_section("title", title), make_section("probes", probes), findings))


def _findings(report: ProbeReport) -> Iterator[Sentence | str]:
    if report.separation is not None and report.gold_rate is not None and report.random_rate is not None:
        yield (
            f"gold chunks relevant: {report.gold_rate.text}; random chunks: {report.random_rate.text}; "
            f"separation {report.separation.text}"
        )
    for r in report.results:
        if r.variants:
            counts = ", ".join(f"{name} {fooled} of {n}" for name, (fooled, n) in r.variants.items())
            yield f"{r.probe}: {counts}{_noticed(r)}"
        yield from (f"{r.probe}: {line}" for line in _confidences(r))
        for example in r.examples:
            text = f"  {r.probe} {example.variant} {example.trace_id}: {example.text[:120]}"
            yield Sentence(text, "quiet")
    irrelevant = [r for r in report.results if r.chunks]
    if irrelevant and not any(r.assurance for r in irrelevant):
        yield "the judge returned no probabilities, so its confidence in accepted chunks is not known"
    yield from (Sentence(f"warning: {note_sentence(warning)}", "bad") for warning in report.warnings)


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


def bias_view(report: BiasReport) -> View:
    """Build the table of features, the surest bias first, and what it cannot say."""
    chunks = counted(report.chunks, "labelled chunk")
    blocks: list[ViewBlock | str] = [f"{report.judge} in {report.run}: {chunks} of {report.traces:,} traces"]
    if report.biases:
        rows = (
            (
                *(b.feature.replace(" =", ": "), b.step, b.effect, b.interval, b.p, b.detectable),
                Toned(b.verdict, "bad" if b.verdict == "biased" else "plain"),
            )
            for b in report.biases
        )
        table = make_table(
            "biases",
            [
                *("feature", "step", ("change of P(relevant)", "signed"), ("95% interval", "signed interval")),
                *(("p (Holm)", "p"), ("detectable", "number"), "verdict"),
            ],
            rows,
        )
        seen = f"`none seen`: a change of {LEAST_EFFECT:g} would be seen with 80% power"
        blocks += [table, f"{seen}; `cannot say`: it might not"]
    if report.ties:
        blocks.append(Sentence(ties_sentence(report.ties), "doubtful"))
    if report.rank_in_list is not None:
        blocks.append(
            "from the top of a list to its end the share of relevant verdicts on the same chunk changes by "
            f"{report.rank_in_list.text}"
        )
    return View("bias", (make_section("biases", *blocks),))
