"""Values as files hold them: texts that are lists, missing values, what JSON cannot hold."""

import ast
import io
import json
import math
import re
import tokenize
from collections.abc import Collection, Mapping
from typing import Any

from judge_eval.errors import DataError
from judge_eval.objects import HEAVY, number_text, plain
from judge_eval.safe_text import value_kind
from judge_eval.spelling import option

WHERE = option("map", {"query": "...", "chunks": "..."})
"""The option that says under which keys the question and the chunks are."""


class Mapped(dict[str, Any]):
    """A record in which people have said what some of our fields are called; those stand under our names."""

    def __init__(self, record: Mapping[str, Any], fields: Collection[str]) -> None:
        super().__init__(record)
        self.fields = frozenset(fields)


def is_mapped(record: Mapping[str, Any], field: str) -> bool:
    """Tell whether people have said where a record holds a field of ours."""
    return isinstance(record, Mapped) and field in record.fields


WHOLE = "none"
"""The separator that says: a text in a list's place is one item."""


def text(record: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first of the keys that holds a text; None where none is there or all are empty."""
    for key in keys:
        value = record.get(key)
        if is_missing(value):
            continue
        if not isinstance(value, str):
            raise DataError(f"holds {value_kind(value)}, not a text", field=key)
        return value
    return None


def need_text(record: Mapping[str, Any], *keys: str) -> str:
    """Return the question: the first of the keys that holds a text."""
    if is_mapped(record, "query"):
        keys = ("query",)
    question = text(record, *keys)
    if question is None or not question.strip():
        wanted = " or ".join(f"`{key}`" for key in keys)
        raise DataError(f"the question is missing; {wanted} must hold it", field=keys[0])
    return question


def items(record: Mapping[str, Any], *keys: str) -> list[Any]:
    """Return the chunks: the first of the keys that holds a list; null is an error, `[]` is empty."""
    if is_mapped(record, "chunks"):
        keys = ("chunks",)
    for key in keys:
        if key in record and record[key] is not None:
            return as_list(record[key], key)
    fault = "the list of retrieved chunks is missing; give what was retrieved, or [] if nothing was"
    raise DataError(fault, field=keys[0])


def worded(data: dict[str, Any]) -> dict[str, Any]:
    """Write the numbers among a trace's ids and answers as text, in place."""
    _word(data, "", ("id", "query", "reference", "answer"))
    chunks = data.get("chunks")
    for place, chunk in enumerate(chunks if isinstance(chunks, list) else ()):
        if isinstance(chunk, dict):
            _word(chunk, f"chunks[{place}].", ("id", "text", "title"))
    return data


def _word(data: dict[str, Any], prefix: str, keys: tuple[str, ...]) -> None:
    for key in keys:
        value = data.get(key)
        if value.__class__ is str or value is None:
            continue
        if isinstance(value, list | dict):
            raise DataError(f"holds {value_kind(value)}, not a text", field=prefix + key)
        if key not in ("query", "text"):
            data[key] = number_text(value)


def as_list(value: Any, field: str) -> list[Any]:
    """Check that a value is a list."""
    if isinstance(value, list | tuple):
        return list(value)
    raise DataError(f"holds {value_kind(value)}, not a list", field=field)


def side_by_side(value: Any) -> Any:
    """Turn an object of lists of one length, as data frames write lists of objects, into objects."""
    columns = list(value.values()) if isinstance(value, Mapping) else []
    if not columns or any(not isinstance(column, list) for column in columns):
        return value
    if len({len(column) for column in columns}) != 1:
        return value
    return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]


REFERENCES = (
    "ground_truth", "reference", "reference_answer", "expected_answer", "gold_answer", "golden_answer",
    "ground_truth_answer", "ideal_answer", "ideal", "target",
)  # fmt: skip
"""What people call the reference."""
SEVERAL = ("ground_truths", "gold_answers", "golden_answers", "reference_answers", "expected_answers")
"""What they call a list of them, of which the first is taken."""


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


def is_urls(value: Any) -> bool:
    """Tell whether a value is a list of URLs and of nothing else, which is never the list of chunks."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, str) and _URL.fullmatch(item.strip()) is not None for item in value)


def maybe_list(record: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list under a key; empty where there is none."""
    value = record.get(key)
    return [] if is_missing(value) else as_list(value, key)


_PRINTED = re.compile(r"[\[(]*\s*([A-Z]\w*)\(\s*\w+\s*=")
"""How Python prints a list of documents: `[Document(page_content=...`."""


def decode_list(value: Any, field: str, separator: str | None = None) -> Any:
    """Turn a text that spells a list into the list; leave everything else as it is."""
    # JSON, Python's notation and a printed NumPy array of texts (as pandas writes them into CSV cells) are
    # understood, unless NumPy has shortened it or it has arrays inside. Other text is split at the separator
    # where one is given, and never on a guess.
    if not isinstance(value, str):
        return value
    bare = value.strip()
    if not bare or bare in ("null", "None", "nan", "NaN"):
        return None
    if bare[0] == "[" and bare[-1] == "]":
        value_read = _literal(bare, field)
        if isinstance(value_read, list):
            return value_read
    if separator == WHOLE:
        return [value]
    if separator is not None:
        return [part.strip() for part in value.split(separator) if part.strip()]
    if (printed := _PRINTED.match(bare)) is not None:
        raise DataError(
            f"holds printed objects ({printed[1]}), whose texts cannot be read back; write the texts alone as JSON, "
            "such as `json.dumps([document.page_content for document in documents])`",
            field=field,
        )
    raise DataError(
        "holds a text, not a list; write the list as JSON, or say with "
        f"{option('list_sep')} what stands between its items (DeepEval's own files: '|'), or "
        f"{option('list_sep', 'none')} where it is one chunk",
        field=field,
    )


def decode_mapping(value: Any) -> Any:
    """Turn a text that spells a JSON object or array into it; leave everything else as it is."""
    if isinstance(value, str) and value.strip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _literal(bare: str, field: str) -> Any:
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        pass
    try:
        printed = _printed_array(bare)
        if printed is not None:
            return printed
        return ast.literal_eval(bare)
    except _UntoldError:
        raise DataError(
            "holds a printed NumPy array, whose items cannot be separated; write the column as lists "
            "(`.tolist()`) or as JSON",
            field=field,
        ) from None
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        return None


class _UntoldError(Exception):
    """Two texts stand side by side among other things: Python would glue them into one without a word."""


def _printed_array(bare: str) -> list[str] | None:
    """Read texts side by side without a comma, each in its quotes, as NumPy prints an array; else None."""
    if bare.startswith("[array("):
        raise _UntoldError
    texts, others, glued, end = [], 0, False, (0, 0)
    last_was_text = False
    for token in tokenize.generate_tokens(io.StringIO(bare).readline):
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER):
            continue
        is_text = token.type == tokenize.STRING and token.string[0] in "'\""
        if token.type == tokenize.STRING and last_was_text:
            glued = True
            others += 3 * (token.start == end)  # 'it''s' is one text in another notation, and no array
        last_was_text, end = token.type == tokenize.STRING, token.end
        if is_text:
            texts.append(token.string)
        else:
            others += 1
    if not glued:
        return None
    if others > 2:  # more than the brackets: an ellipsis, commas, a list inside
        raise _UntoldError
    return [str(ast.literal_eval(literal)) for literal in texts]


def is_number(value: str) -> bool:
    """Tell whether a text spells a number."""
    try:
        float(value)
    except ValueError:
        return False
    return True


def is_missing(value: Any) -> bool:
    """Tell whether a value stands for nothing: None, NaN or an empty text."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def first_of(record: Mapping[str, Any], *keys: str) -> Any:
    """Return the value of the first key that holds something; None where none does."""
    return next((record[key] for key in keys if not is_missing(record.get(key))), None)


def first_of_several(key: str) -> str:
    """Say that of several reference answers one is taken."""
    return f"of several `{key}` the first is the reference; all are kept as metadata"


def rest(record: Mapping[str, Any], *used: str) -> dict[str, Any]:
    """Return what of a record has no place of its own, to be kept as metadata."""
    kept = {
        str(key): plain(value)
        for key, value in record.items()
        if key not in used and key not in HEAVY and not is_missing(value) and not is_mapped(record, key)
    }
    own = kept.pop("metadata", None)
    own = decode_mapping(own)
    if isinstance(own, dict):
        return kept | own
    return kept if is_missing(own) else {**kept, "metadata": own}


def first_reference(record: Mapping[str, Any], data: dict[str, Any]) -> str | None:
    """Put the first of several references into `data` if there is no other; return the key of a list of one."""
    if any(not is_missing(record.get(key)) for key in REFERENCES):
        return None
    for key in SEVERAL:
        value = record.get(key)
        texts = [] if is_missing(value) else as_list(decode_list(value, key), key)
        if not texts:
            continue
        if not isinstance(texts[0], str):
            raise DataError(f"holds {value_kind(texts[0])}, not a text", field=f"{key}[0]")
        data["reference"] = texts[0]
        if len(texts) == 1:
            return key
        data.setdefault("remarks", []).append(first_of_several(key))
    return None


def completed(
    data: dict[str, Any], record: Mapping[str, Any], used: set[str], id_key: str = "", **texts: str | tuple[str, ...]
) -> dict[str, Any]:
    """Add optional texts (each of its key, or of the first of its keys), the id, the tags, and the rest.

    `id_key` is what the tool calls the id, if it is none of the usual names.
    """
    for field, keys in texts.items():
        known = [keys] if isinstance(keys, str) else list(keys)
        value = text({key: number_text(record.get(key)) for key in known}, *known)
        if value is not None and not is_mapped(record, field):
            data[field] = value
    own = next((key for key in ("id", "_id", "trace_uuid", id_key) if not is_missing(record.get(key))), None)
    if own is not None and isinstance(key := number_text(record[own]), str | int | float):
        data["id"] = key
        used = {*used, own}
    tags = record.get("tags")
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        data["tags"] = tags
        used = {*used, "tags"}
    metadata = rest(record, *used)
    if metadata:
        data["metadata"] = metadata
    return data
