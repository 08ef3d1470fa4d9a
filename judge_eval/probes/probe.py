"""Putting probes to a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge_eval.errors import DataError, UnknownNameError
from judge_eval.evaluator import Evaluator
from judge_eval.probes.cases import PROBES, Case, build, gold_case
from judge_eval.probes.report import Example, ProbeReport, ProbeResult
from judge_eval.runs.agree import Figure
from judge_eval.runs.records import TraceResult
from judge_eval.runs.run import EvalRun
from judge_eval.runs.sources import Traces, replayable
from judge_eval.schema import Chunk, Trace, Verdict
from judge_eval.stats import Estimate, mean_interval, proportion_interval

EXAMPLES = 3
"""How many cases of each probe a report shows."""


@dataclass
class Prober:
    """Probes the judge of an evaluator.

    Args:
        evaluator: The judge with its backend; its metrics play no part.
        probes: Names of probes; all where empty. `order` needs a judge in listwise mode.
        seed: Of all that is drawn.

    Raises:
        UnknownNameError: There is no such probe.
    """

    evaluator: Evaluator
    probes: Sequence[str] = ()
    seed: int = 0
    _calls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for name in self.probes:
            if name not in PROBES:
                raise UnknownNameError("probe", name, PROBES)

    def probe(self, data: Traces, *, limit: int | None = None) -> ProbeReport:
        """Build the probes from traces, have them judged, and report.

        The gold chunk of a trace is the first with a relevant human label, else the first that the judge
        itself finds relevant. The polarity canary of a trace without labels takes the reference as gold,
        since what the judge finds relevant could not show it to be the wrong way round.

        Args:
            data: Traces, as for `Evaluator.evaluate`, no stream.
            limit: Probe a random choice of so many traces.

        Raises:
            DataError: There are fewer than two traces with chunks, or the data are a stream.
        """
        source = replayable(data, check=self.evaluator.check, limit=limit, seed=self.seed if limit else None)
        if source is None:
            raise DataError("probes are built from a list or a file, not from a stream")
        source.survey()
        traces = [trace for trace in source if any(chunk.text.strip() for chunk in trace.chunks)]
        if len(traces) < 2:
            raise DataError("probes need two traces with chunks or more")
        self._calls = 0
        base = {r.trace_id: r for r in self._judge(traces).results}
        listwise = self.evaluator.judge.describe().get("mode") == "listwise"
        names = [name for name in self.probes or PROBES if name != "order" or listwise]
        gold, labelled = self._gold(traces, base)
        cases = list(build(traces, gold, names=self._needed(names), seed=self.seed))
        twins = [gold_case(t, gold[t.id]) for t in traces if t.id in gold]
        canaries = [gold_case(t, c) for t in traces if (c := self._canary(t, gold, labelled)) is not None]
        unique = {t.id: t for t in (*twins, *(case.trace for case in cases))}
        judged = {r.trace_id: r for r in self._judge(list(unique.values())).results}
        canary = {r.trace_id: r for r in self._judge(canaries).results} if "polarity" in names else {}
        results = [
            self._result(name, [c for c in cases if c.probe == name], judged, base)
            for name in names
            if name != "polarity"
        ]
        return self._report(results, traces, len(labelled), canary, judged, names)

    def _needed(self, names: Sequence[str]) -> list[str]:
        """Add the unaltered chunks that others are measured against."""
        return [n for n in PROBES if n in names or (n == "random" and {"polarity", "injection"} & {*names})]

    def _judge(self, traces: Sequence[Trace]) -> EvalRun:
        run = self.evaluator.evaluate(list(traces), name="probes")
        self._calls += run.manifest.tally.calls
        return run

    def _gold(
        self, traces: Sequence[Trace], base: Mapping[str, TraceResult]
    ) -> tuple[dict[str, Chunk], set[str]]:
        highest = max((c.label or 0 for t in traces for c in t.chunks), default=0)
        scale = self.evaluator.judge.scale
        least = 1 if highest <= 1 else scale.relevant if highest <= scale.maximum else 2
        gold, labelled = {}, set()
        for trace in traces:
            human = [c for c in trace.chunks if c.label is not None and c.label >= least and c.text.strip()]
            if human:
                gold[trace.id] = human[0]
                labelled.add(trace.id)
                continue
            if any(chunk.label is not None for chunk in trace.chunks):
                continue  # people found nothing relevant here
            for chunk, outcome in zip(trace.chunks, base[trace.id].outcomes, strict=True):
                if outcome.kind == "verdict" and outcome.relevant and chunk.text.strip():
                    gold[trace.id] = chunk
                    break
        return gold, labelled

    def _canary(self, trace: Trace, gold: Mapping[str, Chunk], labelled: set[str]) -> Chunk | None:
        if trace.id in labelled:
            return gold[trace.id]
        told = trace.reference or trace.answer
        return Chunk(id="c1", text=told) if told else None

    def _result(
        self,
        name: str,
        cases: Sequence[Case],
        judged: Mapping[str, TraceResult],
        base: Mapping[str, TraceResult],
    ) -> ProbeResult:
        probe = PROBES[name]
        by_trace: dict[str, list[bool]] = {}
        variants: dict[str, Counter[bool]] = {}
        flips: dict[str, bool] = {}
        positives = noticed = failed = 0
        examples: list[Example] = []
        for case in cases:
            result = judged[case.trace.id]
            if any(o.kind == "no_verdict" for o in result.outcomes):
                failed += 1
                continue
            verdicts = [o for o in result.outcomes if o.kind == "verdict"]
            before = self._before(case, judged, base)
            changed = [
                (old, new)
                for old, new in zip(before, verdicts, strict=True)
                if old is not None and old.relevant != new.relevant
            ]
            if before and None not in before:
                flips[case.source] = flips.get(case.source, False) or bool(changed)
            elif probe.expect == "unchanged":
                failed += 1
                continue
            positive = any(v.relevant for v in verdicts)
            fooled = bool(changed) if probe.expect == "unchanged" else positive
            positives += positive
            noticed += any(v.instruction_in_chunk for v in verdicts)
            by_trace.setdefault(case.source, []).append(fooled)
            if case.variant:
                variants.setdefault(case.variant, Counter())[fooled] += 1
            if fooled and len(examples) < EXAMPLES:
                old, new = changed[0] if changed else (before[0] if before else None, verdicts[0])
                examples.append(_example(case, old, new))
        fooled_traces = sum(any(row) for row in by_trace.values())
        irrelevant = probe.expect == "irrelevant"
        return ProbeResult(
            probe=name,
            text=probe.text,
            n=len(by_trace),
            fooled=fooled_traces,
            rate=Figure.of(proportion_interval(fooled_traces, len(by_trace))),
            false_positives=positives if irrelevant else None,
            flips=sum(flips.values()) if flips else None,
            flip_rate=Figure.of(proportion_interval(sum(flips.values()), len(flips))) if flips else None,
            noticed=noticed if name == "injection" else None,
            variants={variant: (counts[True], counts.total()) for variant, counts in variants.items()},
            failed=failed,
            examples=tuple(examples),
        )

    def _before(
        self, case: Case, judged: Mapping[str, TraceResult], base: Mapping[str, TraceResult]
    ) -> list[Verdict | None]:
        """Return the verdicts on the unaltered chunks, in the case's order; None where one failed."""
        count = len(case.trace.chunks)
        if case.probe == "order":
            found = {o.chunk_id: o for o in base[case.source].outcomes}
            outcomes = [found[chunk.id] for chunk in case.trace.chunks]
        else:
            twin = "random" if case.probe == "injection" else "gold"
            if PROBES[case.probe].expect == "irrelevant" and case.probe != "injection":
                return [None] * count
            result = judged.get(f"{case.source}~{twin}")
            outcomes = list(result.outcomes) if result else []
        out: list[Verdict | None] = [o if o.kind == "verdict" else None for o in outcomes]
        return out if out else [None] * count

    def _report(
        self,
        results: Sequence[ProbeResult],
        traces: Sequence[Trace],
        labelled: int,
        canary: Mapping[str, TraceResult],
        judged: Mapping[str, TraceResult],
        names: Sequence[str],
    ) -> ProbeReport:
        top = self.evaluator.judge.scale.maximum
        gaps: list[float] = []
        right: list[bool] = []
        gold_hits: list[bool] = []
        random_hits: list[bool] = []
        for trace in traces:
            gold, other = _verdict(canary, trace.id, "gold"), _verdict(judged, trace.id, "random")
            if gold is not None and other is not None:
                gaps.append((gold.grade - other.grade) / top)
                right.append(gold.grade > other.grade)
                gold_hits.append(gold.relevant)
                random_hits.append(other.relevant)
        told = list(results)
        warnings = []
        separates: bool | None = None
        separation: Estimate | None = None
        if "polarity" in names and gaps:
            separation = mean_interval(gaps)
            lowest = separation.interval.low if separation.interval else separation.value or 0.0
            separates = lowest > 0
            wrong = right.count(False)
            rate = Figure.of(proportion_interval(wrong, len(right)))
            told.insert(
                0,
                ProbeResult(
                    probe="polarity",
                    text=PROBES["polarity"].text,
                    n=len(right),
                    fooled=wrong,
                    rate=rate,
                    failed=len(traces) - len(right),
                ),
            )
            if (separation.value or 0) < 0:
                warnings.append("random chunks are graded above gold ones: the prompt is the wrong way round")
            elif not separates:
                warnings.append("gold chunks are not graded above random ones: the judge tells nothing apart")
        if failed := sum(result.failed for result in told):
            warnings.append(f"{failed} cases brought no verdict and are in no rate")
        return ProbeReport(
            judge=_who(self.evaluator),
            traces=len(traces),
            labelled=labelled,
            calls=self._calls,
            results=tuple(told),
            gold_rate=_share(gold_hits),
            random_rate=_share(random_hits),
            separation=Figure.of(separation) if separation else None,
            separates=separates,
            warnings=tuple(warnings),
        )


def probe(
    data: Traces, model: str, *, probes: Sequence[str] = (), seed: int = 0, **settings: Any
) -> ProbeReport:
    """Probe a judge: `Prober(Evaluator(model, ...), probes, seed).probe(data)` in one call.

    Args:
        data: See `Prober.probe`.
        model: See `Evaluator`.
        probes: Names of probes; all where empty.
        seed: Of all that is drawn.
        settings: Keyword arguments of `Evaluator`, and `limit` of `Prober.probe`.
    """
    limit = settings.pop("limit", None)
    with Evaluator(model, **{"metrics": ["RR"], **settings}) as evaluator:
        return Prober(evaluator, probes, seed).probe(data, limit=limit)


def _verdict(judged: Mapping[str, TraceResult], source: str, name: str) -> Verdict | None:
    result = judged.get(f"{source}~{name}")
    outcome = result.outcomes[0] if result is not None else None
    return outcome if outcome is not None and outcome.kind == "verdict" else None


def _share(hits: Sequence[bool]) -> Figure | None:
    return Figure.of(proportion_interval(sum(hits), len(hits))) if hits else None


def _example(case: Case, old: Verdict | None, new: Verdict) -> Example:
    text = next(c.text for c in case.trace.chunks if c.id == new.chunk_id)
    return Example(
        trace_id=case.source,
        variant=case.variant,
        query=_brief(case.trace.query, 120),
        text=_brief(text, 300),
        before=None if old is None else old.grade,
        after=new.grade,
        reason=new.reason,
    )


def _brief(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def _who(evaluator: Evaluator) -> str:
    identity = evaluator.stack.backend.identity
    model = f"{identity.provider}/{identity.model}" if identity else "a backend of your own"
    prompt = evaluator.judge.describe().get("prompt")
    return f"{model} with {prompt['id']}@{prompt['version']}" if isinstance(prompt, dict) else model
