"""Asking a candidate's judge about chunks of the baseline that it never saw."""

from judge_eval.compare.compare import traces_to_ask
from judge_eval.errors import ConfigError
from judge_eval.evaluator import Evaluator
from judge_eval.judges.judge import judges_chunks_alone
from judge_eval.runs.folder.describing import difference_in_words, judge_differences
from judge_eval.runs.folder.run import Run


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
