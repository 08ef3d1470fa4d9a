"""Judge retrieved chunks with an LLM and turn the verdicts into ranking metrics that can be trusted.

The names below are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge_eval.lazy import attach

if TYPE_CHECKING:
    from judge_eval.backends.base import Backend, Identity
    from judge_eval.backends.fake.backend import FakeBackend
    from judge_eval.backends.stack import Options
    from judge_eval.data.options import ReadOptions
    from judge_eval.data.reading import open_dataset
    from judge_eval.errors import JudgeEvalError
    from judge_eval.eval_run import EvalRun
    from judge_eval.evaluator import Evaluator, evaluate
    from judge_eval.export.mlflow_scorer import mlflow_scorer
    from judge_eval.importing import import_verdicts
    from judge_eval.judges import Judge, Listwise, Member, Panel, Pointwise
    from judge_eval.metrics import ClaimTable, GradeTable, Metric, mmr, parse_metric
    from judge_eval.notebook import NotebookProgress
    from judge_eval.runs.folder.records import TraceResult
    from judge_eval.schema import Chunk, Judgment, NoVerdict, Scale, Trace, Verdict
    from judge_eval.server.client import Client
    from judge_eval.wire import Completion, Request, Usage

_MODULES = {
    "backends.base": ("Backend", "Identity"),
    "backends.fake.backend": ("FakeBackend",),
    "backends.stack": ("Options",),
    "data.options": ("ReadOptions",),
    "data.reading": ("open_dataset",),
    "errors": ("JudgeEvalError",),
    "eval_run": ("EvalRun",),
    "evaluator": ("Evaluator", "evaluate"),
    "export.mlflow_scorer": ("mlflow_scorer",),
    "importing": ("import_verdicts",),
    "judges": ("Judge", "Listwise", "Member", "Panel", "Pointwise"),
    "metrics": ("ClaimTable", "GradeTable", "Metric", "mmr", "parse_metric"),
    "notebook": ("NotebookProgress",),
    "runs.folder.records": ("TraceResult",),
    "schema": ("Chunk", "Judgment", "NoVerdict", "Scale", "Trace", "Verdict"),
    "server.client": ("Client",),
    "wire": ("Completion", "Request", "Usage"),
}

__all__ = [
    "Backend", "Chunk", "ClaimTable", "Client", "Completion", "EvalRun", "Evaluator", "FakeBackend",
    "GradeTable", "Identity", "Judge", "JudgeEvalError", "Judgment", "Listwise", "Member", "Metric",
    "NoVerdict", "NotebookProgress", "Options", "Panel", "Pointwise", "ReadOptions", "Request", "Scale",
    "Trace", "TraceResult", "Usage", "Verdict", "evaluate", "import_verdicts", "mlflow_scorer", "mmr",
    "open_dataset", "parse_metric",
]  # fmt: skip

__getattr__ = attach(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
