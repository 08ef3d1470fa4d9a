"""What records say of their question beside its text: the conversation before it, and whether anything answers it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from judge_eval.conversation import Conversation, split_at_question, turns_of
from judge_eval.data.files.values import Mapped, decode_list, is_mapped, is_missing
from judge_eval.errors import DataError
from judge_eval.safe_text import shortened
from judge_eval.schema import ANSWERABLE, NO_CONVERSATION
from judge_eval.spelling import option

BEFORE = ("history", "chat_history")
"""Names of what came before the question."""
KEYS = frozenset({*BEFORE, "messages", "conversation", "turns"})
"""Names of a conversation."""
QUESTIONS = ("query", "question", "user_input", "input")
"""Names of the question, in whose place a whole conversation may stand."""
RETRIEVED = ("retrieval_context", "contexts", "retrieved_contexts", "documents", "chunks")
"""Names of what was retrieved for one turn of a conversation."""
OTHERS = "messages of the system, of developers and of tools are left out of the conversation"


class RecordWithHistory(NamedTuple):
    """A record whose conversation stands in `history`, before its question."""

    record: Mapping[str, Any]
    remarks: tuple[str, ...] = ()
    fault: DataError | None = None
    """Why the conversation cannot be told from the question."""


FLAGS = ("answerability", "Answerability", "is_impossible")
"""Names under which datasets say whether a question can be answered; the last one says that it cannot."""


def as_asked(record: Mapping[str, Any]) -> RecordWithHistory:
    """Read what a record says of its question: the conversation before it, and whether anything answers it."""
    read = _with_conversation(record)
    if not is_missing(record.get("answerable")):
        return read
    fields = read.record.fields if isinstance(read.record, Mapped) else frozenset()
    if record.get("reference") == "No Answer Present.":  # in MS MARCO
        without = {name: value for name, value in read.record.items() if name != "reference"}
        return read._replace(record=Mapped({**without, "answerable": False}, (fields | {"answerable"}) - {"reference"}))
    flag = next((name for name in FLAGS if not is_missing(record.get(name))), None)
    if flag is None or read.fault is not None:
        return read
    value = read.record[flag]
    word = str(value[0] if isinstance(value, list) and len(value) == 1 else value).strip().lower()
    if word not in ANSWERABLE:
        remark = f"`{flag}` is not read: {word!r} is not one of {', '.join(ANSWERABLE)}"
        return read._replace(remarks=(*read.remarks, remark))
    out, answerable, tags = {**read.record}, ANSWERABLE[word], read.record.get("tags")
    del out[flag]
    if flag == FLAGS[-1]:
        answerable = None if answerable is None else not answerable
    elif tags is None or isinstance(tags, list):
        out["tags"] = [*(tags or ()), word]
    out["answerable"] = answerable
    return read._replace(record=Mapped(out, fields | {"answerable"}))


def _with_conversation(record: Mapping[str, Any]) -> RecordWithHistory:
    """Read the conversation of a record: what came before its question goes into `history`.

    A whole conversation (one that ends with the question, or with the answer to it) is split at its last user turn. A
    list that is no conversation stays where it is, with a remark.
    """
    asked = next((key for key in QUESTIONS if isinstance(record.get(key), list)), None)
    if asked is None and KEYS.isdisjoint(record):
        return RecordWithHistory(record)
    out, remarks = dict(record), list[str]()
    taken = is_mapped(record, "history")  # then other lists are none
    for key in [asked] if asked else sorted(KEYS & record.keys(), key=lambda key: (key not in BEFORE, key)):
        value = _list_of(record[key], key)
        if is_missing(value) or (key != asked and has_retrievals(value)):
            continue
        conversation = turns_of(value)
        if key == asked and (conversation is None or not all(isinstance(item, Mapping) for item in value)):
            return RecordWithHistory(record)
        if conversation is None or (taken and key != "history"):
            if is_mapped(record, key):
                return RecordWithHistory(record, fault=DataError(NO_CONVERSATION, field=key))
            remarks.append(_unread(key) if conversation is None else f"`{key}` is not read beside `history`")
            _set_aside(out, key)
            continue
        fault = _split(out, key, conversation, key == asked)
        if fault is not None:
            return RecordWithHistory(record, fault=fault)
        remarks += [OTHERS] if conversation.others else []
        taken = True
    fields = record.fields if isinstance(record, Mapped) else frozenset()
    return RecordWithHistory(Mapped(out, fields | ({"history"} & out.keys())), tuple(remarks))


def has_retrievals(value: Any) -> bool:
    """Tell whether the turns of a list have retrievals of their own."""
    turns = value if isinstance(value, list) else []
    return any(isinstance(turn, Mapping) and retrieved_at(turn) is not None for turn in turns)


def retrieved_at(turn: Mapping[str, Any]) -> list[Any] | None:
    """Return what was retrieved for a turn; None if nothing was searched."""
    return next((turn[key] for key in RETRIEVED if isinstance(turn.get(key), list)), None)


def _list_of(value: Any, key: str) -> Any:
    try:
        return decode_list(value, key)
    except DataError:
        return value


def _unread(key: str) -> str:
    return (
        f"`{key}` is not read: it is not a list of turns with a role and a text; "
        f"{option('map', {'history': 'KEY'})} names the conversation"
    )


def _set_aside(out: dict[str, Any], key: str) -> None:
    """Keep what has the name of our field, and is something else, in the metadata."""
    metadata = out.get("metadata")
    if key == "history" and (metadata is None or isinstance(metadata, Mapping)):
        out["metadata"] = {**(metadata or {}), key: out.pop(key)}


def _split(out: dict[str, Any], key: str, conversation: Conversation, asks: bool) -> DataError | None:
    """Put the turns before the question into `history`; return the error if the question is not the last one."""
    turns: Sequence[Any] = conversation.turns
    question = None if asks else next((out[name] for name in QUESTIONS if isinstance(out.get(name), str)), None)
    history, query, answer = split_at_question(turns)
    if not history and question is not None and key not in BEFORE:
        return None  # a prompt, with nothing before it
    del out[key]
    if query is not None and (question is None or question.split() == query.split()):
        if question is None:
            out[key if asks else "query"] = query
        if answer is not None and all(is_missing(out.get(name)) for name in ("answer", "response")):
            out["answer" if "chunks" in out else "response"] = answer
        turns = history
    elif query is not None and question is not None and key not in BEFORE:
        fault = f"its last question is {shortened(query, 60)!r}, the one beside it {shortened(question, 60)!r}"
        advice = f"if all of it came before the question, say {option('map', {'history': key})}"
        beside = next(name for name in QUESTIONS if isinstance(out.get(name), str))
        advice += f"; if the one beside it is what was searched, {option('map', {'search_query': beside})}"
        return DataError(f"{fault}; {advice}", field=key)
    if turns or key == "history":
        out["history"] = [turn._asdict() for turn in turns]
    return None
