"""Reading the chunk objects of other libraries by their attributes (duck typing), without importing them."""

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from judge_eval import limits

IMAGE = "image"
"""The key of the metadata that says how a chunk without text is known to be an image."""
HEAVY = frozenset({"embedding", "sparse_embedding", "blob", "dataframe", "relationships", "text_embedding"})
"""Keys of other libraries that hold vectors or graphs; they are not kept."""


def chunk_of(thing: Any) -> dict[str, Any] | None:
    """Read the data of a `Chunk` from an object with a text; None if it has none."""
    # It knows LangChain's documents (`.page_content`), LlamaIndex' nodes (`.text`, inside `.node` with a
    # score), Haystack's documents (`.content`), Lynxius' `ContextChunk` (`.document`), and pairs of such an
    # object and its score, as vector stores return them.
    if isinstance(thing, tuple) and len(thing) == 2:
        pair = chunk_of(thing[0])
        return None if pair is None else pair | _score(thing[1])
    score = _score(getattr(thing, "score", None))
    node = getattr(thing, "node", None)
    if node is not None and (inner := chunk_of(node)) is not None:
        return inner | score
    texts = (getattr(thing, name, None) for name in ("page_content", "text", "content"))
    text = next((text for text in texts if isinstance(text, str)), None)
    if text is None and callable(getattr(thing, "get_content", None)):
        text = thing.get_content()
    if text is None and isinstance(getattr(thing, "document", None), str):
        return {"text": thing.document} | _score(getattr(thing, "relevance", None))
    if not isinstance(text, str):
        return None
    data: dict[str, Any] = {"text": text} | score
    pictures = ("image", "image_url", "image_path", "image_resource")
    picture = None if text.strip() else next((name for name in pictures if getattr(thing, name, None)), None)
    keys = (number_text(getattr(thing, name, None)) for name in ("id", "id_", "node_id"))
    if key := next((key for key in keys if isinstance(key, str) and key), None):
        data["id"] = key
    columns = (getattr(thing, name, None) for name in ("metadata", "meta"))
    if metadata := next((each for each in columns if isinstance(each, Mapping) and each), None):
        data["metadata"] = plain(metadata)
    if picture is not None:
        data["metadata"] = {IMAGE: picture} | data.get("metadata", {})
    return data


def _score(value: Any) -> dict[str, Any]:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        return {}
    return {"score": float(value)}


def number_text(value: Any) -> Any:
    """Write a number (NumPy's too; 7.0 as 7) or a UUID as text; leave all else as it is."""
    if value.__class__ is str or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real) and math.isfinite(value):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return str(value) if value.__class__.__name__ == "UUID" else value


def plain(value: Any, depth: int = limits.DEPTH + 1) -> Any:
    """Make a value fit for `metadata`: JSON, without NaN; other objects become text."""
    # `depth` is one level more than a record may hold, so that a record refuses what was cut.
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
