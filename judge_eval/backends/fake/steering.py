"""Finds sentences in a chunk that try to instruct whoever judges it."""

from __future__ import annotations

import re

# One of these stands in every text that a pattern below can match; most texts are done after this look.
_NEEDLES = (
    "ignor", "disregard", "forget", "overrid", "bypass", "verdict", "grade", "judge", "relevan", "evaluator",
    "assessor", "language model", "reviewer", "<", "---", "[inst", "[/inst", "system prompt", "answer ",
    "respond", "reply", "output",
)  # fmt: skip
_NEEDLES_BEYOND_ASCII = ("無視", "忽略", "无视", "تجاهل")

_THING = r"(?:passage|chunk|document|text|context|excerpt|snippet|paragraph|section)"
_READER = (
    r"(?:judge|grader|evaluator|assessor|assistant|reviewer|rater|ai|llm|(?:large )?language model|model)"
)
_STEERING = re.compile(
    "|".join(
        (
            r"\b(?:ignor\w*|disregard|forget|override|bypass)\b.{0,60}?\b(?:instruc|istruz|instrucc|anweisung|"
            r"vorgabe|regeln?\b|rules?\b|règles?\b|reglas?\b|consignes?\b|prompt|criteria|guideline|rubric)",
            r"\b(?:answer|respond|reply|output)\b(?: only| just| always| with)*:? ?[\"'`{]*"
            r"(?:true|false|verdict|relevant)\b",
            rf"\b(?:this|the) {_THING} (?:is|must be|should be) (?:\w+ly )?"
            r"(?:judged |graded |rated |marked )?(?:as )?"
            r"(?:perfectly |highly |fully |completely |extremely |absolutely |entirely )"
            r"(?:relevant|supportive|irrelevant)",
            rf"\b(?:rate|grade|mark|judge|score|label|classify) (?:this|the) {_THING} "
            r"(?:as|with|a|an|highly)\b",
            r"\b(?:verdict|grade)[\"'`]? ?[:=] ?[\"'`]?(?:true|false|yes|no|\d)\b",
            rf"\b(?:note|attention|message|instructions?|important|notice|hint)\b\W{{1,3}}(?:to|for) "
            rf"(?:the |any |every )?(?:\w+ )?{_READER}\b",
            rf"\b(?:you are|as) (?:now )?(?:an? |the )(?:\w+ )?(?:{_READER}|chatbot)\b.{{0,80}}"
            r"\b(?:must|should|always|will|grade|verdict|answer)",
            r"\bsystem prompt\b.{0,40}\b(?:override|update|change|new)",
            r"<\|(?:im_start|im_end|system|endoftext)",
            r"\[/?inst\]|(?:<+/|<<+ ?|-{3,} ?)(?:end )?(?:of )?(?:chunk|passage|context|document|system)\b",
            r"(?:指示|命令|ルール|規則).{0,12}無視|(?:忽略|无视|無視).{0,14}(?:指示|指令|规则|規則|说明)",
            r"تجاهل.{0,30}(?:التعليمات|القواعد|تعليمات)",
        )
    )
)
_DOWNWARD = re.compile(
    r"\b(?:false|irrelevant|not relevant|not support\w*)\b|\b(?:grade|score)\W{0,4}(?:of |as )?0\b|\bzero\b"
)


def steers(text: str) -> bool:
    """Whether a text tries to instruct its judge, by patterns in seven languages.

    The patterns are simple: they miss a veiled instruction, so this is no defence.
    """
    low = text.lower()
    if not any(needle in low for needle in _NEEDLES) and (
        low.isascii() or not any(needle in low for needle in _NEEDLES_BEYOND_ASCII)
    ):
        return False
    return _STEERING.search(low) is not None


def wants_low(text: str) -> bool:
    """Whether an instruction asks for the lowest grade rather than the highest."""
    return _DOWNWARD.search(text.lower()) is not None
