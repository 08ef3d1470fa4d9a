"""Judges: plans without I/O that turn a trace into requests and replies into a judgment."""

from judge_eval.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
