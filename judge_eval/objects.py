"""Reading the chunk objects of other libraries by what they offer, importing none of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from judge_eval import limits

HEAVY = frozenset({"embedding", "sparse_embedding", "blob", "dataframe", "relationships", "text_embedding"})
"""Keys of other libraries that hold vectors or graphs; they are not kept."""


def chunk_of(thing: Any) -> dict[str, Any] | None:
    """Read a chunk from an object with a text.

    Known by what they offer: LangChain's documents (`.page_content`), LlamaIndex' nodes (`.text`, inside
    `.node` with a score), Haystack's documents (`.content`), Lynxius' `ContextChunk` (`.document`), and pairs
    of such an object and its score, as vector stores return them.

    Returns:
        The data of a `Chunk`, without `id` where the object has none; None where it offers no text.
    """
    if isinstance(thing, tuple) and len(thing) == 2:
        pair = chunk_of(thing[0])
        return None if pair is None else pair | _score(thing[1])
    node = getattr(thing, "node", None)
    if node is not None and (inner := chunk_of(node)) is not None:
        return inner | _number(thing, "score")
    text = next(
        filter(_is_text, (getattr(thing, name, None) for name in ("page_content", "text", "content"))), None
    )
    if text is None and callable(getattr(thing, "get_content", None)):
        text = thing.get_content()
    if text is None and isinstance(getattr(thing, "document", None), str):
        return {"text": thing.document} | _number(thing, "relevance")
    if not _is_text(text):
        return None
    data = {"text": text} | _number(thing, "score")
    keys = (number_text(getattr(thing, name, None)) for name in ("id", "id_", "node_id"))
    key = next((key for key in keys if _is_text(key) and key), None)
    if key is not None:
        data["id"] = key
    for name in ("metadata", "meta"):
        kept = getattr(thing, name, None)
        if isinstance(kept, Mapping) and kept:
            data["metadata"] = plain(kept)
            break
    return data


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _number(thing: Any, name: str) -> dict[str, Any]:
    return _score(getattr(thing, name, None))


def _score(value: Any) -> dict[str, Any]:
    """Take a finite number, NumPy's too."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        return {}
    return {"score": float(value)}


def number_text(value: Any) -> Any:
    """Write a number (NumPy's too) or a UUID as a text, as ids and answers are; leave all else as it is.

    Spreadsheets and data frames know one kind of number: 7.0 is written as 7.
    """
    if value.__class__ is str or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real) and math.isfinite(value):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return str(value) if value.__class__.__name__ == "UUID" else value


def plain(value: Any, depth: int = limits.DEPTH + 1) -> Any:
    """Make a value fit for `metadata`: JSON, without NaN; what is no JSON is written as text.

    Args:
        value: Anything.
        depth: How deep it may nest; what lies deeper is left out. One more than a record may hold, so that
            a record refuses what was cut.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(inner, depth - 1) for key, inner in value.items() if key not in HEAVY}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner, depth - 1) for inner in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
