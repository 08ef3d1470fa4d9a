"""Recognising a retrieved chunk by what it brings, whatever tool wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from judge_eval.data.files.values import decode_mapping, is_missing, kind
from judge_eval.errors import DataError
from judge_eval.objects import HEAVY, chunk_of, number_text, plain
from judge_eval.schema import Chunk

TEXT = ("text", "page_content", "pageContent", "content", "document", "context", "passage", "passage_text")
ID = ("id", "id_", "doc_id", "chunk_id", "document_id", "node_id", "docid", "passage_id", "pid", "_id")
SCORE = ("score", "relevance", "relevance_score")
META = ("metadata", "meta", "extra_info")
NOISE = HEAVY | {
    "type",
    "class_name",
    "lc",
    "text_resource",
    "image_resource",
    "audio_resource",
    "video_resource",
    "mimetype",
    "metadata_template",
    "metadata_separator",
    "metadata_seperator",
    "text_template",
    "start_char_idx",
    "end_char_idx",
    "excluded_embed_metadata_keys",
    "excluded_llm_metadata_keys",
    "hash",
}
"""Keys of other tools' serialisations that say nothing about the chunk."""


def chunk_data(item: Any, field: str) -> dict[str, Any]:
    """Read one chunk: a text, or what a framework makes of a document.

    Known are our own fields, `ContextChunk(document, relevance)`, LangChain (`page_content`, also
    serialised), LlamaIndex (a node, also inside a node with score), Haystack (`content` with `meta`, also
    flattened), OpenInference (`document.content`), the objects that `chunk_of` knows, and pairs of any of
    these and a score.

    Args:
        item: The chunk.
        field: Where it stands, for the message.

    Returns:
        The data of a `Chunk`, without `text` where the item brings only an id.

    Raises:
        DataError: It is none of these.
    """
    if isinstance(item, str):
        return {"text": item}
    if isinstance(item, Mapping):
        return _mapping(_unwrapped(item), field)
    if isinstance(item, int) and not isinstance(item, bool):
        return {"id": number_text(item)}
    if isinstance(item, Sequence) and len(item) == 2 and _is_scored(*item):
        scored = chunk_data(item[0], field)
        return scored if is_missing(item[1]) else {**scored, "score": item[1]}
    if isinstance(item, Chunk):
        return item.model_dump(exclude_defaults=True)
    found = chunk_of(item)
    if found is None:
        raise DataError(f"is {kind(item)}; a chunk is a text or an object with one", field=field)
    return found


def _is_scored(document: Any, score: Any) -> bool:
    """Tell a document with its score from two chunks."""
    if isinstance(document, Mapping) or score is None:
        return True
    return isinstance(score, Real) and not isinstance(score, bool)


def _unwrapped(item: Mapping[str, Any]) -> dict[str, Any]:
    """Take a document out of what frameworks put around it."""
    out = dict(item)
    for around in ("kwargs", "init_parameters", "__data__"):
        inner = decode_mapping(out.get(around))
        if isinstance(inner, Mapping) and ({"lc", "type", "__type__"} & out.keys()):
            return _unwrapped(inner)
    node = decode_mapping(out.get("node"))
    if isinstance(node, Mapping):
        return {**_unwrapped(node), **({} if is_missing(out.get("score")) else {"score": out["score"]})}
    document = out.get("document")
    if isinstance(document, Mapping):
        del out["document"]
        return {**out, **_unwrapped(document)}
    if any(key.startswith("document.") for key in out):
        return {key.removeprefix("document."): value for key, value in out.items()}
    resource = out.get("text_resource")
    if isinstance(resource, Mapping) and is_missing(out.get("text")):
        out["text"] = resource.get("text")
    return out


def _mapping(item: dict[str, Any], field: str) -> dict[str, Any]:
    data: dict[str, Any] = {}
    text_key = next((key for key in TEXT if item.get(key) is not None), None)
    if text_key is not None:
        if not isinstance(item[text_key], str):
            raise DataError(f"holds {kind(item[text_key])}, not a text", field=f"{field}.{text_key}")
        data["text"] = item[text_key]
    id_key = next((key for key in ID if not is_missing(item.get(key))), None)
    if id_key is not None:
        data["id"] = str(number_text(item[id_key]))
    score_key = next((key for key in SCORE if not is_missing(item.get(key))), None)
    if score_key is not None:
        data["score"] = item[score_key]
    for key in ("title", "label"):
        if not is_missing(item.get(key)):
            data[key] = item[key]
    if not data.keys() & {"text", "id"}:
        keys = ", ".join(sorted(map(str, item))) or "none"
        raise DataError(f"no text; the keys found are: {keys}", field=field)
    used = {text_key, id_key, score_key, "title", "label", *META}
    metadata = {k: plain(v) for k, v in item.items() if k not in used | NOISE and not is_missing(v)}
    for key in META:
        inner = decode_mapping(item.get(key))
        if isinstance(inner, Mapping):
            metadata |= plain(inner)
    if metadata:
        data["metadata"] = metadata
    return data


def looks_ours(item: Any) -> bool:
    """Tell whether our own reader of JSON Lines can take a chunk as it is."""
    return isinstance(item, str) or (isinstance(item, Mapping) and bool({"text", "document"} & item.keys()))
