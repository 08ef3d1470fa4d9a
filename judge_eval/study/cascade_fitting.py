"""From two runs over one sample to the file of a cascade, without a call."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from judge_eval.confidence import is_sure
from judge_eval.errors import DataError, RunError
from judge_eval.installed import own_version
from judge_eval.judges.judge import Mode
from judge_eval.note import Note, NoteKind
from judge_eval.runs.columns.graded_trace import cluster_of
from judge_eval.runs.folder.describing import backends_by_route
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Chunk, Outcome, Stage, Trace, Verdict
from judge_eval.stats import CascadeFit, cascade_cost, fit_cascade, fit_cascade_to_people
from judge_eval.stats.cascade_threshold import CascadeChoice
from judge_eval.study.cascade_file import CascadeFile, CascadeStage

VerdictPrice = Callable[[Stage, int, int], float | None]
"""What so many tokens, in and out, cost of the model of a stage in US dollars; None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSample:
    """The sample: traces drawn uniformly, one of a cluster where some share one, with one chunk of each."""

    traces: list[Trace]
    """Whole, for the cheap judge."""
    spots: list[Trace]
    """For the strong one, as it is asked in use: cut down to the chunk that was drawn, or whole if it does
    not judge each chunk alone."""
    chunks: dict[str, str]
    """The chunk that was drawn of each trace, by trace id."""
    dataset: str
    digest: str
    """Of all the data."""
    total: int
    """How many traces the data hold."""
    eligible: int
    """How many of them hold a chunk that could be drawn."""
    ends: tuple[int, int] = (0, 0)
    """The lowest and the highest label."""
    cluster: str | None = None
    """The key of the metadata that names clusters, where traces share one."""
    clusters: int | None = None
    """How many clusters the eligible traces are of, where some share one; a trace without counts as one."""
    depth: int | None = None
    """The most chunks of a trace that were read; None if all were."""

    def of(self, stage: Stage) -> list[Trace]:
        """Return what the judge of a stage is asked about."""
        return self.traces if stage == "cheap" else self.spots


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFacts:
    """How the sample was drawn, how the judges were named, and what counts as right."""

    sample: PilotSample
    seed: int
    models: Mapping[Stage, str]
    """`provider/model` by stage."""
    prompts: Mapping[Stage, str]
    """The prompt's id with its version, or `file:PATH`, by stage."""
    modes: Mapping[Stage, Mode]
    labels: str | None = None
    """Where the labels come from, where people are the target."""
    label_relevant: int = 1
    """The least label that counts as relevant."""
    explain_positives: bool = False
    """Whether all relevant verdicts of the cheap judge are escalated."""
    ties: int = 0
    """Chunks that could not be drawn because as many people find them relevant as not."""


def fit_runs(
    cheap: Run,
    strong: Run,
    facts: SampleFacts,
    *,
    alpha: float = 0.05,
    level: float = 0.95,
    target: Literal["strong", "labels"] = "strong",
    price: VerdictPrice | None = None,
) -> CascadeFile:
    """Fit a cascade's threshold to two runs: the cheap judge's over traces, the strong one's over chunks.

    Args:
        cheap: Over the whole traces of the sample.
        strong: Over the same traces, cut down to the chunk that was drawn, or whole if the judge does not
            judge each chunk alone.
        facts: Where the sample came from.
        alpha: The greatest risk, between 0 and 1.
        level: How sure to be of it, between 0 and 1.
        target: Whose answers are right: the strong judge's, or the labels of the strong run's chunks.
        price: What tokens cost; None where nobody knows.

    Raises:
        RunError: The strong judge failed on a chunk: leaving it out would favour what is easily judged.
        DataError: The runs are not of one sample, traces of it share a cluster, a label is missing, or the
            cheap judge told no probability.
        ValueError: `alpha` or `level` is out of its range.
    """
    key = cheap.manifest.intervals.cluster
    clusters = [name for result in cheap.results if (name := cluster_of(result.trace, key)) is not None]
    if len(clusters) > len(set(clusters)):
        raise DataError(
            f"{len(clusters)} traces are in {len(set(clusters))} clusters (metadata.{key}), and traces of "
            "one cluster are not independent: draw one trace of each",
            file=facts.sample.dataset,
        )
    drawn = {result.trace_id: _drawn(result, facts) for result in strong.results}
    unsupported = sum(_is_unsupported(outcome) for _, outcome in drawn.values())
    if failed := sum(outcome.kind != "verdict" for _, outcome in drawn.values()) - unsupported:
        raise RunError(
            f"the strong judge gave no verdict on {failed} of {len(drawn)} chunks, and leaving them out "
            "would favour what is easily judged; fit again, which asks for these alone",
            file=strong.folder,
        )
    sure: list[float | None] = []
    first: list[int] = []
    second: list[int] = []
    people: list[int] = []
    not_probable = unjudged = 0
    for result in cheap.results:
        spot = drawn.pop(result.trace_id, None)
        if spot is None:
            raise DataError(f"the runs have different samples: no chunk of trace {result.trace_id!r} was drawn")
        chunk, strong_outcome = spot
        own = next((o for o in result.outcomes if o.chunk_id == strong_outcome.chunk_id), None)
        cheap_verdict = own if own is not None and own.kind == "verdict" else None
        unjudged += cheap_verdict is None
        not_probable += cheap_verdict is not None and cheap_verdict.side_confidence is None
        sure.append(_confidence(cheap_verdict, facts))
        first.append(int(cheap_verdict is not None and cheap_verdict.relevant))
        if target == "labels":
            if chunk.label is None:
                raise DataError(f"chunk {chunk.id!r} of trace {result.trace_id!r} has no label")
            people.append(int(chunk.label >= facts.label_relevant))
        if _is_unsupported(strong_outcome):  # differs from whatever it is compared with
            second.append(1 - (people or first)[-1])
        else:
            second.append(int(strong_outcome.kind == "verdict" and strong_outcome.relevant))
    if drawn:
        raise DataError(f"the runs have different samples: {len(drawn)} traces are only in the strong judge's run")
    if sure and all(each is None for each in sure):
        raise DataError(
            f"the cheap judge returned no probability for any of {len(sure)} chunks, so its confidence is "
            "sure; take a decision model, or a chat model whose server returns log-probabilities"
        )
    fit = (
        fit_cascade_to_people(sure, first, second, people, alpha=alpha, level=level)
        if target == "labels"
        else fit_cascade(sure, first, second, alpha=alpha, level=level)
    )
    runs: dict[Stage, Run] = {"cheap": cheap, "strong": strong}
    stages = {stage: _stage(stage, run, facts, price) for stage, run in runs.items()}
    whole = stages["strong"].judge.get("reads") == "trace"
    asked = _share_read(cheap, facts, fit.threshold) if whole else 1 - fit.coverage
    costs = _costs(fit, stages["cheap"], stages["strong"], asked)
    sample = facts.sample
    return CascadeFile(
        created=datetime.now(UTC),
        version=own_version(),
        dataset=sample.dataset,
        dataset_digest=sample.digest,
        traces=sample.total,
        seed=facts.seed,
        cluster=sample.cluster,
        clusters=sample.clusters,
        explain_positives=facts.explain_positives,
        depth=sample.depth,
        labels=facts.labels,
        runs={"cheap": cheap.id, "strong": strong.id},
        cheap=stages["cheap"],
        strong=stages["strong"],
        scale=scale_of(cheap),
        fit=fit,
        notes=_notes(stages["strong"], unjudged, not_probable, unsupported, facts.ties),
        **costs,
    )


def _drawn(result: TraceResult, facts: SampleFacts) -> tuple[Chunk, Outcome]:
    pairs = list(zip(result.trace.chunks, result.outcomes, strict=True))
    chunk_id = facts.sample.chunks.get(result.trace_id)
    if chunk_id is None and len(pairs) == 1:
        return pairs[0]
    for chunk, outcome in pairs:
        if chunk.id == chunk_id:
            return chunk, outcome
    raise DataError(f"the runs have different samples: no chunk of trace {result.trace_id!r} was drawn")


def _is_unsupported(outcome: Outcome) -> bool:
    return outcome.kind == "no_verdict" and outcome.why == "unsupported"


def _confidence(verdict: Verdict | None, facts: SampleFacts) -> float | None:
    """Return the confidence of a cheap verdict; 0 if it is escalated anyway, None if nothing is known."""
    if verdict is None or verdict.side_confidence is None:
        return None
    return 0.0 if facts.explain_positives and verdict.relevant else verdict.side_confidence


def _share_read(cheap: Run, facts: SampleFacts, threshold: float | None) -> float:
    read = total = 0
    for result in cheap.results:
        texts = zip(result.trace.chunks, result.outcomes, strict=True)
        asked = [outcome for chunk, outcome in texts if not chunk.is_blank]
        verdicts = [outcome if outcome.kind == "verdict" else None for outcome in asked]
        stand = all(is_sure(_confidence(verdict, facts), threshold) for verdict in verdicts)
        total += len(asked)
        read += 0 if stand else len(asked)
    return read / total if total else 0.0


def _stage(stage: Stage, run: Run, facts: SampleFacts, price: VerdictPrice | None) -> CascadeStage:
    judge = {name: value for name, value in run.manifest.judge.items() if name != "route"}
    input_tokens, output_tokens, verdicts, failed = _taken(run.results)
    known = input_tokens + output_tokens > 0 and verdicts > 0
    cost = price(stage, input_tokens, output_tokens) if known and price is not None else None
    return CascadeStage(
        model=facts.models[stage],
        prompt=facts.prompts[stage],
        mode=facts.modes[stage],
        judge=judge,
        backend=dict(backends_by_route(run.manifest.backend).get(stage, {})),
        verdicts=verdicts,
        failed=failed,
        tokens=1000 * (input_tokens + output_tokens) / verdicts if known else None,
        cost=None if cost is None else 1000 * cost / verdicts,
    )


def _taken(results: Iterable[TraceResult]) -> tuple[int, int, int, int]:
    input_tokens = output_tokens = verdicts = failed = 0
    for result in results:
        input_tokens += sum(call.input_tokens for call in result.calls)
        output_tokens += sum(call.output_tokens for call in result.calls)
        failed += result.failed
        texts = zip(result.trace.chunks, result.outcomes, strict=True)
        verdicts += sum(o.kind == "verdict" and not c.is_blank for c, o in texts)
    return input_tokens, output_tokens, verdicts, failed


def _costs(fit: CascadeFit, cheap: CascadeStage, strong: CascadeStage, asked: float) -> dict[str, Any]:
    tokens = cost = None
    choice: CascadeChoice | None = "strong" if not fit.kept else "cheap" if fit.kept == fit.n else None
    if cheap.tokens is not None and strong.tokens is not None:
        tokens = cheap.tokens + asked * strong.tokens
    if cheap.cost is not None and strong.cost is not None:
        price = cascade_cost(fit, cheap.cost / 1000, strong.cost / 1000, asked=asked)
        cost, choice = price.cascade, price.choice
    return {"tokens": tokens, "cost": cost, "choice": choice}


def _notes(strong: CascadeStage, unjudged: int, not_probable: int, unsupported: int, ties: int) -> tuple[Note, ...]:
    counts: tuple[tuple[NoteKind, int], ...] = (
        ("whole traces", int(strong.judge.get("reads") == "trace")),
        ("unsupported", unsupported),
        ("unjudged", unjudged),
        ("not probable", not_probable),
        ("ties", ties),
    )
    return tuple(Note(kind=kind, count=count) for kind, count in counts if count)
