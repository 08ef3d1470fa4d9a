"""This judge inside other tools: behind a hosted evaluator's client, as a metric of ragas and of DeepEval.

The names below are loaded when they are first used; ragas and DeepEval only where a metric is made.
"""

from judge_eval.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
