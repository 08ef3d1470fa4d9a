"""Putting probes to a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge_eval.errors import DataError, UnknownNameError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.probes.cases import PROBES, build_cases, gold_case
from judge_eval.probes.findings import ProbeReport, ProbeResult
from judge_eval.probes.tally import tally
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.judging.selection import Selection
from judge_eval.runs.judging.sources import Traces
from judge_eval.runs.scoring.figure import Figure
from judge_eval.schema import Chunk, Trace, Verdict
from judge_eval.stats import Estimate, mean_interval, proportion_interval


@dataclass
class Prober:
    """Probes the judge of an evaluator.

    Args:
        evaluator: The judge with its backend; its metrics play no part.
        probes: Names of probes; all where empty. `order` needs a judge in listwise mode, false references
            one that reads a reference or an answer.
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
        source = self.evaluator.source(data, Selection(limit=limit, seed=self.seed if limit else None))
        if source is None:
            raise DataError("probes are built from a list or a file, not from a stream")
        source.survey()
        traces = [trace for trace in source if any(chunk.text.strip() for chunk in trace.chunks)]
        if len(traces) < 2:
            raise DataError("probes need two traces with chunks or more")
        self._calls = 0
        base = {r.trace_id: r for r in self._judge(traces).results}
        listwise = self.evaluator.judge.describe().get("mode") == "listwise"
        stated = self.evaluator.judge.needs
        asked = list(self.probes or PROBES)
        left_out = [name for name in asked if PROBES[name].expect == "refuted" and not stated]
        names = [n for n in asked if n not in left_out and (n != "order" or listwise)]
        gold, labelled = self._gold(traces, base)
        cases = list(
            build_cases(
                traces,
                gold,
                names=self._needed(names),
                seed=self.seed,
                irrelevant=self._irrelevant(traces, base if listwise else {}),
                stated=stated,
            )
        )
        twins = [gold_case(t, gold[t.id]) for t in traces if t.id in gold]
        canaries = [gold_case(t, c) for t in traces if (c := self._canary(t, gold, labelled)) is not None]
        unique = {t.id: t for t in (*twins, *(case.trace for case in cases))}
        judged = {r.trace_id: r for r in self._judge(list(unique.values())).results}
        canary = {r.trace_id: r for r in self._judge(canaries).results} if "polarity" in names else {}
        results = [
            tally(n, [c for c in cases if c.probe == n], judged, base) for n in names if n != "polarity"
        ]
        return self._report(results, traces, len(labelled), canary, judged, left_out)

    def _needed(self, names: Sequence[str]) -> list[str]:
        """Add the unaltered chunks that others are measured against."""
        random = any(name == "polarity" or PROBES[name].twin == "random" for name in names)
        return [name for name in PROBES if name in names or (name == "random" and random)]

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

    def _irrelevant(self, traces: Sequence[Trace], base: Mapping[str, TraceResult]) -> dict[str, list[Chunk]]:
        """Collect by trace its chunks that people label 0 or less; without labels, what was judged so.

        A pointwise judge is not asked again about what it rejected: it would be the same request.
        """
        found = {}
        for trace in traces:
            if any(chunk.label is not None for chunk in trace.chunks):
                found[trace.id] = [c for c in trace.chunks if c.label is not None and c.label <= 0]
            elif trace.id in base:
                pairs = zip(trace.chunks, base[trace.id].outcomes, strict=True)
                found[trace.id] = [c for c, o in pairs if o.kind == "verdict" and not o.relevant]
        return found

    def _canary(self, trace: Trace, gold: Mapping[str, Chunk], labelled: set[str]) -> Chunk | None:
        if trace.id in labelled:
            return gold[trace.id]
        text = trace.reference or trace.answer
        return Chunk(id="c1", text=text) if text else None

    def _report(
        self,
        results: list[ProbeResult],
        traces: Sequence[Trace],
        labelled: int,
        canary: Mapping[str, TraceResult],
        judged: Mapping[str, TraceResult],
        left_out: Sequence[str],
    ) -> ProbeReport:
        pairs: list[tuple[Verdict, Verdict]] = []
        failed_pairs = 0
        for trace in traces:
            gold, other = _verdict(canary, f"{trace.id}~gold"), _verdict(judged, f"{trace.id}~random")
            if gold is not None and other is not None:
                pairs.append((gold, other))
            else:
                failed_pairs += f"{trace.id}~gold" in canary and f"{trace.id}~random" in judged
        warnings = []
        separates: bool | None = None
        separation: Estimate | None = None
        if pairs:
            top = self.evaluator.judge.scale.maximum
            gaps = [(gold.grade - other.grade) / top for gold, other in pairs]
            separation = mean_interval(gaps, limits=(-1.0, 1.0))
            lowest = separation.interval.low if separation.interval else separation.value or 0.0
            separates = lowest > 0
            wrong = sum(gold.grade <= other.grade for gold, other in pairs)
            polarity = ProbeResult(
                probe="polarity",
                text=PROBES["polarity"].text,
                n=len(pairs),
                fooled=wrong,
                rate=Figure.of(proportion_interval(wrong, len(pairs))),
                failed=failed_pairs,
            )
            results = [polarity, *results]
            if (separation.value or 0) < 0:
                warnings.append("random chunks are graded above gold ones: the prompt is the wrong way round")
            elif not separates:
                warnings.append("gold chunks are not graded above random ones: the judge tells nothing apart")
        if left_out:
            warnings.append(f"not probed, since the judge reads no reference: {', '.join(left_out)}")
        if failed := sum(result.failed for result in results):
            warnings.append(f"{failed} cases brought no verdict and are in no rate")
        return ProbeReport(
            judge=_who(self.evaluator),
            traces=len(traces),
            labelled=labelled,
            calls=self._calls,
            results=tuple(results),
            gold_rate=_share([gold.relevant for gold, _ in pairs]),
            random_rate=_share([other.relevant for _, other in pairs]),
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


def _verdict(judged: Mapping[str, TraceResult], trace_id: str) -> Verdict | None:
    result = judged.get(trace_id)
    outcome = result.outcomes[0] if result is not None else None
    return outcome if outcome is not None and outcome.kind == "verdict" else None


def _share(hits: Sequence[bool]) -> Figure | None:
    return Figure.of(proportion_interval(sum(hits), len(hits))) if hits else None


def _who(evaluator: Evaluator) -> str:
    identity = evaluator.stack.backend.identity
    model = f"{identity.provider}/{identity.model}" if identity else "a backend of your own"
    prompt = evaluator.judge.describe().get("prompt")
    return f"{model} with {prompt['id']}@{prompt['version']}" if isinstance(prompt, dict) else model
