from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from judge_eval.views.blocks import (
    Bullets,
    ColumnKind,
    IdList,
    Mark,
    Pieces,
    Section,
    Sentence,
    Strip,
    Toned,
    View,
    make_table,
)
from judge_eval.views.html import html_of
from judge_eval.views.page_html import page_html
from tests.support.blocks_of_pages import tables_in

HOSTILE = "<img src=x onerror=alert(1)>\"'&"


def cell(kind: ColumnKind, value: Any) -> str:
    """The text of a cell on a page."""
    return tables_in(page_html([make_table("t", [("c", kind)], [(value,)])]))[0][0][0]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("number", 0.0625, "0.063"),
        ("number", 0.8125, "0.813"),
        ("number", None, "–"),
        ("signed", -0.1234, "−0.123"),
        ("signed", 0.0625, "+0.063"),
        ("signed", -0.0001, "±0.000"),
        ("p", 0.0004, "<0.001"),
        ("p", 0.25, "0.250"),
        ("count", 12345, "12345"),
        ("count", None, ""),
        ("interval", (0.5, 1.0), "[0.500, 1.000]"),
        ("signed interval", (-0.5, 0.0), "[−0.500, ±0.000]"),
        ("interval", None, "no interval"),
        ("text", Toned("lost", "bad"), "▼ lost"),
        ("text", Toned("no", "plain"), "no"),
        ("strip", Strip((Mark("+"), Mark("x"))), "✓×"),
    ],
)
def test_cells_read_as_the_scripts_write_numbers(kind: ColumnKind, value: Any, text: str) -> None:
    """Three decimals, a half rounded away from zero as browsers do, real minus signs, and `±0.000` without a sign."""
    assert cell(kind, value) == text


@pytest.mark.parametrize(
    "block_of",
    [
        Sentence,
        lambda text: Sentence(text, "strong"),
        lambda text: Pieces((text,)),
        lambda text: Bullets((text,)),
        lambda text: make_table(text, [text], [(text,)], 1, text),
        lambda text: make_table("t", ["c"], [(IdList((text,)),)]),
        lambda text: make_table("t", ["c"], [(Toned(text, "good"),)]),
    ],
)
def test_no_text_is_markup(block_of: Callable[[str], Any]) -> None:
    """Whatever a text holds, and wherever it stands, it opens no element and leaves no attribute."""
    harmless, hostile = (page_html([block_of(text)], label=text) for text in ("a", HOSTILE))
    assert "<img" not in hostile
    assert hostile.count("<") == harmless.count("<")
    assert 'onerror=alert(1)>"' not in hostile


def test_hidden_signs_are_shown_by_their_code() -> None:
    """A sign that turns the direction of text is shown, in an attribute too."""
    html = page_html([make_table("a\u202eb", ["c"], [("a\u202eb",)])])
    assert "a<span class=sign>U+202E</span>b" in html
    assert 'aria-label="aU+202Eb"' in html
    assert "\u202e" not in html


def test_traces_are_linked_whatever_their_ids_hold() -> None:
    """An id is quoted in the address as a script would quote it."""
    html = page_html([make_table("t", ["c"], [(IdList(("a b/ü'", "#1")),)])])
    assert 'href="#a%20b%2F%C3%BC%27"' in html
    assert 'href="#%231"' in html


def test_code_of_sentences_is_set_as_code() -> None:
    """What stands between single backticks is code, escaped; a backtick alone, or several, are signs."""
    text = "call `a <b>`, then ` or ``c``"
    expected = "call <code>a &lt;b&gt;</code>, then ` or ``c``"
    for block in (Sentence(text), Sentence(text, "strong"), Bullets((text,))):
        assert expected in page_html([block])
        assert expected in html_of(View("run", (Section("a", (block,)),)))
