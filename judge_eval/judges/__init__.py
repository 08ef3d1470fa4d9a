"""Judges: plans without I/O that turn a trace into requests and replies into a judgment."""

from judge_eval.judges.base import Inquiry, Judge, Wave
from judge_eval.judges.listwise import Listwise
from judge_eval.judges.pointwise import Pointwise

__all__ = ["Inquiry", "Judge", "Listwise", "Pointwise", "Wave"]
