"""What goes between a judge's plan and a backend: requests, and the completions that answer them."""

from judge_eval.wire.completions import MOST_TOKENS, Completion, Finish, Reply, TokenLogprob, Usage, joined
from judge_eval.wire.questions import (
    ROUNDED,
    DecisionAnswer,
    DecisionQuestion,
    Level,
    Questionnaire,
    answer_row,
    sums_up,
)
from judge_eval.wire.requests import Form, Message, Passage, Request, sealed

__all__ = [
    "MOST_TOKENS",
    "ROUNDED",
    "Completion",
    "DecisionAnswer",
    "DecisionQuestion",
    "Finish",
    "Form",
    "Level",
    "Message",
    "Passage",
    "Questionnaire",
    "Reply",
    "Request",
    "TokenLogprob",
    "Usage",
    "answer_row",
    "joined",
    "sealed",
    "sums_up",
]
