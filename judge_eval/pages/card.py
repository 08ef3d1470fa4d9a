"""One trace in full, as the JSON that a page shows: texts, verdicts, quotes, calls to the judge."""

import json
from collections.abc import Sequence
from typing import Any

from judge_eval.pages.rows import agrees, reason_data
from judge_eval.quotes import marked
from judge_eval.runs.folder.judgedclaims import JudgedClaim, judged_claims
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.judging.recall import Memory, ReplayedCall
from judge_eval.runs.scoring.aggregate import known_metric, main_metric
from judge_eval.schema import Call, ClaimSupport, NoVerdict, Scale, Verdict
from judge_eval.views.blocks import JSON
from judge_eval.views.claims import cover_sentence, cover_word, needed_first, together_sentence, vital_word
from judge_eval.views.trace import outcome_notes
from judge_eval.wire import DecisionAnswer, DecisionQuestion, Questionnaire, Request


def _call_data(call: Call, recalled: ReplayedCall | None, memory: Memory | None, systems: list[str]) -> JSON:
    # Without a memory prompt and reply are left out. The text of the system is the same in every call: new ones
    # are added to `systems`, and calls name them by their place.
    names = {"key", "model", "finish", "input_tokens", "output_tokens", "dropped", "request_id"}
    data: JSON = {**call.model_dump(include=names), "prompt": None, "reply": None}
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
        prompt: list[tuple[str, str]] = [(message.role, message.content) for message in request.messages]
    else:
        prompt = [("system", asked.rules), ("input", _json(asked.shared))]
        data["questions"] = _questions(request, asked, reply.answers if reply else ())
    systems += dict.fromkeys(text for role, text in prompt if role == "system" and text not in systems)
    data["prompt"] = [[role, systems.index(text) if role == "system" else text] for role, text in prompt]
    if reply is None:
        data["reply_note"] = memory.reply_problem or "the cache does not hold it"
    else:
        data["reply"] = reply.written
    return data


def _questions(request: Request, asked: Questionnaire, answers: tuple[DecisionAnswer, ...]) -> list[JSON]:
    """Make a row for each question: which chunks it is about, its words, its data, and the answer."""
    matched = answers if len(answers) == len(asked.questions) else [None] * len(asked.questions)
    about = request.chunks_by_passage()
    if len(about) != len(asked.questions):  # one question a claim, all of them about the same chunks
        about = [request.chunk_ids] * len(asked.questions)
    return [
        {
            "name": question.name,
            "chunks": chunks,
            "text": question.text,
            "data": _json(question.data) if question.data else "",
            "levels": question.level_lines,
            "answer": None if answer is None else answer_in_words(question, answer),
        }
        for question, answer, chunks in zip(asked.questions, matched, about, strict=True)
    ]


def answer_in_words(question: DecisionQuestion, answer: DecisionAnswer) -> str:
    """Write an answer: `true 0.57, false 0.43`, the probability of each grade, or why there is none."""
    if not answer.probabilities:
        return f"no answer ({answer.why}){answer.detail and ': '}{answer.detail}"
    shares = [f"{share:.2f}" for share in answer.probabilities]
    if not question.levels and len(shares) == 2:
        return f"true {shares[1]}, false {shares[0]}"
    return ", ".join(f"grade {grade} {share}" for grade, share in enumerate(shares, question.lowest))


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, indent=2)


def card_page(
    result: TraceResult, scale: Scale, metrics: Sequence[str], memory: Memory | None, systems: list[str]
) -> JSON:
    """Make the detail of one trace, as `_call_data`; contributions are to the main metric."""
    trace = result.trace
    precision, shares = ladder(result, scale, metrics)
    calls = _calls_by_chunk(result, memory, systems)
    cards = []
    for at, (chunk, outcome) in enumerate(zip(trace.chunks, result.outcomes, strict=True)):
        card: JSON = chunk.model_dump(include={"id", "title", "score", "label"}) | {
            "rank": at + 1,
            "text": [chunk.text],
            "precision": precision[at],
            "share": shares[at] if shares is not None else None,
            "calls": calls.get(chunk.id, []),
            **_outcome(outcome),
        }
        if outcome.kind == "verdict":
            card["text"] = marked(chunk.text, outcome.quote)
            if chunk.title and len(card["text"]) == 1:
                card["title_marks"] = marked(chunk.title, outcome.quote)
            if (same := agrees(chunk.label, outcome, scale)) is not None:
                card["agrees"] = same
        cards.append(card)
    names = {"id", "query", "reference", "answer", "tags", "relevant_total", "metadata", "history"}
    return trace.model_dump(include=names) | {
        "scores": result.scores,
        "bounds": result.bounds,
        "claims": claim_grid_data(result),
        "chunks": cards,
    }


def _calls_by_chunk(result: TraceResult, memory: Memory | None, systems: list[str]) -> dict[str, list[JSON]]:
    """Make what cards show of calls, by chunk; one about several chunks is shown at the first."""
    ranks = {chunk.id: rank for rank, chunk in enumerate(result.trace.chunks, 1)}
    recalled = [None] * len(result.calls) if memory is None else memory.calls(result)
    by_chunk: dict[str, list[JSON]] = {}
    for call, asked in zip(result.calls, recalled, strict=True):
        about = sorted((chunk_id for chunk_id in call.chunk_ids if chunk_id in ranks), key=ranks.__getitem__)
        for place, chunk_id in enumerate(about):
            data = {"same_as": ranks[about[0]]} if place else _call_data(call, asked, memory, systems)
            by_chunk.setdefault(chunk_id, []).append(data)
    return by_chunk


def _outcome(outcome: Verdict | NoVerdict) -> JSON:
    if outcome.kind == "no_verdict":
        return {"why": outcome.why, "detail": outcome.detail}
    names = {"grade", "relevant", "evidence", "confidence", "expected_grade", "stage"}
    notes = {"notes": list(outcome_notes(outcome)), **reason_data(outcome)}
    return outcome.model_dump(include=names) | notes


def ladder(result: TraceResult, scale: Scale, metrics: Sequence[str]) -> tuple[list[float | None], list[float] | None]:
    """Return P@i at each rank, and what each rank adds to the main metric."""
    # From the first failed verdict on, P@i is unknown. The shares add up to the trace's score of the run's main
    # metric; they are None if that metric has none, or has no value here.
    grades = [o.grade if o.kind == "verdict" else None for o in result.outcomes]
    hits, precision = 0, list[float | None]()
    known = True
    for rank, grade in enumerate(grades, 1):
        known = known and grade is not None
        hits += grade is not None and grade >= scale.relevant
        precision.append(hits / rank if known else None)
    metric = known_metric(main_metric(metrics) or "")
    score = None if metric is None else result.scores.get(str(metric))
    if metric is None or metric.spec.rank_shares is None or score is None:
        return precision, None
    depth = len(grades) if metric.cutoff is None else min(metric.cutoff, len(grades))
    shares = metric.spec.rank_shares([grade is not None and grade >= scale.relevant for grade in grades[:depth]])
    shares += [0.0] * (len(grades) - depth)
    # A variant that divides or counts in another way has no such shares; then none are shown.
    return precision, shares if abs(sum(shares) - score) < 1e-9 else None


def claim_grid_data(result: TraceResult) -> JSON | None:
    """Return a trace's claims, missing ones first, with a sign a rank and quotes; None without claims."""
    claims = judged_claims(result.claims, result.outcomes)
    if claims is None:
        return None
    asked = any(claim.asked for claim in claims)
    rows = [_row(claim, asked) for claim in needed_first(claims)]
    return {"sentence": cover_sentence(claims), "together": asked, "list": rows}


def _row(claim: JudgedClaim, asked: bool) -> JSON:
    supports = enumerate(claim.supports, 1)
    quotes = {
        str(rank): [support.quote, support.quote_found]
        for rank, support in supports
        if isinstance(support, ClaimSupport) and support.quote
    }
    sign = None if not claim.asked else "!" if claim.together is None else "+" if claim.together else "."
    return {
        "id": claim.claim.id,
        "text": claim.claim.text,
        "vital": vital_word(claim.claim.vital),
        "cover": claim.cover,
        "word": cover_word(claim),
        "signs": claim.signs,
        "quotes": quotes,
        "together": [sign, together_sentence(claim)] if asked else None,
    }
