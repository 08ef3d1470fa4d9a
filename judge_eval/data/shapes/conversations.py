"""Shapes whose record is a conversation: with a retrieval for each user turn, or up to its last question."""

from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.conversation import PlainTurn, turns_of
from judge_eval.data.files import values
from judge_eval.data.files.recorded_conversation import OTHERS, QUESTIONS, retrieved_at
from judge_eval.data.shapes.shape import PLACE, REMARKS, Data, Keys, Shape, has, has_any
from judge_eval.errors import DataError
from judge_eval.objects import number_text
from judge_eval.schema import NO_CONVERSATION

LISTS = ("turns", "messages", "conversation")
IDS = ("id", "conversation_id", "session_id", "name")


def _by_turn(record: Data) -> Iterator[dict[str, Any]]:
    """Read each user turn with a retrieval, its own or that of a message after it, as a trace."""
    key = next(key for key in LISTS if isinstance(record.get(key), list))
    session = next((str(number_text(record[name])) for name in IDS if not values.is_missing(record.get(name))), None)
    shared: dict[str, Any] = {"metadata": {**values.rest(record, key, *IDS)}}
    if session is not None:
        shared["metadata"]["session_id"] = session
    turns: list[PlainTurn] = []
    asked: list[dict[str, Any]] = []
    remarks: list[str] = []
    for place, item in enumerate(record[key]):
        read = turns_of([item])
        if read is None or not isinstance(item, Mapping):
            raise DataError(NO_CONVERSATION, field=f"{key}[{place}]")
        if read.others:
            remarks = [OTHERS]
        for turn in read.turns:
            if turn.role == "user":
                number = len(asked) + 1
                own = {"id": f"{session}-{number}"} if session is not None else {}
                history = [each._asdict() for each in turns]
                asked.append({**own, **shared, "query": turn.content, "history": history, PLACE: f"{key}[{place}]"})
            elif asked:
                asked[-1]["answer"] = turn.content
            turns.append(turn)
        if asked and "chunks" not in asked[-1] and (chunks := retrieved_at(item)) is not None:
            asked[-1]["chunks"] = chunks
    for data in asked:
        if "chunks" in data:
            yield data
        else:
            remarks.append("user turns without a retrieval are left out")
    if remarks:
        yield {REMARKS: list(dict.fromkeys(remarks))}


def _fits_by_turn(keys: Keys) -> bool:
    return has_any(keys, *LISTS) and not has_any(keys, *QUESTIONS, "chunks", "contexts", "query_str")


def _mtrag(record: Data) -> Iterator[dict[str, Any]]:
    used = {"input", "contexts", "targets", "conversation_id"}
    data: dict[str, Any] = {"query": values.need_text(record, "input"), "chunks": values.items(record, "contexts")}
    texts = [target.get("text") for target in values.maybe_list(record, "targets") if isinstance(target, Mapping)]
    data |= {"reference": texts[0]} if texts and isinstance(texts[0], str) else {}
    made = values.completed(data, record, used, "task_id", answer="response")
    session = record.get("conversation_id")
    if not values.is_missing(session):
        made["metadata"] = {**made.get("metadata", {}), "session_id": str(number_text(session))}
    yield made


SHAPES = (
    Shape(
        "conversations",
        "conversations with a retrieval for each user turn (DeepEval, MTRAG)",
        _fits_by_turn,
        _by_turn,
        frozenset({"turns", "messages", "conversation", "scenario", "name"}),
        frozenset(LISTS),
    ),
    Shape(
        "mtrag",
        "tasks of MTRAG: a conversation, the passages retrieved for its last question, and the target answer",
        lambda keys: has(keys, "input", "contexts", "targets"),
        _mtrag,
        frozenset({"input", "contexts", "targets", "task_id", "conversation_id"}),
        frozenset({"contexts", "targets"}),
    ),
)
