"""Auditions: the two judges of a cascade asked about one sample, to fit the threshold between them."""

from judge_eval.auditions.audition import Audition
from judge_eval.auditions.drawing import Drawn

__all__ = ["Audition", "Drawn"]
