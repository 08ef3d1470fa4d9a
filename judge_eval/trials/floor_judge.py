"""A floor's verdicts on chunks that another judge judged."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from judge_eval.data.labels import Labels
from judge_eval.errors import ConfigError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.runs.folder.run import Run
from judge_eval.schema import Trace
from judge_eval.spelling import option
from judge_eval.study.matching import labels_of


def prompt_family(traces: Iterable[Trace]) -> Literal["support", "relevance"]:
    """Return what chunks are held against: the reference if any trace has one, else the question."""
    return "support" if any(trace.reference for trace in traces) else "relevance"


def floor_of(model: str, run: Run, labels: Labels | None = None, cache: str | Path | bool = True) -> EvalRun:
    """Judge those traces of a run that have labels, by default those of its dataset and later ones."""
    wanted = {trace for trace, _ in (labels or labels_of(run, threshold=1)).grades}
    return judge_by_floor(model, [result.trace for result in run.results if result.trace_id in wanted], cache)


def check_floor(model: str) -> None:
    """Check that a model can be a floor; raises as `judge_by_floor` does."""
    with Evaluator(model, prompt="relevance/binary", mode="decision", cache=False) as evaluator:
        _check(evaluator, model)


def _check(evaluator: Evaluator, model: str) -> None:
    if not evaluator.stack.calls_nobody:
        other = option("floor", "local/FOLDER")
        raise ConfigError(f"{model} calls a server, which a floor must not; name an embedding model ({other})")


def judge_by_floor(model: str, traces: Sequence[Trace], cache: str | Path | bool = True) -> EvalRun:
    """Judge traces by a model that calls no server, in decision mode, which gives probabilities.

    Traces without a reference are left out if others have one.

    Raises:
        ConfigError: The model calls a server, or cannot be used.
        DataError: There is no trace to judge.
    """
    prompt = f"{prompt_family(traces)}/binary"
    kept = [trace for trace in traces if trace.reference or prompt.startswith("relevance")]
    with Evaluator(model, prompt=prompt, mode="decision", metrics=["P@5"], cache=cache) as evaluator:
        _check(evaluator, model)
        if not kept:
            raise DataError("there is no trace for the floor to judge")
        return evaluator.evaluate(kept, on_invalid="skip", name="floor")
