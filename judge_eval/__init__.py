"""Judge retrieved chunks with an LLM and turn the verdicts into ranking metrics that can be trusted.

The names below are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judge_eval.backends.base import Backend, Identity
    from judge_eval.backends.fake.backend import FakeBackend
    from judge_eval.backends.stack import Options
    from judge_eval.data.reading import ReadOptions, open_dataset
    from judge_eval.errors import JudgeEvalError
    from judge_eval.eval_run import EvalRun
    from judge_eval.evaluator import Evaluator, evaluate
    from judge_eval.export.mlflow_scorer import mlflow_scorer
    from judge_eval.judges import Judge, Listwise, Member, Panel, Pointwise
    from judge_eval.metrics import GradeTable, Metric, mmr, parse_metric
    from judge_eval.notebook import NotebookProgress
    from judge_eval.runs.folder.records import TraceResult
    from judge_eval.schema import Chunk, Judgment, NoVerdict, Scale, Trace, Verdict
    from judge_eval.wire import Completion, Request, Usage

_HOMES = {
    "Backend": "backends.base",
    "Chunk": "schema",
    "Completion": "wire",
    "EvalRun": "eval_run",
    "Evaluator": "evaluator",
    "FakeBackend": "backends.fake.backend",
    "GradeTable": "metrics",
    "Identity": "backends.base",
    "Judge": "judges",
    "JudgeEvalError": "errors",
    "Judgment": "schema",
    "Listwise": "judges",
    "Member": "judges",
    "Metric": "metrics",
    "NoVerdict": "schema",
    "NotebookProgress": "notebook",
    "Options": "backends.stack",
    "Panel": "judges",
    "Pointwise": "judges",
    "ReadOptions": "data.reading",
    "Request": "wire",
    "Scale": "schema",
    "Trace": "schema",
    "TraceResult": "runs.folder.records",
    "Usage": "wire",
    "Verdict": "schema",
    "evaluate": "evaluator",
    "mlflow_scorer": "export.mlflow_scorer",
    "mmr": "metrics",
    "open_dataset": "data.reading",
    "parse_metric": "metrics",
}

__all__ = [
    "Backend",
    "Chunk",
    "Completion",
    "EvalRun",
    "Evaluator",
    "FakeBackend",
    "GradeTable",
    "Identity",
    "Judge",
    "JudgeEvalError",
    "Judgment",
    "Listwise",
    "Member",
    "Metric",
    "NoVerdict",
    "NotebookProgress",
    "Options",
    "Panel",
    "Pointwise",
    "ReadOptions",
    "Request",
    "Scale",
    "Trace",
    "TraceResult",
    "Usage",
    "Verdict",
    "evaluate",
    "mlflow_scorer",
    "mmr",
    "open_dataset",
    "parse_metric",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'judge_eval' has no attribute {name!r}")
    value = getattr(import_module(f"judge_eval.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
