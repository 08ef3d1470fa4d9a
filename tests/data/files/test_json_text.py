from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.data.files import jsonfile as jsontext
from judge_eval.data.files.jsonfile import JsonText
from judge_eval.errors import DataError

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)
LISTS = st.lists(VALUES, max_size=6)
INDENT = st.sampled_from([None, 0, 1])


def read(text: bytes, block: int) -> list[tuple[Any, int]]:
    """Read a list with a window that grows by so many bytes."""
    before, jsontext.BLOCK = jsontext.BLOCK, block
    try:
        window = JsonText(io.BytesIO(text), "x.json")
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
    assert repr([value for value, _ in result]) == repr(json.loads(text))


@given(LISTS, st.integers(1, 60))
def test_lines_are_where_values_begin(values: list[Any], block: int) -> None:
    """Each element is named by the line its first character stands on."""
    lines, text = [], "[\n"
    for place, value in enumerate(values):
        lines.append(text.count("\n") + 1)
        text += json.dumps(value, indent=1) + ("\n\n,\n" if place + 1 < len(values) else "")
    assert [line for _, line in read((text + "\n]\n").encode(), block)] == lines


@given(LISTS, st.integers(1, 60), INDENT, st.integers(0, 10**6), st.sampled_from(["", "]", "}", '"', "x", ","]))
def test_torn_text_is_refused(values: list[Any], block: int, indent: int | None, at: int, put: str) -> None:
    """Text that json.loads refuses is refused; what it takes is read the same."""
    whole = json.dumps(values, indent=indent)
    at %= len(whole)
    text = whole[:at] + put + whole[at + 1 :]
    result = expected = None
    with contextlib.suppress(DataError):
        result = [value for value, _ in read(text.encode(), block)]
    with contextlib.suppress(json.JSONDecodeError):
        expected = json.loads(text)
    assert repr(result) == repr(expected if isinstance(expected, list) else None)


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("torn", ['[1,\n"a', '[1,\n{"a":\n', "[{},\n\n nope]", '[\n{"a" 1}]', "[1\n\n2]", "[\n1,]"])
def test_a_fault_is_told_at_pythons_line(torn: str, block: int) -> None:
    """The line of a fault is the one that json.loads names."""
    with pytest.raises(json.JSONDecodeError) as theirs:
        json.loads(torn)
    with pytest.raises(DataError) as ours:
        read(torn.encode(), block)
    assert ours.value.line == theirs.value.lineno


def test_a_fault_in_a_character_names_its_byte() -> None:
    """Bytes that are no UTF-8 are an error at their line and byte, after what stands before them."""
    text = '["é",\n"é'.encode() + b"\xff" + b'"]'
    for block in range(1, 20):
        with pytest.raises(DataError, match=r"x.json:2: not UTF-8: invalid start byte at byte 10"):
            read(text, block)


def test_an_object_is_read_by_its_keys() -> None:
    """Members come one by one; whoever asks reads the value, a list element by element."""
    text = JsonText(io.BytesIO(b' {"a": 1, "b": [ {}, 2], "c": {}}'), "x.json")
    values = {key: text.value()[0] if key != "b" else list(text.elements("b")) for key in text.members()}
    text.end()
    assert values == {"a": 1, "b": [({}, 1), (2, 1)], "c": {}}
    for torn in (b"{1: 2}", b'{"a": 1', b'{"a": 1,}', b"[]"):
        window = JsonText(io.BytesIO(torn), "x.json")
        with pytest.raises(DataError, match=r"x.json:1: .*not JSON"):
            _ = [window.value() for _ in window.members()]
