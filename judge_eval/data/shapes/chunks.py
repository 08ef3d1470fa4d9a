"""Recognising a retrieved chunk by what it brings, whatever tool wrote it."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from judge_eval.data.files.values import decode_mapping, first_of, is_missing
from judge_eval.errors import DataError
from judge_eval.objects import HEAVY, IMAGE, chunk_of, number_text, plain
from judge_eval.safe_text import value_kind
from judge_eval.schema import Chunk
from judge_eval.spelling import option

TEXT = ("text", "page_content", "pageContent", "content", "document", "context", "passage", "passage_text")
ID = ("id", "id_", "doc_id", "chunk_id", "document_id", "node_id", "docid", "passage_id", "pid", "_id")
SCORE = ("score", "relevance", "relevance_score")
META = ("metadata", "meta", "extra_info")
OWN = frozenset({"id", "text", "title", "score", "label", "metadata"})
"""Fields of our own chunks."""
NOISE = HEAVY | {
    "type", "class_name", "lc", "text_resource", "image_resource", "audio_resource", "video_resource",
    "mimetype", "metadata_template", "metadata_separator", "metadata_seperator", "text_template",
    "start_char_idx",
    "end_char_idx", "excluded_embed_metadata_keys", "excluded_llm_metadata_keys", "hash",
}  # fmt: skip
"""Keys of other tools' serialisations that say nothing about the chunk."""


def chunk_data(item: Any, field: str) -> dict[str, Any]:
    """Read one chunk: a text, or what a framework makes of a document; without `text` if it has only an id.

    Known are our own fields, `ContextChunk(document, relevance)`, LangChain (`page_content`, also serialised),
    LlamaIndex (a node, also inside a node with score), Haystack (`content` with `meta`, also flattened), OpenInference
    (`document.content`), the objects that `chunk_of` knows, and pairs of any of these and a score.
    """
    if isinstance(item, str):
        return {"text": item}
    if isinstance(item, Mapping):
        if item.keys() <= OWN and isinstance(item.get("text"), str) and not any(map(is_missing, item.values())):
            return {**item, "metadata": plain(item["metadata"])} if "metadata" in item else dict(item)
        return _mapping(_unwrapped(item), field)
    if isinstance(item, int) and not isinstance(item, bool):
        return {"id": number_text(item)}
    if isinstance(item, Sequence) and len(item) == 2 and _is_scored(*item):
        scored = chunk_data(item[0], field)
        return scored if is_missing(item[1]) else {**scored, "score": item[1]}
    if isinstance(item, Chunk):
        return item.model_dump(exclude_defaults=True)
    chunk = chunk_of(item)
    if chunk is None:
        fault = f"is {value_kind(item)}; a chunk is a text, an object with one, or (text, score)"
        raise DataError(fault, field=field)
    return chunk


def _is_scored(document: Any, score: Any) -> bool:
    if isinstance(document, Mapping) or score is None:
        return True
    return isinstance(score, Real) and not isinstance(score, bool)


def _unwrapped(item: Mapping[str, Any]) -> dict[str, Any]:
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
            raise DataError(f"holds {value_kind(item[text_key])}, not a text", field=f"{field}.{text_key}")
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
    picture = None if data.get("text", "").strip() else _picture(item)
    if picture is not None and "text" not in data:
        fault = f"an image ({picture}) without a text; only texts are judged: give its caption or what it reads"
        raise DataError(fault, field=field)
    if not data.keys() & {"text", "id"}:
        keys = sorted(map(str, item))
        longest = max(keys, key=lambda key: len(str(item.get(key))), default=None)
        named = f"; name the one that holds it, as in {option('map', {'chunks.text': longest})}" if longest else ""
        raise DataError(f"no text; the keys found are: {', '.join(keys) or 'none'}{named}", field=field)
    used = {text_key, id_key, score_key, "title", "label", *META}
    metadata = {k: plain(v) for k, v in item.items() if k not in used | NOISE and not is_missing(v)}
    for key in META:
        inner = decode_mapping(item.get(key))
        if isinstance(inner, Mapping):
            metadata |= plain(inner)
    if picture is not None:
        metadata.setdefault(IMAGE, picture)
    if metadata:
        data["metadata"] = metadata
    return data


def same_texts(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Tell whether two lists hold the same chunks, or one of them the texts of the other in one piece."""
    texts = [_texts(left), _texts(right)]
    whole = next((all_texts for all_texts in texts if len(all_texts) == 1), None)
    parts = texts[0] if whole is texts[1] else texts[1]
    return left == right or texts[0] == texts[1] or (whole is not None and all(text in whole[0] for text in parts))


def _texts(items: Sequence[Any]) -> list[str]:
    texts = ((first_of(_unwrapped(item), *TEXT) or item) if isinstance(item, Mapping) else item for item in items)
    return ["".join(str(text).split()) for text in texts]


def _picture(item: Mapping[str, Any]) -> str | None:
    if str(item.get("type", "")).startswith("image"):
        return "type"
    return next((key for key in item if "image" in str(key).lower() and not is_missing(item[key])), None)
