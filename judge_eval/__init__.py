"""Judge retrieved chunks with an LLM and turn the verdicts into ranking metrics that can be trusted.

The names below are loaded when they are first used, so that importing the package costs next to nothing.
"""

from judge_eval.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
