"""Judges: plans without I/O that turn a trace into requests and replies into a judgment."""

from judge_eval.judges.base import Inquiry, Judge, Wave
from judge_eval.judges.cascade import Cascade, Guarantee
from judge_eval.judges.claims import Claims
from judge_eval.judges.decision import Decision
from judge_eval.judges.listwise import Listwise
from judge_eval.judges.panel import Member, Panel
from judge_eval.judges.pointwise import Pointwise
from judge_eval.judges.splitting import Splitting
from judge_eval.judges.votes import Vote

__all__ = [
    "Cascade",
    "Claims",
    "Decision",
    "Guarantee",
    "Inquiry",
    "Judge",
    "Listwise",
    "Member",
    "Panel",
    "Pointwise",
    "Splitting",
    "Vote",
    "Wave",
]
