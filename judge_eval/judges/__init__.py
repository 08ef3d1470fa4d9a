"""Judges: plans without I/O that turn a trace into requests and replies into a judgment."""

from judge_eval.judges.base import Inquiry, Judge, Wave
from judge_eval.judges.listwise import Listwise
from judge_eval.judges.panel import Member, Panel
from judge_eval.judges.pointwise import Pointwise
from judge_eval.judges.votes import Vote

__all__ = ["Inquiry", "Judge", "Listwise", "Member", "Panel", "Pointwise", "Vote", "Wave"]
