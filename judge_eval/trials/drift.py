"""Asking a run's judge again: about the same chunks, or about those of a baseline that it never saw."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from judge_eval.compare.compare import traces_to_ask
from judge_eval.errors import ConfigError, JudgeEvalError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.files import absent, held_folder, remove_empty
from judge_eval.judges.judge import Judge, as_begun, judge_of_record, judges_chunks_alone
from judge_eval.llm.stack import open_store
from judge_eval.runs.folder.describing import difference_in_words, judge_differences
from judge_eval.runs.folder.run import Run
from judge_eval.runs.options import KeepingKeywords
from judge_eval.spelling import option


@contextmanager
def replies_folder(run: Run, out: Path) -> Iterator[Path]:
    """Hold the folder that caches the replies while a run is judged again.

    It begins empty, so that no old reply counts as new. If the block is interrupted it stays, and the next one goes on
    with what was paid for; when the block is done, it is removed.
    """
    place = out / f".{run.id}.replies"
    made = absent(place)
    with held_folder(place):
        try:
            yield place
        except Exception:
            if not open_store(place).info().entries:  # such as without a key: nothing is left of it
                shutil.rmtree(place, ignore_errors=True)
                remove_empty(*made[1:])
            raise
        shutil.rmtree(place, ignore_errors=True)


def recorded_judge(run: Run) -> Judge:
    """Return the judge that a run's manifest records.

    Raises:
        ConfigError: It cannot be made from its record, such as one with a prompt of the user's own.
    """
    try:
        return judge_of_record(run.manifest.judge)
    except JudgeEvalError as error:
        raise ConfigError(f"run {run.name}: {error}; name them with {option('prompt')} or {option('judge')}") from None


def recorded_params(run: Run) -> dict[str, Any]:
    """Return the parameters that a run's one model was called with; empty for several models."""
    params = run.manifest.backend.get("params")
    return {name: json.loads(str(text)) for name, text in params.items()} if isinstance(params, dict) else {}


def judge_again(evaluator: Evaluator, run: Run, **keeping: Unpack[KeepingKeywords]) -> EvalRun:
    """Ask the judge of a finished run about the same chunks again, and return the answers as a run.

    The evaluator is the run's, with a new cache; its prompts without a version are those of the run.

    Raises:
        ConfigError: Before the first call: the run is not finished, or its judge or model is not the evaluator's.
    """
    if run.manifest.counted is None:
        raise ConfigError(f"run {run.name} is not finished: resume it first")
    evaluator = evaluator.with_judge(as_begun(evaluator.chosen_judge, run.manifest.judge))
    check_same_judge(evaluator, run)
    traces = [result.trace for result in run.results]
    return evaluator.evaluate(traces, name=run.manifest.dataset.name, **keeping)


def ask_again(evaluator: Evaluator, baseline: Run, candidate: Run, metric: str, count: int) -> Run | None:
    """Ask about at most `count` chunks, those that narrow the split of a metric most; None if there is none to ask.

    Raises:
        ConfigError: The evaluator's judge is not the candidate's, or its verdict depends on the other chunks of a list.
    """
    check_same_judge(evaluator, candidate)
    if not judges_chunks_alone(evaluator.chosen_judge):
        raise ConfigError("this judge reads all chunks of a list together; single ones cannot be asked about again")
    traces = traces_to_ask(baseline, candidate, metric, count)
    return evaluator.evaluate(traces) if traces else None


def check_same_judge(evaluator: Evaluator, run: Run) -> None:
    """Check, without a call, that an evaluator's judge and model are those of a run. Raises `ConfigError` if not."""
    if differ := judge_differences(run.manifest, evaluator.begin(run.manifest.dataset)):
        raise ConfigError(f"this is not the judge of {run.name}: {'; '.join(map(difference_in_words, differ))}")
