"""An audition of two judges: both asked about one sample, to fit the threshold of their cascade."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from judge_eval.alignment.cascade import CascadeFile, as_filed
from judge_eval.alignment.cascade_fitting import SampleFacts, fit_runs
from judge_eval.alignment.matching import scale_up_to
from judge_eval.auditions.drawing import Drawn, Reservoir
from judge_eval.backends.stack import Stacks
from judge_eval.data.labels import Labels
from judge_eval.digest import digest_json, short
from judge_eval.engine import Plan
from judge_eval.errors import ConfigError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.judges import Cascade, Judge
from judge_eval.judges.choose import Mode
from judge_eval.judges.routing import OnRoute
from judge_eval.ranges import check_ranges
from judge_eval.runs.folder.index import cluster_of
from judge_eval.runs.judging.counting import Progress
from judge_eval.runs.judging.provenance import backends_record
from judge_eval.runs.judging.selection import Selection
from judge_eval.runs.judging.sources import Traces
from judge_eval.schema import Chunk, Stage, Trace
from judge_eval.stats.acceptance import traces_needed

MOST_DRAWN = 300
"""How many traces are drawn unless told otherwise: with a cheap judge wrong in 12%, two thirds are kept."""


@dataclass
class Audition:
    """Has both judges of a cascade judge one sample, in two runs of their own that can be gone on with.

    The cheap judge sees whole traces, as it will in use; the strong one the drawn chunk alone. Both runs
    stay in a folder that is named after data, judges and sample, so that doing the same again goes on where
    it ended, and fitting with another alpha asks nobody.

    Args:
        evaluator: Of the cascade, whose threshold plays no part, with its two models by name.
        names: `provider/model` and the prompt as people name it, by stage.
        seed: Of the sample and of the chunk of each trace.
        target: Whose answers are right: the strong judge's, or people's labels.
        labels: Labels from elsewhere; None takes those of the data.
        label_relevant: The least label that counts as relevant, where that is not plain.

    Raises:
        ConfigError: The evaluator's judge is no cascade.
    """

    evaluator: Evaluator
    names: dict[Stage, tuple[str, str]]
    seed: int = 0
    target: Literal["strong", "labels"] = "strong"
    labels: Labels | None = None
    label_relevant: int | None = None
    _cascade: Cascade = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.evaluator.judge, Cascade) or not isinstance(self.evaluator.stack, Stacks):
            raise ConfigError("only a cascade of two models can be fitted")
        self._cascade = self.evaluator.judge
        if self.labels is not None and len(set(self.labels.chances.values())) > 1:
            raise ConfigError(
                "the labels are of traces with unequal chances to be chosen; a threshold needs traces drawn "
                "uniformly (`sample --by none`)"
            )

    def draw(self, data: Traces, n: int | None = None, selection: Selection | None = None) -> Drawn:
        """Draw traces uniformly among those with text (and labels, where these are the target).

        Where traces carry the key of a cluster (`Intervals.cluster` of the evaluator), clusters are drawn
        uniformly, and one of its traces of each: traces of one cluster are no independent trials.

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
        reservoir: Reservoir[tuple[int, Trace]] = Reservoir(most, self.seed)
        highest = 0
        for position, trace in source.numbered():
            labels = [label for c in trace.chunks if (label := self._label(trace, c)) is not None]
            highest = max([highest, *labels])
            if self._open(trace):
                reservoir.offer((position, trace), cluster_of(trace, key))
        traces = [trace for _, trace in sorted(reservoir.kept, key=lambda each: each[0])]
        return Drawn(
            traces=traces,
            spots=[self._spot(trace) for trace in traces],
            dataset=dataset.name,
            digest=dataset.digest,
            total=dataset.traces,
            eligible=reservoir.offered,
            highest=highest,
            cluster=key if reservoir.shared else None,
            clusters=reservoir.units if reservoir.shared else None,
        )

    def check(self, drawn: Drawn, *, alpha: float, level: float) -> None:
        """See that the sample is large enough to show anything, before anybody is asked.

        Raises:
            DataError: It is not; the message says how many traces are needed.
        """
        check_ranges({"alpha": alpha, "level": level})
        needed = traces_needed(alpha=alpha, level=level)
        if len(drawn.traces) >= needed:
            return
        what = "labelled chunks" if self.target == "labels" else "text"
        told = f"{drawn.eligible} of {drawn.total} traces hold {what}"
        if drawn.clusters is not None:
            told += f", of {drawn.clusters} clusters by metadata.{drawn.cluster}, one of each is drawn"
        raise DataError(
            f"{len(drawn.traces)} traces are too few: to show a risk of at most {alpha:g} at {level:.4g} "
            f"takes {needed}, if no answer errs, and {traces_needed(3, alpha=alpha, level=level)} if three "
            f"do ({told})",
            file=drawn.dataset,
        )

    def plans(self, drawn: Drawn) -> dict[Stage, Plan]:
        """Tell what asking both judges would take, without a call."""
        return {
            "cheap": self._asking("cheap").plan(drawn.traces)[1],
            "strong": self._asking("strong").plan(drawn.spots)[1],
        }

    def place(self, drawn: Drawn, out: Path) -> Path:
        """Return the folder of the two runs, named after the data, the judges and the sample."""
        key = {
            "data": drawn.digest,
            "judges": [as_filed(judge.describe()) for judge in (self._cascade.cheap, self._cascade.strong)],
            "models": backends_record(self.evaluator.stack.identities()),
            "sample": [self.seed, len(drawn.traces), self.target],
            "spots": [trace.digest for trace in drawn.spots],
        }
        return out / f"cascade-{short(digest_json(key))}"

    def judge(
        self, drawn: Drawn, out: Path, watch: Callable[[Progress], None] | None = None
    ) -> dict[Stage, EvalRun]:
        """Ask both judges, or go on with it; what fails of the strong one is asked once more.

        Raises:
            JudgeEvalError: Whatever ends a run early; the same again goes on from there.
        """
        folder = self.place(drawn, out)
        runs: dict[Stage, EvalRun] = {}
        for stage, traces in self._samples(drawn):
            asking = self._asking(stage)
            for _ in range(2):
                runs[stage] = asking.evaluate(
                    traces,
                    out=folder / stage,
                    resume=True,
                    label=f"cascade fit: {stage}",
                    tags=("cascade-fit",),
                    name=drawn.dataset,
                    watch=watch,
                )
                if stage == "cheap" or not runs[stage].manifest.tally.failed_verdicts:
                    break
        return runs

    def fit(
        self, drawn: Drawn, runs: dict[Stage, EvalRun], *, alpha: float = 0.05, level: float = 0.95
    ) -> CascadeFile:
        """Fit the threshold to what both said, without a call.

        Raises:
            RunError: The strong judge failed on a chunk.
            DataError: The cheap judge told no probability at all.
        """
        stacks = self.evaluator.stack
        assert isinstance(stacks, Stacks)
        judges: dict[Stage, Judge] = {"cheap": self._cascade.cheap, "strong": self._cascade.strong}
        source = None
        least = 1
        if self.target == "labels":
            source = ", ".join(self.labels.sources) if self.labels is not None else "the dataset"
            _, least = scale_up_to(drawn.highest, source, self._cascade.scale, self.label_relevant)
        facts = SampleFacts(
            dataset=drawn.dataset,
            digest=drawn.digest,
            traces=drawn.total,
            seed=self.seed,
            models={stage: model for stage, (model, _) in self.names.items()},
            prompts={stage: _pinned(judges[stage], name) for stage, (_, name) in self.names.items()},
            modes={stage: _mode(judge) for stage, judge in judges.items()},
            labels=source,
            label_relevant=least,
            cluster=drawn.cluster,
            clusters=drawn.clusters,
        )
        return fit_runs(
            runs["cheap"],
            runs["strong"],
            facts,
            alpha=alpha,
            level=level,
            target=self.target,
            price=lambda stage, given, made: stacks.parts[stage].cost_of(given, made),
        )

    def _samples(self, drawn: Drawn) -> list[tuple[Stage, list[Trace]]]:
        return [("cheap", drawn.traces), ("strong", drawn.spots)]

    def _asking(self, stage: Stage) -> Evaluator:
        judge = self._cascade.cheap if stage == "cheap" else self._cascade.strong
        return self.evaluator.with_judge(OnRoute(judge, stage))

    def _label(self, trace: Trace, chunk: Chunk) -> int | None:
        return chunk.label if self.labels is None else self.labels.grades.get((trace.id, chunk.id))

    def _open(self, trace: Trace) -> list[Chunk]:
        """Return the chunks of which one may be drawn."""
        chunks = [chunk for chunk in trace.chunks if chunk.text.strip()]
        if self.target == "labels":
            chunks = [chunk for chunk in chunks if self._label(trace, chunk) is not None]
        return chunks

    def _spot(self, trace: Trace) -> Trace:
        """Cut a trace down to the chunk that is drawn of it, with its label."""
        drawing = random.Random(f"{self.seed} {trace.id}")  # noqa: S311  a sample, not a secret
        chunk = drawing.choice(self._open(trace))
        return Trace(
            id=trace.id,
            query=trace.query,
            reference=trace.reference,
            answer=trace.answer,
            chunks=(chunk.model_copy(update={"label": self._label(trace, chunk)}),),
            tags=trace.tags,
            metadata=trace.metadata,
        )


def _pinned(judge: Judge, name: str) -> str:
    """Return a prompt's id with its version; a file's name stays."""
    told = judge.describe().get("prompt")
    if name.startswith("file:") or not isinstance(told, dict):
        return name
    return f"{told['id']}@{told['version']}"


def _mode(judge: Judge) -> Mode:
    mode: Mode = judge.describe()["mode"]
    return mode
