"""Probing a judge: its cases are built and judged, and the verdicts counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from judge_eval.data.options import ReadOptions
from judge_eval.errors import DataError, UnknownNameError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.judges.judge import judge_in_words
from judge_eval.note import Note, uncalibrated
from judge_eval.registry import kind_of_record
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.judging.sources import Traces
from judge_eval.runs.options import Selection
from judge_eval.safe_text import shortened
from judge_eval.schema import Chunk, Outcome, Trace, Verdict
from judge_eval.stats import Figure, mean_interval, proportion_interval
from judge_eval.study.probe_report import Assurance, Example, ProbeReport, ProbeResult
from judge_eval.trials.cases import IN_CONVERSATION, PROBES, Case, build_cases, gold_case

Sourced = tuple[str, Verdict]
"""The trace a case was made from, and a verdict on it."""


def assurance_of(verdicts: Sequence[Sourced]) -> Assurance | None:
    """Sum up the probabilities told for irrelevant chunks; None if no verdict has one."""
    probable = [(source, v.confidence, v.relevant) for source, v in verdicts if v.confidence is not None]
    if not probable:
        return None
    sources = [source for source, _, _ in probable]
    repeated = len(set(sources)) < len(sources)  # several values of one trace count as one
    accepted = [probability for _, probability, relevant in probable if relevant]
    return Assurance(
        n=len(probable),
        untold=len(verdicts) - len(probable),
        mean=mean_interval(
            [probability for _, probability, _ in probable], clusters=sources if repeated else None, limits=(0.0, 1.0)
        ),
        accepted=len(accepted),
        accepted_mean=float(np.mean(accepted)) if accepted else None,
    )


EXAMPLES = 3
"""How many cases of each probe a report shows."""


def tally(
    name: str, cases: Sequence[Case], judged: Mapping[str, TraceResult], base: Mapping[str, TraceResult]
) -> ProbeResult:
    """Count how often the judge was fooled."""
    probe = PROBES[name]
    failed = rejected = 0
    seen = list[tuple[Case, list[Verdict], bool]]()
    flips: dict[str, bool] = {}
    examples: list[Example] = []
    for case in cases:
        outcomes = judged[case.trace.id].outcomes
        verdicts = [o for o in outcomes if o.kind == "verdict"]
        before = _before(case, judged, base)
        if len(verdicts) < len(outcomes) or (None in before and probe.expect in ("unchanged", "refuted")):
            failed += 1
            continue
        pairs = zip(before, verdicts, strict=True)
        changed = [(old, new) for old, new in pairs if old is not None and old.relevant != new.relevant]
        if probe.expect == "refuted":  # a sound judge changes each of its verdicts: no flip is a fault
            if not all(old is not None and old.relevant for old in before):
                rejected += 1
                continue
        elif None not in before:
            flips[case.source] = flips.get(case.source, False) or bool(changed)
        accepted = [place for place, v in enumerate(verdicts) if v.relevant]
        fooled = bool(changed) if probe.expect == "unchanged" else bool(accepted)
        seen.append((case, verdicts, fooled))
        if fooled and len(examples) < EXAMPLES:
            first = accepted[0] if accepted else 0
            old, new = changed[0] if changed else (before[first], verdicts[first])
            examples.append(_example(case, old, new))
    traces = {case.source for case, _, _ in seen}
    fooled_traces = len({case.source for case, _, fooled in seen if fooled})
    variants: dict[str, Counter[bool]] = {}
    for case, _, fooled in seen:
        if case.variant:
            variants.setdefault(case.variant, Counter())[fooled] += 1
    # Who gives no reasons reports no instruction.
    able = sum(any(v.reason is not None for v in verdicts) for _, verdicts, _ in seen)
    noticed = sum(any(v.instruction_in_chunk for v in verdicts) for _, verdicts, _ in seen)
    judgments: list[Sourced] = [(case.source, v) for case, verdicts, _ in seen for v in verdicts]
    irrelevant = probe.expect in ("irrelevant", "refuted")
    return ProbeResult(
        probe=name,
        text=probe.text,
        n=len(traces),
        fooled=fooled_traces,
        rate=proportion_interval(fooled_traces, len(traces)),
        false_positives=sum(v.relevant for _, v in judgments) if irrelevant else None,
        chunks=len(judgments) if irrelevant else None,
        flips=sum(flips.values()) if flips else None,
        flip_rate=proportion_interval(sum(flips.values()), len(flips)) if flips else None,
        noticed=noticed if name == "injection" and able else None,
        noticing=able if name == "injection" else None,
        variants={variant: (counts[True], counts.total()) for variant, counts in variants.items()},
        failed=failed,
        rejected_before=rejected,
        assurance=assurance_of(judgments) if irrelevant else None,
        examples=tuple(examples),
    )


def _before(case: Case, judged: Mapping[str, TraceResult], base: Mapping[str, TraceResult]) -> list[Verdict | None]:
    """Return the verdicts on the unaltered chunks, in the case's order; None where one failed."""
    outcomes: list[Outcome] = []
    if case.probe == "order":
        by_chunk = {o.chunk_id: o for o in base[case.source].outcomes}
        outcomes = [by_chunk[chunk.id] for chunk in case.trace.chunks]
    elif twin := PROBES[case.probe].twin:
        result = judged.get(f"{case.source}~{twin}")
        outcomes = list(result.outcomes) if result else []
    return [o if o.kind == "verdict" else None for o in outcomes] or [None] * len(case.trace.chunks)


def _example(case: Case, old: Verdict | None, new: Verdict) -> Example:
    text = next(c.text for c in case.trace.chunks if c.id == new.chunk_id)
    return Example(
        trace_id=case.source,
        variant=case.variant,
        query=shortened(case.trace.query, 120),
        text=shortened(text, 300),
        before=None if old is None else old.grade,
        after=new.grade,
        reason=new.explanation,
    )


@dataclass
class Prober:
    """Probes the judge of an evaluator, whose metrics play no part, by some probes or all.

    `order` needs a judge in listwise mode, false references one that reads a reference or an answer.
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
        """Build the probes from traces, or from `limit` random ones, have them judged, and report."""
        # There must be two traces or more, and no stream. The gold chunk of a trace is the first with a relevant human
        # label, else the first that the judge itself finds relevant. The polarity canary of a trace without labels
        # takes the reference as gold, since what the judge finds relevant could not show it to be the wrong way round.
        source = self.evaluator.source(data, Selection(limit=limit, seed=self.seed if limit else None))
        if source is None:
            raise DataError("probes are built from a list or a file, not from a stream")
        source.survey()
        traces = [trace for trace in source if any(chunk.text.strip() for chunk in trace.chunks)]
        if len(traces) < 2:
            raise DataError("probes need at least two traces with chunks")
        self._calls = 0
        run = self._judge(traces)
        base = {r.trace_id: r for r in run.results}
        doubts = list(uncalibrated(run.manifest))
        listwise = kind_of_record(self.evaluator.chosen_judge.describe()).shows_list
        stated = self.evaluator.chosen_judge.needs
        requested = list(self.probes or PROBES)
        left_out = [name for name in requested if PROBES[name].expect == "refuted" and not stated]
        talks = any(trace.history for trace in traces)
        impossible = {*left_out, *(() if listwise else ("order",)), *(() if talks else IN_CONVERSATION)}
        names = [name for name in requested if name not in impossible]
        warnings = list(doubts)
        if left_out:
            warnings.append(Note(kind="no reference read", names=tuple(left_out)))
        if not talks and (alone := tuple(name for name in self.probes if name in IN_CONVERSATION)):
            warnings.append(Note(kind="no conversation", names=alone))
        gold, labelled = self._gold(traces, base)
        needed, irrelevant = self._needed(names), self._irrelevant(traces, base if listwise else {})
        cases = list(build_cases(traces, gold, names=needed, seed=self.seed, irrelevant=irrelevant, stated=stated))
        twins = [gold_case(t, gold[t.id]) for t in traces if t.id in gold]
        canaries = [gold_case(t, c) for t in traces if (c := self._canary(t, gold, labelled)) is not None]
        unique = {t.id: t for t in (*twins, *(case.trace for case in cases))}
        judged = {r.trace_id: r for r in self._judge(list(unique.values())).results}
        canary = {r.trace_id: r for r in self._judge(canaries).results} if "polarity" in names else {}
        results = [tally(n, [c for c in cases if c.probe == n], judged, base) for n in names if n != "polarity"]
        return self._report(results, traces, len(labelled), canary, judged, warnings, by_probability=bool(doubts))

    def _needed(self, names: Sequence[str]) -> list[str]:
        random = any(name == "polarity" or PROBES[name].twin == "random" for name in names)
        return [name for name in PROBES if name in names or (name == "random" and random)]

    def _judge(self, traces: Sequence[Trace]) -> EvalRun:
        run = self.evaluator.evaluate(list(traces), name="probes", reader=ReadOptions(yes_ids=True))
        self._calls += run.manifest.tally.calls
        return run

    def _gold(self, traces: Sequence[Trace], base: Mapping[str, TraceResult]) -> tuple[dict[str, Chunk], set[str]]:
        highest = _highest_label(traces)
        scale = self.evaluator.chosen_judge.scale
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
        """Collect by trace its chunks with the lowest label, or less; without labels, what was judged so."""
        # A pointwise judge is not asked again about what it rejected: it would be the same request.
        rejected = {}
        lowest = self.evaluator.chosen_judge.scale.minimum if _highest_label(traces) > 1 else 0
        for trace in traces:
            if any(chunk.label is not None for chunk in trace.chunks):
                rejected[trace.id] = [c for c in trace.chunks if c.label is not None and c.label <= lowest]
            elif trace.id in base:
                pairs = zip(trace.chunks, base[trace.id].outcomes, strict=True)
                rejected[trace.id] = [c for c, o in pairs if o.kind == "verdict" and not o.relevant]
        return rejected

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
        warnings: list[Note],
        *,
        by_probability: bool,
    ) -> ProbeReport:
        pairs: list[tuple[Verdict, Verdict]] = []
        failed_pairs = 0
        for trace in traces:
            gold, other = _verdict(canary, f"{trace.id}~gold"), _verdict(judged, f"{trace.id}~random")
            if gold is not None and other is not None:
                pairs.append((gold, other))
            else:
                failed_pairs += f"{trace.id}~gold" in canary and f"{trace.id}~random" in judged
        separation: Figure | None = None
        separates: bool | None = None
        if pairs:
            scale = self.evaluator.chosen_judge.scale
            width = scale.maximum - scale.minimum
            by_probability &= all(verdict.expected_grade is not None for pair in pairs for verdict in pair)
            gaps = [(_height(gold, by_probability) - _height(other, by_probability)) / width for gold, other in pairs]
            separation = mean_interval(gaps, limits=(-1.0, 1.0))
            lowest = separation.interval.low if separation.interval else separation.value or 0.0
            separates = lowest > 0
            wrong = sum(gap <= 0 for gap in gaps)
            polarity = ProbeResult(
                probe="polarity",
                text=PROBES["polarity"].text,
                n=len(pairs),
                fooled=wrong,
                rate=proportion_interval(wrong, len(pairs)),
                failed=failed_pairs,
            )
            results = [polarity, *results]
            if (separation.value or 0) < 0:
                warnings.append(Note(kind="inverted"))
            elif not separates:
                warnings.append(Note(kind="not distinguished"))
        if failed := sum(result.failed for result in results):
            warnings.append(Note(kind="failed cases", count=failed))
        return ProbeReport(
            judge=_who(self.evaluator),
            traces=len(traces),
            labelled=labelled,
            calls=self._calls,
            results=tuple(results),
            gold_rate=_share([gold.relevant for gold, _ in pairs]),
            random_rate=_share([other.relevant for _, other in pairs]),
            separation=separation,
            separates=separates,
            warnings=tuple(warnings),
        )


def probe(data: Traces, model: str, *, probes: Sequence[str] = (), seed: int = 0, **settings: Any) -> ProbeReport:
    """Probe a judge: `Prober(Evaluator(model, ...), probes, seed).probe(data)` in one call."""
    # The settings are those of `Evaluator`, and `limit` of `Prober.probe`.
    limit = settings.pop("limit", None)
    with Evaluator(model, **{"metrics": ["RR"], **settings}) as evaluator:
        return Prober(evaluator, probes, seed).probe(data, limit=limit)


def _height(verdict: Verdict, by_probability: bool) -> float:
    """Return the grade; the expected one if the judge's threshold means nothing, as of a verdict alone."""
    return verdict.expected_grade or 0.0 if by_probability else verdict.grade


def _verdict(judged: Mapping[str, TraceResult], trace_id: str) -> Verdict | None:
    result = judged.get(trace_id)
    outcome = result.outcomes[0] if result is not None else None
    return outcome if outcome is not None and outcome.kind == "verdict" else None


def _share(hits: Sequence[bool]) -> Figure | None:
    return proportion_interval(sum(hits), len(hits)) if hits else None


def _who(evaluator: Evaluator) -> str:
    identities = evaluator.stack.identities().values()
    models = [f"{i.provider}/{i.model}" if i else "a backend of your own" for i in identities]
    words = judge_in_words(evaluator.chosen_judge.describe())
    return ", ".join(models) + (f" with {words}" if words else "")


def _highest_label(traces: Sequence[Trace]) -> int:
    return max((chunk.label or 0 for trace in traces for chunk in trace.chunks), default=0)
