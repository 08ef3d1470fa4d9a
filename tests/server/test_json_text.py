from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.errors import DataError
from judge_eval.server import json_text as jsontext
from judge_eval.server.json_text import JsonText

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)
LISTS = st.lists(VALUES, max_size=6)
INDENT = st.sampled_from([None, 0, 1])


def read(text: bytes, block: int) -> list[Any]:
    """Read a list with a window that grows by so many bytes."""
    before, jsontext.BLOCK = jsontext.BLOCK, block
    try:
        window = JsonText(text, 10**6)
        result = list(window.elements())
        window.end()
        return result
    finally:
        jsontext.BLOCK = before


@given(LISTS, st.integers(1, 60), INDENT, st.booleans())
def test_any_window_reads_what_python_reads(
    values: list[Any], block: int, indent: int | None, ascii_only: bool
) -> None:
    """Wherever the window ends, in a number, an escape or a character, the values are json.loads' values."""
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")
    result = read(b"\xef\xbb\xbf" + text, block)
    assert repr(result) == repr(json.loads(text))


@given(LISTS, st.integers(1, 60), INDENT, st.integers(0, 10**6), st.sampled_from(["", "]", "}", '"', "x", ","]))
def test_torn_text_is_refused(values: list[Any], block: int, indent: int | None, at: int, put: str) -> None:
    """Text that json.loads refuses is refused; what it takes is read the same."""
    whole = json.dumps(values, indent=indent)
    at %= len(whole)
    text = whole[:at] + put + whole[at + 1 :]
    result = expected = None
    with contextlib.suppress(DataError):
        result = read(text.encode(), block)
    with contextlib.suppress(json.JSONDecodeError):
        expected = json.loads(text)
    assert repr(result) == repr(expected if isinstance(expected, list) else None)


def test_a_fault_in_a_character_is_told() -> None:
    """Bytes that are no UTF-8 are an error wherever the window ends."""
    text = '["é",\n"é'.encode() + b"\xff" + b'"]'
    for block in range(1, 20):
        with pytest.raises(DataError, match="not UTF-8: invalid start byte"):
            read(text, block)


def test_an_object_is_read_by_its_keys() -> None:
    """Members come one by one; whoever asks reads the value, a list element by element."""
    text = JsonText(b' {"a": 1, "b": [ {}, 2], "c": {}}', 100)
    values = {key: text.value() if key != "b" else list(text.elements("b")) for key in text.members()}
    text.end()
    assert values == {"a": 1, "b": [{}, 2], "c": {}}
    for torn in (b"{1: 2}", b'{"a": 1', b'{"a": 1,}', b"[]"):
        window = JsonText(torn, 100)
        with pytest.raises(DataError, match="not JSON"):
            _ = [window.value() for _ in window.members()]
