"""The client of the hosted evaluator Lynxius, name for name: its code runs with other import lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import typer

from judge_eval.cli.flags.command import VerbCommand
from judge_eval.cli.flags.common import NumbersFlags, Runs
from judge_eval.cli.flags.config import find_config, settings_for
from judge_eval.cli.flags.groups import spread
from judge_eval.cli.flags.judging import CallingFlags, JudgingFlags
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import DEFAULT_METRICS, Evaluator
from judge_eval.export.hosted import CONTEXT_PRECISION, booleans_of, context_precision_of
from judge_eval.runs.keeping.lookup import find_run
from judge_eval.runs.keeping.mirror import place_of_runs, written
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import Trace
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import SERVER


@dataclass(frozen=True, slots=True)
class Configured:
    """What `JUDGE_EVAL_*` variables and the nearest configuration file say."""

    runs: Runs
    judging: JudgingFlags
    numbers: NumbersFlags
    calling: CallingFlags


def configured() -> Configured:
    """Read the settings in force."""

    @spread
    def read(runs: Runs, judging: JudgingFlags, numbers: NumbersFlags, calling: CallingFlags) -> Configured:
        return Configured(runs, judging, numbers, calling)

    app = typer.Typer(add_completion=False)
    app.command(cls=VerbCommand)(read)
    settings = settings_for(read, find_config()[1])
    command = typer.main.get_command(app)
    try:
        in_force: Configured = command.main([], prog_name="judge-eval", standalone_mode=False, default_map=settings)
    except Exception as error:
        message = getattr(error, "format_message", None)  # an error of typer
        if message is None:
            raise
        raise ConfigError(message()) from None
    return in_force


@dataclass
class ContextChunk:
    """A retrieved text with the retriever's own score, which is kept and never judged by."""

    document: str
    relevance: float


class ContextPrecision:
    """Traces to judge, and what people call their run.

    Args:
        label: What people call the run.
        href: Where it belongs: a pull request, a commit, a job.
        tags: Words to group and filter by.
        baseline_project_uuid: Read past: a folder or a server holds the runs of one project.
        baseline_eval_run_label: The newest run of this label is the baseline.
    """

    def __init__(
        self,
        label: str,
        href: str | None = None,
        tags: Sequence[str] = (),
        baseline_project_uuid: str | None = None,
        baseline_eval_run_label: str | None = None,
    ) -> None:
        self.label, self.href, self.tags = label, href, list(tags)
        self.baseline_project_uuid = baseline_project_uuid
        self.baseline_eval_run_label = baseline_eval_run_label
        self.traces: list[Trace] = []

    def add_trace(
        self, query: str, reference: str, context: Sequence[ContextChunk] = (), trace_uuid: str | None = None
    ) -> None:
        """Add a question with its reference and what was retrieved, best first.

        Raises:
            DataError: The question or the reference is empty, or a chunk is invalid.
        """
        if not query or not reference:
            raise DataError("a trace needs the query and the reference")
        fields = {"query": query, "reference": reference, "chunks": list(context)}
        self.traces.append(Trace.parse({**fields, "id": trace_uuid or ""}))


class EvalRunId(str):
    """A run's id, which is what the hosted evaluator's client returns, with what came of the run."""

    uuid: str
    """The id again, under its name in the answer."""
    score: float | None
    """The context precision, 0 to 1: the mean over the traces that have a value; None where none has."""
    verdicts: list[bool | None]
    """Whether each chunk is relevant, trace after trace, in rank order; None where it has no verdict."""
    run: EvalRun
    """The whole run: reasons, evidence, failures, intervals."""
    baseline: EvalRun | None
    """The run named as the baseline; `baseline.compare(run)` compares."""

    @classmethod
    def of(cls, run: EvalRun, baseline: EvalRun | None) -> EvalRunId:
        """Answer a run."""
        made, precision = cls(run.id), context_precision_of(run)
        made.uuid, made.score, made.verdicts = run.id, precision.score, list(precision.verdicts)
        made.run, made.baseline = run, baseline
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r}, score={self.score}, verdicts={self.verdicts})"


class LynxiusClient:
    """Has context precision judged here, or by a judge_eval server where one is named.

    Nothing is ever sent to the hosted evaluator, and no variable of its is read. Judged here, the model and
    all other settings are those of the command line: `JUDGE_EVAL_*` variables, then the configuration file.

    Args:
        api_key: A server's token; `JUDGE_EVAL_SERVER_TOKEN` where None. Judging here needs none.
        base_url: A server's address; `JUDGE_EVAL_SERVER` where None.
        run_local: Judge here, whatever server the environment names.
        model: Who judges here, such as `openai/NAME`, or `fake/overlap` offline.
        evaluator: Who judges here, as made by you; you close it.
        out: The folder of runs; that of the settings where None (`runs`).
        yes_ids: Whether chunks are judged whose texts look like ids or file names; else they are refused.

    Raises:
        ConfigError: Neither a model nor a server is named, or both.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        run_local: bool | None = False,
        *,
        model: str | None = None,
        evaluator: Evaluator | None = None,
        out: str | Path | None = None,
        yes_ids: bool = False,
    ) -> None:
        self._yes_ids = yes_ids
        here = run_local or model is not None or evaluator is not None
        if base_url is not None and here:
            raise ConfigError("a server uses its own model: give either `base_url` or the settings of a local judge")
        url = None if here else base_url or os.environ.get(SERVER)
        self._server = Client(str(url), token=api_key) if url else None
        self._settings = configured()
        self._model, self._evaluator = model or self._settings.judging.model, evaluator
        self._out = self._settings.runs.out if out is None else place_of_runs(out)
        if self._server is None and evaluator is None and not self._model:
            raise ConfigError(
                'no model is named; give LynxiusClient(model="openai/NAME") (or "fake/overlap" to try it '
                "offline), set JUDGE_EVAL_MODEL, or write `model = ...` under [tool.judge_eval] in "
                f"pyproject.toml; to judge on a server, give base_url or set {SERVER}"
            )

    def evaluate(self, eval: ContextPrecision) -> EvalRunId:
        """Judge the traces that were added, wait for the verdicts, and keep the run.

        Returns:
            The run's id, with its score and its verdicts.

        Raises:
            DataError: There is no trace, or one cannot be judged.
            FatalCallError: No call can succeed: a wrong key, an unknown model, an exhausted quota.
            RunError: There is no run of the baseline's label, or the server refused or cannot be reached.
        """
        if not eval.traces:
            raise DataError("there are no traces to judge; add one with add_trace")
        baseline = self._baseline(eval.baseline_eval_run_label)
        about: dict[str, Any] = {"label": eval.label, "href": eval.href, "tags": eval.tags, "name": type(eval).__name__}
        if self._server is not None:
            about["baseline"] = baseline.id if baseline else None
            submitted = self._server.evaluate(traces=eval.traces, yes_ids=self._yes_ids, **about)
            return EvalRunId.of(self._server.get_eval_run(submitted.uuid, wait=inf), baseline)
        with self._judge() as judge, written(self._out):
            about["reader"] = ReadOptions(yes_ids=self._yes_ids)
            return EvalRunId.of(judge.evaluate(eval.traces, out=self._out, **about), baseline)

    def get_eval_run(self, eval_run_uuid: str) -> dict[str, Any]:
        """Return a run that has ended, with the fields of the hosted evaluator.

        Returns:
            `uuid`, `label`, `href`, `tags`, `status` (`SUCCESS` where every chunk has a verdict),
            `aggregate_score`, `p20` and `p90`, and `results`: of each trace `query`, `reference`, `contexts`,
            `score` and `verdicts`. None stands where there is no value.

        Raises:
            RunError: There is no such run.
        """
        run = self._load(str(eval_run_uuid))
        again = rescore(run, [CONTEXT_PRECISION])
        total = again.aggregate(CONTEXT_PRECISION)
        results = [
            {
                "query": result.trace.query,
                "reference": result.trace.reference,
                "contexts": [{"document": c.text, "relevance": c.score} for c in result.trace.chunks],
                "score": result.scores[CONTEXT_PRECISION],
                "verdicts": list(booleans_of(result)),
            }
            for result in again.results
        ]
        quantiles = total.quantiles if total.headline == "mean" else None
        return {
            "uuid": run.id,
            "label": run.label,
            "href": run.manifest.href,
            "tags": list(run.manifest.tags),
            "status": "SUCCESS" if run.status == "done" else run.status.upper(),
            "aggregate_score": total.headline_mean,
            "p20": quantiles and quantiles.p20,
            "p90": quantiles and quantiles.p90,
            "results": results,
        }

    def _judge(self) -> AbstractContextManager[Evaluator]:
        if self._evaluator is not None:
            return nullcontext(self._evaluator)
        judging, numbers = replace(self._settings.judging, model=self._model), self._settings.numbers
        metrics = dict.fromkeys([CONTEXT_PRECISION, *(numbers.names or DEFAULT_METRICS)])
        return judging.evaluator(self._settings.calling, numbers, list(metrics))

    def _load(self, run: str) -> EvalRun:
        return self._server.get_eval_run(run) if self._server else EvalRun.load(find_run(run, self._out))

    def _baseline(self, label: str | None) -> EvalRun | None:
        if label is None:
            return None
        if self._server is None:
            return self._load(f"label:{label}")
        runs = [run for run in self._server.list_runs(label=label) if run.label == label]
        if not runs:
            raise DataError(f"the server has no run labelled {label!r}", field="baseline_eval_run_label")
        return self._load(runs[0].uuid)
