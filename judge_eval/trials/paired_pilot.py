"""A paired pilot: both judges of a cascade judge one random sample."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from judge_eval.data.labels import Labels, scale_of_labels
from judge_eval.data.options import ReadOptions
from judge_eval.digest import digest_json, short
from judge_eval.engine import Plan
from judge_eval.errors import NEVER_ASKED, ConfigError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.judges import Judge
from judge_eval.judges.judge import OnRoute, asks_nobody, judges_chunks_alone, stages_asked
from judge_eval.runs.columns.graded_trace import cluster_of
from judge_eval.runs.judging.session import backends_record
from judge_eval.runs.judging.sources import Traces
from judge_eval.runs.options import Selection
from judge_eval.runs.scoring.counting import Progress
from judge_eval.schema import Chunk, Stage, Trace
from judge_eval.settings import check_ranges
from judge_eval.spelling import option
from judge_eval.stats.sampling import traces_needed
from judge_eval.study.cascade_file import CascadeFile, as_filed
from judge_eval.study.cascade_fitting import PilotSample, SampleFacts, fit_runs
from judge_eval.views.note_sentences import ties_sentence


def draw_clusters(clusters: Sequence[str | None], most: int, seed: int) -> list[int]:
    """Draw at most so many clusters uniformly, and uniformly one item of each; return their places, ascending.

    What belongs to no cluster (None) is one by itself.
    """
    places: dict[str | int, list[int]] = {}
    for place, cluster in enumerate(clusters):
        places.setdefault(place if cluster is None else cluster, []).append(place)
    draws = random.Random(seed)  # noqa: S311  a sample, not a secret
    return sorted(map(draws.choice, draws.sample([*places.values()], min(most, len(places)))))


MOST_DRAWN = 300
"""How many traces are drawn unless told otherwise: with a cheap judge wrong in 12%, two thirds are kept."""


@dataclass
class PairedPilot:
    """Has both judges of a cascade judge one sample, in two runs of their own that can be gone on with.

    Both are asked as in use: the cheap judge about whole traces; the strong one about the drawn chunk, or about whole
    traces too if it does not judge each chunk alone. Both runs stay in a folder that is named after data, judges and
    sample, so that doing the same again goes on where it ended, and fitting with another alpha asks nobody.

    Args:
        evaluator: Of the cascade, whose threshold plays no part, with its two models by name.
        names: `provider/model` and the prompt as people name it, by stage.
        seed: Of the sample and of the chunk of each trace.
        target: Whose answers count as correct: the strong judge's, or people's labels.
        labels: Labels from elsewhere; None takes those of the data.
        label_relevant: The least label that counts as relevant, where that is not plain.

    Raises:
        ConfigError: The evaluator's judge is not a cascade.
    """

    evaluator: Evaluator
    names: dict[Stage, tuple[str, str]]
    seed: int = 0
    target: Literal["strong", "labels"] = "strong"
    labels: Labels | None = None
    label_relevant: int | None = None
    _judges: dict[Stage, Judge] = field(init=False)

    def __post_init__(self) -> None:
        self._judges = {stage.name: stage.judge for stage in stages_asked(self.evaluator.chosen_judge)}
        if len(self._judges) != 2 or len(self.evaluator.stack.parts) != 2:
            raise ConfigError("only a cascade of two models can be fitted")
        if self.labels is not None and len(set(self.labels.chances.values())) > 1:
            raise ConfigError(
                "the labels are of traces with unequal chances to be chosen; a threshold needs traces drawn "
                f"uniformly (`sample` with {option('by', 'none')})"
            )

    @property
    def ties(self) -> int:
        """How many chunks have no label because as many people find them relevant as not."""
        return len(self.labels.ties) if self.labels is not None and self.target == "labels" else 0

    def draw(self, data: Traces, n: int | None = None, selection: Selection | None = None) -> PilotSample:
        """Draw traces uniformly among those with text (and labels, where these are the target).

        Where traces carry the key of a cluster (`Intervals.cluster` of the evaluator), clusters are drawn
        uniformly, and one of its traces of each: traces of one cluster are not independent trials.

        Args:
            data: Traces, as for `Evaluator.evaluate`, no stream.
            n: How many; None takes all, up to `MOST_DRAWN`.
            selection: How the data are read.

        Raises:
            DataError: The data are a stream.
        """
        source = self.evaluator.source(data, selection or Selection())
        if source is None:
            raise DataError("a sample is drawn from a list or a file, not from a stream")
        dataset = source.survey()
        check_ranges({"n": n})
        most = MOST_DRAWN if n is None else n
        key = self.evaluator.intervals.cluster
        ends: tuple[int, int] | None = None
        positions, clusters = list[int](), list[str | None]()
        for position, trace in source.numbered():
            labels = [label for c in trace.chunks if (label := self._label(trace, c)) is not None]
            if labels:
                ends = min(*labels, *(ends or labels)), max(*labels, *(ends or labels))
            if self._candidates(trace):
                positions.append(position)
                clusters.append(cluster_of(trace, key))
        drawn = {positions[place] for place in draw_clusters(clusters, most, self.seed)}
        traces = [trace for position, trace in source.numbered() if position in drawn]
        units = clusters.count(None) + len({*clusters} - {None})
        shared = units < len(clusters)
        spots = [self._spot(trace) for trace in traces]
        chunks = {spot.id: spot.chunks[0].id for spot in spots}
        if not judges_chunks_alone(self._judges["strong"]):
            spots = [_relabelled(trace, spot) for trace, spot in zip(traces, spots, strict=True)]
        return PilotSample(
            traces=traces,
            spots=spots,
            chunks=chunks,
            dataset=dataset.name,
            digest=dataset.digest,
            total=dataset.traces,
            eligible=len(positions),
            ends=ends or (0, 0),
            cluster=key if shared else None,
            clusters=units if shared else None,
            depth=selection.reader.depth if selection and selection.reader else None,
        )

    def check(self, drawn: PilotSample, *, alpha: float, level: float = 0.95) -> None:
        """See that the sample is large enough to show anything, before anybody is asked.

        Raises:
            DataError: It is not; the message says how many traces are needed.
        """
        check_ranges({"alpha": alpha, "level": level})
        needed = traces_needed(alpha=alpha, level=level)
        if len(drawn.traces) >= needed:
            return
        what = "labelled chunks" if self.target == "labels" else "text"
        counts = f"{drawn.eligible} of {drawn.total} traces hold {what}"
        if drawn.clusters is not None:
            counts += f", of {drawn.clusters} clusters by metadata.{drawn.cluster}, one trace of each is drawn"
        if self.ties:
            counts += f"; {ties_sentence(self.ties)}"
        raise DataError(
            f"{len(drawn.traces)} traces are too few: to show a risk of at most {alpha:g} at {level:.4g} "
            f"takes {needed}, if no answer errs, and {traces_needed(3, alpha=alpha, level=level)} if three "
            f"do ({counts})",
            file=drawn.dataset,
        )

    def plans(self, drawn: PilotSample) -> dict[Stage, Plan]:
        """Tell what evaluator both judges would take, without a call."""
        return {stage: self._evaluator_of(stage).plan(drawn.of(stage))[1] for stage in self._judges}

    def place(self, drawn: PilotSample, out: Path) -> Path:
        """Return the folder of the two runs, named after the data, the judges and the sample."""
        key = {
            "data": drawn.digest,
            "judges": [as_filed(judge.describe()) for judge in self._judges.values()],
            "models": backends_record(self.evaluator.stack.identities()),
            "sample": [self.seed, len(drawn.traces), self.target],
            "spots": [trace.digest for trace in drawn.spots],
        }
        return out / f"cascade-{short(digest_json(key))}"

    def judge(
        self, drawn: PilotSample, out: Path, watch: Callable[[Progress], None] | None = None
    ) -> dict[Stage, EvalRun]:
        """Ask both judges, or go on with it; what fails of the strong one is asked once more."""
        folder = self.place(drawn, out)
        runs: dict[Stage, EvalRun] = {}
        for stage in self._judges:
            evaluator = self._evaluator_of(stage)
            for _ in range(2):
                runs[stage] = evaluator.evaluate(
                    drawn.of(stage),
                    out=folder / stage,
                    resume=True,
                    label=f"cascade fit: {stage}",
                    tags=("cascade-fit",),
                    name=drawn.dataset,
                    reader=ReadOptions(yes_ids=True),  # they were refused when they were drawn
                    watch=watch,
                )
                if stage == "cheap" or not self.failed(drawn, runs):
                    break
        return runs

    def failed(self, drawn: PilotSample, runs: dict[Stage, EvalRun]) -> int:
        """Count the drawn chunks on which the strong judge gave no verdict and may still give one."""
        return sum(
            outcome.kind == "no_verdict" and outcome.why not in NEVER_ASKED | {"unsupported"}
            for result in runs["strong"].results
            for outcome in result.outcomes
            if outcome.chunk_id == drawn.chunks[result.trace_id]
        )

    def fit(
        self, drawn: PilotSample, runs: dict[Stage, EvalRun], *, alpha: float = 0.05, level: float = 0.95
    ) -> CascadeFile:
        """Fit the threshold to what both said, without a call.

        Raises:
            RunError: The strong judge failed on a chunk.
            DataError: The cheap judge told no probability at all.
        """
        stack = self.evaluator.stack
        source = None
        least = 1
        if self.target == "labels":
            source = ", ".join(self.labels.sources) if self.labels is not None else "the dataset"
            scale = scale_of_labels(drawn.ends, source, self.evaluator.chosen_judge.scale, self.label_relevant)
            least = scale.relevant
        facts = SampleFacts(
            sample=drawn,
            seed=self.seed,
            models={stage: model for stage, (model, _) in self.names.items()},
            prompts={stage: _pinned(self._judges[stage], name) for stage, (_, name) in self.names.items()},
            modes={stage: judge.describe()["mode"] for stage, judge in self._judges.items()},
            labels=source,
            label_relevant=least,
            explain_positives=bool(self.evaluator.chosen_judge.describe().get("explain_positives")),
            ties=self.ties,
        )
        return fit_runs(
            runs["cheap"],
            runs["strong"],
            facts,
            alpha=alpha,
            level=level,
            target=self.target,
            price=lambda stage, input_tokens, output_tokens: stack.part(stage).cost_of(input_tokens, output_tokens),
        )

    def _evaluator_of(self, stage: Stage) -> Evaluator:
        return self.evaluator.with_judge(OnRoute(self._judges[stage], stage))

    def _label(self, trace: Trace, chunk: Chunk) -> int | None:
        return chunk.label if self.labels is None else self.labels.grades.get((trace.id, chunk.id))

    def _candidates(self, trace: Trace) -> list[Chunk]:
        if any(asks_nobody(judge, trace) for judge in self._judges.values()):
            return []
        chunks = [chunk for chunk in trace.chunks if not chunk.is_blank]
        if self.target == "labels":
            chunks = [chunk for chunk in chunks if self._label(trace, chunk) is not None]
        return chunks

    def _spot(self, trace: Trace) -> Trace:
        draws = random.Random(f"{self.seed} {trace.id}")  # noqa: S311  a sample, not a secret
        chunk = draws.choice(self._candidates(trace))
        return trace.replace(chunks=(chunk.replace(label=self._label(trace, chunk)),), relevant_total=None)


def _relabelled(trace: Trace, spot: Trace) -> Trace:
    (drawn,) = spot.chunks
    chunks = tuple(drawn if chunk.id == drawn.id else chunk for chunk in trace.chunks)
    return trace.model_copy(update={"chunks": chunks})


def _pinned(judge: Judge, name: str) -> str:
    """Return a prompt's id with its version; a file's name stays."""
    prompt = judge.describe().get("prompt")
    if name.startswith("file:") or not isinstance(prompt, dict):
        return name
    return f"{prompt['id']}@{prompt['version']}"
