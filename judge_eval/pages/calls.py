"""One call to a judge, as the JSON that a card shows: what was asked, what came back, what it took."""

from __future__ import annotations

import json
from typing import Any

from judge_eval.pages.recall import Memory, Recalled
from judge_eval.pages.rows import JSON
from judge_eval.schema import Call
from judge_eval.wire import DecisionAnswer, DecisionQuestion, Questionnaire, Request

SYSTEM = "system"
"""The role whose text is the same in every call; pages keep it once."""


def call_data(call: Call, recalled: Recalled | None, memory: Memory | None, systems: list[str]) -> JSON:
    """Make what a page shows of a call to the judge.

    Args:
        call: The call.
        recalled: What was asked and answered, where that could be followed.
        memory: What brings it back; None leaves prompt and reply out.
        systems: System messages seen so far; a new one is added, and calls name them by their place.
    """
    data: JSON = {
        "key": call.key,
        "model": call.model,
        "finish": call.finish,
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "dropped": call.dropped,
        "chunks": call.chunk_ids,
        "prompt": None,
        "reply": None,
    }
    if memory is None:
        return data
    if recalled is None:
        data["prompt_note"] = memory.problem or "the question of this call cannot be put together again"
        data["reply_note"] = memory.reply_problem or "not looked up: its question is not known"
        return data
    request, reply = recalled.request, recalled.reply
    asked = request.questionnaire
    data["route"] = request.route
    if asked is None:
        said: list[tuple[str, str]] = [(message.role, message.content) for message in request.messages]
    else:
        said = [(SYSTEM, asked.rules), ("input", _json(asked.shared))]
        data["questions"] = _questions(request, asked, reply.answers if reply else ())
    systems += dict.fromkeys(text for role, text in said if role == SYSTEM and text not in systems)
    data["prompt"] = [[role, systems.index(text) if role == SYSTEM else text] for role, text in said]
    if reply is None:
        data["reply_note"] = memory.reply_problem or "the cache does not hold it"
    else:
        data["reply"] = reply.written
    return data


def _questions(request: Request, asked: Questionnaire, answers: tuple[DecisionAnswer, ...]) -> list[JSON]:
    """Make a row for each question: which chunks it is about, its words, its data, and the answer."""
    told: list[DecisionAnswer | None] = list(answers)
    if len(told) != len(asked.questions):
        told = [None] * len(asked.questions)
    return [
        {
            "name": question.name,
            "chunks": chunks,
            "text": question.text,
            "data": _json(question.data) if question.data else "",
            "levels": [
                f"{grade}: {one.label}: {one.description}" for grade, one in enumerate(question.levels)
            ],
            "answer": None if answer is None else answer_in_words(question, answer),
        }
        for question, answer, chunks in zip(asked.questions, told, request.chunks_by_passage(), strict=True)
    ]


def answer_in_words(question: DecisionQuestion, answer: DecisionAnswer) -> str:
    """Write an answer: `true 0.57, false 0.43`, the probability of each grade, or why there is none."""
    if not answer.probabilities:
        return f"no answer ({answer.why}){answer.detail and ': '}{answer.detail}"
    shares = [f"{share:.2f}" for share in answer.probabilities]
    if not question.levels and len(shares) == 2:
        return f"true {shares[1]}, false {shares[0]}"
    return ", ".join(f"grade {grade} {share}" for grade, share in enumerate(shares))


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, indent=2)
