"""Conversations before a question: read from the forms of other tools, cut, and written as judges see them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

Role: TypeAlias = Literal["user", "assistant"]
"""Who speaks."""

VERSION = "conversation@1"
"""Of the prompt that shows conversations, with the limit below and the way turns are written; part of cache keys."""
LIMIT = 8_000
"""Characters of a conversation that are shown: some 2,000 tokens."""


class SpokenTurn(Protocol):
    """One message of a conversation."""

    @property
    def role(self) -> str:
        """`user` or `assistant`."""

    @property
    def content(self) -> str:
        """What was said."""


class PlainTurn(NamedTuple):
    """One message of a conversation, as it was read."""

    role: Role
    content: str


class Conversation(NamedTuple):
    """The turns of a list of messages, oldest first."""

    turns: list[PlainTurn]
    others: int = 0
    """How many messages of others (system, developer, tool) are left out."""


_USER = frozenset({"user", "human", "customer", "humanmessage", "usermessage", "question"})
_ASSISTANT = frozenset(
    {
        "assistant", "ai", "agent", "bot", "chatbot", "model", "gpt", "aimessage", "aimessagechunk",
        "assistantmessage", "response",
    }
)  # fmt: skip
_ROLES: Mapping[str, Role] = {**dict.fromkeys(_USER, "user"), **dict.fromkeys(_ASSISTANT, "assistant")}
_ROLE_KEYS = ("role", "type", "speaker", "from", "author", "sender")
_TEXT_KEYS = ("content", "text", "value", "parts", "blocks", "message", "utterance")
_TEXT_PARTS = ("text", "input_text", "output_text")


def turns_of(value: Any) -> Conversation | None:
    """Read a list of messages in the form of a known tool; None if it is none.

    Messages may be objects with a role and a text (OpenAI, ragas, DeepEval, MTRAG, Gemini, Haystack, LlamaIndex,
    ShareGPT, spans of OpenInference and OpenTelemetry), LangChain's serialised messages, pairs of role and text, pairs
    of question and answer, objects with `question` and `response` (CORAL), or texts of which every second is an answer
    (QReCC, TopiOCQA). Of a message in parts the text alone is read.
    """
    if not isinstance(value, list | tuple):
        return None
    if not value:
        return Conversation([])
    if all(isinstance(item, str) for item in value):
        roles: tuple[Role, Role] = ("user", "assistant")
        return _spoken([PlainTurn(roles[place % 2], text) for place, text in enumerate(value)])
    if all(_is_pair(item) for item in value):
        if not all(str(who).lower() in {*_ROLES, "system"} for who, _ in value):
            return _spoken([turn for asked, answer in value for turn in _exchange(asked, answer)])
        value = [{"role": who, "content": text} for who, text in value]
    turns: list[PlainTurn] = []
    others = 0
    for item in value:
        if not isinstance(item, Mapping):
            return None
        if isinstance(item.get("question"), str) and "response" in item:
            turns += _exchange(item["question"], item["response"])
            continue
        message = message_of(item)
        if message is None:
            return None
        role, text = message
        if role in _ROLES:
            turns.append(PlainTurn(_ROLES[role], text))
        else:
            others += 1
    return _spoken(turns, others)


def message_of(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return who says a message, in small letters, and its text; None if it is no message."""
    inner = item.get("kwargs") or item.get("data")
    if isinstance(inner, Mapping) and "content" in inner:  # LangChain's `dumpd` and `messages_to_dict`
        names = item.get("id") if item.get("type") == "constructor" else None
        own = {"role": names[-1], **inner} if isinstance(names, list) and names else None
        item = own or {**item, "content": inner["content"]}
    if isinstance(item.get("message"), Mapping):
        item = item["message"]
    item = {str(key).removeprefix("message."): field for key, field in item.items()}
    role = next((str(item[key]).lower() for key in _ROLE_KEYS if item.get(key)), None)
    key = next((key for key in _TEXT_KEYS if key in item), None)
    return None if role is None or key is None else (role.removeprefix("messagerole."), _text_of(item[key]))


def _spoken(turns: list[PlainTurn], others: int = 0) -> Conversation:
    return Conversation([turn for turn in turns if turn.content.strip()], others)


def _is_pair(item: Any) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2 and all(x is None or isinstance(x, str) for x in item)


def _exchange(asked: Any, answer: Any) -> list[PlainTurn]:
    return [PlainTurn("user", str(asked or "")), PlainTurn("assistant", str(answer or ""))]


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    texts = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping):
            written = part.get("block_type", part.get("type", "text")) in _TEXT_PARTS
            part = part.get("text", part.get("content")) if written else None
        if isinstance(part, str) and part.strip():
            texts.append(part.strip())
    return "\n".join(texts)


class SplitConversation(NamedTuple):
    """A whole conversation, split at its last user turn."""

    history: list[PlainTurn]
    """What came before."""
    query: str | None
    """The last user turn; None if there is no user turn."""
    answer: str | None
    """What the assistant answered to it; None if nothing."""


def split_at_question(turns: Sequence[PlainTurn]) -> SplitConversation:
    """Split a whole conversation at its last user turn."""
    last = max((place for place, turn in enumerate(turns) if turn.role == "user"), default=None)
    if last is None:
        return SplitConversation([*turns], None, None)
    after = [turn.content for turn in turns[last + 1 :]]
    return SplitConversation([*turns[:last]], turns[last].content, "\n".join(after) or None)


def transcript(history: Sequence[SpokenTurn]) -> str:
    """Write a conversation as judges see it: its newest turns within the limit, and how many are left out.

    A turn begins with its role; further lines of it are indented, so that no text can forge a turn.
    """
    turns, dropped = _cut(history)
    lines = []
    if dropped:
        lines.append(f"({dropped} earlier turn{'s are' if dropped > 1 else ' is'} left out)")
    for role, content in turns:
        first, *rest = _LINE_END.split(content)
        lines += [f"{role}: {first}", *(f"    {line}" for line in rest)]
    return "\n".join(lines)


_LINE_END = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def _cut(history: Sequence[SpokenTurn]) -> tuple[list[tuple[str, str]], int]:
    """Return the newest turns that fit, and how many do not; a newest turn that is too long loses its middle."""
    kept: list[tuple[str, str]] = []
    left = LIMIT
    for turn in reversed(history):
        content = turn.content
        if len(content) > left:
            if kept:
                break
            half = LIMIT // 2
            content = f"{content[:half]}\n[{len(content) - 2 * half:,} characters left out]\n{content[-half:]}"
        kept.append((turn.role, content))
        left = max(0, left - len(content))
    return kept[::-1], len(history) - len(kept)


def is_cut(history: Sequence[SpokenTurn]) -> bool:
    """Tell whether a conversation is longer than what is shown of it."""
    return sum(len(turn.content) for turn in history) > LIMIT
