"""This judge inside other tools: behind a hosted evaluator's client, as a metric of ragas and of DeepEval.

The names below are loaded when they are first used; ragas and DeepEval only where a metric is made.
"""

from __future__ import annotations

from judge_eval.lazy import attach

__all__ = ["deepeval_metric", "ragas_metric"]

__getattr__ = attach(__name__, {"deepeval": ("deepeval_metric",), "ragas": ("ragas_metric",)})


def __dir__() -> list[str]:
    return sorted(__all__)
