"""Driving inquiries: a bounded stream of traces in, judgments out as they finish."""

from judge_eval.engine.driving import DRAIN, Engine
from judge_eval.engine.items import BLOCK, Item, Judged, Source
from judge_eval.engine.planning import Plan, plan

__all__ = ["BLOCK", "DRAIN", "Engine", "Item", "Judged", "Plan", "Source", "plan"]
