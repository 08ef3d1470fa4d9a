"""The prompt files: found, checked, fingerprinted, made into forms that render requests."""

from judge_eval.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
