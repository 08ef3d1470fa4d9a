"""Statistics of scores and of agreement, on NumPy alone.

Each module is loaded when it is first used, so that a run starts fast.
"""

from judge_eval.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
