"""From two runs over one sample to the file of a cascade, without a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from judge_eval.alignment.cascade import CascadeFile, CascadeStage, CascadeThreshold
from judge_eval.errors import DataError, RunError
from judge_eval.installed import own_version
from judge_eval.judges.choose import Mode
from judge_eval.runs.folder.index import cluster_of
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Stage
from judge_eval.stats import CascadeFit, cascade_cost, fit_cascade, fit_cascade_to_people
from judge_eval.stats.cascade_costs import CascadeChoice

Price = Callable[[Stage, int, int], float | None]
"""What so many tokens, in and out, cost of the model of a stage in US dollars; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """Where the sample came from, and how the judges were named."""

    dataset: str
    digest: str
    """Of all the data that the sample was drawn from."""
    traces: int
    """How many traces the data hold."""
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
    cluster: str | None = None
    """The key of the metadata by which one trace of a cluster was drawn; None where no two share one."""
    clusters: int | None = None
    """How many clusters the traces that could be drawn are of; None where no two share one."""


def fit_runs(
    cheap: Run,
    strong: Run,
    facts: SampleFacts,
    *,
    alpha: float = 0.05,
    level: float = 0.95,
    target: Literal["strong", "labels"] = "strong",
    price: Price | None = None,
) -> CascadeFile:
    """Fit a cascade's threshold to two runs: the cheap judge's over traces, the strong one's over chunks.

    Args:
        cheap: Over the whole traces of the sample.
        strong: Over the same traces, cut down to the chunk that was drawn.
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
            f"{len(clusters)} traces are of {len(set(clusters))} clusters (metadata.{key}), and traces of "
            "one are no independent trials: draw one trace of each",
            file=facts.dataset,
        )
    drawn = {result.trace_id: result for result in strong.results}
    if failed := sum(result.failed for result in drawn.values()):
        raise RunError(
            f"the strong judge gave no verdict on {failed} of {len(drawn)} chunks, and leaving them out "
            "would favour what is easily judged; fit again, which asks for these alone",
            file=strong.folder,
        )
    sure: list[float | None] = []
    first: list[int] = []
    second: list[int] = []
    people: list[int] = []
    untold = unjudged = 0
    for result in cheap.results:
        spot = drawn.pop(result.trace_id, None)
        if spot is None or len(spot.outcomes) != 1:
            raise DataError(f"the runs are not of one sample: trace {result.trace_id!r} has no chunk drawn")
        (said,), (chunk,) = spot.outcomes, spot.trace.chunks
        own = next((o for o in result.outcomes if o.chunk_id == said.chunk_id), None)
        told = own if own is not None and own.kind == "verdict" else None
        unjudged += told is None
        untold += told is not None and told.sureness is None
        sure.append(None if told is None else told.sureness)
        first.append(int(told is not None and told.relevant))
        second.append(int(said.kind == "verdict" and said.relevant))
        if target == "labels":
            if chunk.label is None:
                raise DataError(f"chunk {chunk.id!r} of trace {result.trace_id!r} has no label")
            people.append(int(chunk.label >= facts.label_relevant))
    if drawn:
        raise DataError(f"the runs are not of one sample: {len(drawn)} traces are in the strong one alone")
    if sure and all(each is None for each in sure):
        raise DataError(
            f"the cheap judge told no probability of any of {len(sure)} chunks, so nothing says where it is "
            "sure; take a decision model, or a chat model whose server tells log-probabilities"
        )
    fit = (
        fit_cascade_to_people(sure, first, second, people, alpha=alpha, level=level)
        if target == "labels"
        else fit_cascade(sure, first, second, alpha=alpha, level=level)
    )
    runs: dict[Stage, Run] = {"cheap": cheap, "strong": strong}
    stages = {stage: _stage(stage, run, facts, price) for stage, run in runs.items()}
    notes = [*_notes(stages["strong"]), *_missing(unjudged, untold)]
    costs = _costs(fit, stages["cheap"], stages["strong"])
    return CascadeFile(
        created=datetime.now(UTC),
        version=own_version(),
        dataset=facts.dataset,
        dataset_digest=facts.digest,
        traces=facts.traces,
        seed=facts.seed,
        cluster=facts.cluster,
        clusters=facts.clusters,
        labels=facts.labels,
        runs={"cheap": cheap.id, "strong": strong.id},
        cheap=stages["cheap"],
        strong=stages["strong"],
        scale=scale_of(cheap),
        fit=CascadeThreshold.of(fit),
        notes=tuple(notes),
        **costs,
    )


def _stage(stage: Stage, run: Run, facts: SampleFacts, price: Price | None) -> CascadeStage:
    members = run.manifest.backend.get("members")
    backend = members.get(stage) if isinstance(members, dict) else None
    judge = {name: value for name, value in run.manifest.judge.items() if name != "route"}
    given, made, verdicts, failed = _taken(run.results)
    known = given + made > 0 and verdicts > 0
    cost = price(stage, given, made) if known and price is not None else None
    return CascadeStage(
        model=facts.models[stage],
        prompt=facts.prompts[stage],
        mode=facts.modes[stage],
        judge=judge,
        backend=backend if isinstance(backend, dict) else {},
        verdicts=verdicts,
        failed=failed,
        tokens=1000 * (given + made) / verdicts if known else None,
        cost=None if cost is None else 1000 * cost / verdicts,
    )


def _taken(results: Any) -> tuple[int, int, int, int]:
    """Count the tokens in and out that a run's answers took, its verdicts on text, and what failed."""
    given = made = verdicts = failed = 0
    result: TraceResult
    for result in results:
        given += sum(call.input_tokens for call in result.calls)
        made += sum(call.output_tokens for call in result.calls)
        failed += result.failed
        texts = zip(result.trace.chunks, result.outcomes, strict=True)
        verdicts += sum(o.kind == "verdict" and bool(c.text.strip()) for c, o in texts)
    return given, made, verdicts, failed


def _costs(fit: CascadeFit, cheap: CascadeStage, strong: CascadeStage) -> dict[str, Any]:
    """Say what the cascade takes, and what to use: by dollars, or where their prices do not matter."""
    tokens = price_ratio = cost = break_even = None
    choice: CascadeChoice | None = "strong" if not fit.kept else "cheap" if fit.kept == fit.n else None
    if cheap.tokens is not None and strong.tokens is not None:
        tokens = cheap.tokens + (1 - fit.coverage) * strong.tokens
        price_ratio = fit.coverage * strong.tokens / cheap.tokens
    if cheap.cost is not None and strong.cost is not None:
        costs = cascade_cost(fit, cheap.cost / 1000, strong.cost / 1000)
        cost, choice, break_even = costs.cascade, costs.choice, costs.break_even
    told = {"tokens": tokens, "cost": cost, "choice": choice, "break_even": break_even}
    return {**told, "price_ratio": price_ratio}


def _notes(strong: CascadeStage) -> list[str]:
    notes = []
    if strong.mode == "listwise":
        notes.append(
            "the strong judge reads whole traces, and is paid for one as soon as a chunk of it is escalated: "
            "the cost of the cascade is higher than said here"
        )
    return notes


def _missing(unjudged: int, untold: int) -> list[str]:
    notes = []
    if unjudged:
        notes.append(
            f"the cheap judge gave no verdict on {unjudged} of the chunks drawn; those are escalated"
        )
    if untold:
        notes.append(
            f"the cheap judge told no probability of {untold} of the chunks drawn; those are escalated"
        )
    return notes
