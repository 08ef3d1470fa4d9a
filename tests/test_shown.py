"""Text that others wrote never steers what it is shown on."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.safe_text import FORMULA, logged, markdown, one_line, printable, safe_cell, web_address

STEERING = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)])) + (
    "\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068"
    "\u2069\ufeff\ufff9\ud800\udfff\U000e0041"
)
"""C0, DEL, C1; what turns direction or has no width; separators; lone surrogates; tags."""


@pytest.mark.parametrize("char", STEERING)
def test_what_steers_is_an_escape(char: str) -> None:
    """Each such character is shown as an escape; in lines of their own a new line and a tab stay."""
    assert one_line(f"a{char}b") == f"a{char!r}b".replace("'", "")
    kept = char in "\n\t"
    assert (printable(f"a{char}b") == f"a{char}b") is kept


@given(st.text(st.characters()))
def test_one_line_is_one_line(text: str) -> None:
    """Whatever the text, one line comes out, all of it printable; what was plain stays as it was."""
    shown = one_line(text)
    assert not set(shown) & set(STEERING)
    assert len(shown.splitlines()) <= 1
    assert one_line(shown) == shown
    if text.isprintable():
        assert shown == text


def test_letters_of_all_scripts_stay() -> None:
    """Other scripts, accents, emoji and hard spaces are no controls."""
    for text in ("Größe", "日本語\u3000です", "اللغة", "👍", "10\u00a0000", "क्षि"):
        assert one_line(text) == text


@pytest.mark.parametrize(
    "text", ["::error::x", "  ::set-env name=a::b", "\u00a0::stop-commands::x", "ok\n::error::x",
             "##vso[task.setvariable]x", "a ##[error]x", "##teamcity[x]"],
)  # fmt: skip
def test_no_line_of_a_log_is_a_command(text: str) -> None:
    """What a CI server would take for a command is spelled so that it does not."""
    for line in logged(text).split("\n"):
        assert not line.lstrip().startswith("::")
        assert not re.search(r"##\w*\[", line)


def test_plain_text_in_logs_stays() -> None:
    """Colons and number signs elsewhere stay: test ids, headings."""
    for text in ("tests/a.py::test_b", "## heading", "a: b", "C# [x]"):
        assert logged(text) == text


HOSTILE = [
    "@team", "x @org/team", "(@me", "é@team", "&commat;team", "&#64;team", "a@evil.example",
    "https://evil.example/x", "HTTP://evil.example", "www.evil.example", "mailto:a", "#12", "org/repo#12",
    "GH-12", "!12", "%1", "~bug", "$x$", "<img src=x onerror=y>", "<!-- x -->", "![a](b)",
    "[a](javascript:b)", "a | b", "- item", "1. item", "# head", "> quote", "/close", "=== x",
    "`code`", "**b** _i_ ~~s~~",
    "line\nother", "\x1b]52;c;eA==\x07", "\x1bc", "a\u202eb", "\u200b@team", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_is_quiet(text: str) -> None:
    """Rendered, the text is one paragraph of text: no markup, no link, no mention."""
    from markdown_it import MarkdownIt

    quiet = markdown(text)
    assert quiet.splitlines() == [quiet]
    html = MarkdownIt("gfm-like", {"linkify": False}).render(quiet)
    assert re.fullmatch(r"<p>[^<>]*</p>\n", html), html
    shown = html[3:-5].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    # GitHub looks for these in the rendered text, whatever the markup was.
    assert not re.search(r"(?:^|[^A-Za-z0-9_])@[A-Za-z0-9]", shown)
    assert not re.search(r"(?:^|\W)(?:#|GH-|!|%|~|&|\$)\w", shown), shown
    assert not re.search(r"(?i)https?://|www\.|mailto:\w", shown)
    assert not re.match(r"/\w", quiet)
    assert not set(shown) & set(STEERING.replace("\u2060", ""))


@given(st.text())
def test_a_table_keeps_its_columns(text: str) -> None:
    """Whatever stands in a cell, the row has as many columns as the head."""
    from markdown_it import MarkdownIt

    table = f"| a | b |\n|---|---|\n| {markdown(text)} | x |\n"
    html = MarkdownIt("gfm-like", {"linkify": False}).render(table)
    assert html.count("<td>") == 2
    assert html.count("<tr>") == 2


def test_metrics_stay_readable() -> None:
    """`AP@5` calls nobody and is no address."""
    for text in ("AP@5", "AP@5 is 0.5000, 0.2000 under 0.7", "fell by AP@5."):
        assert markdown(text) == text


@pytest.mark.parametrize(
    "href", ["javascript:x", "data:text/html,x", "ftp://x", "//x", "https://x>y", "https://x\\y",
             "http://x y", "https://x\u202ey", "https://x\x07", "", None],
)  # fmt: skip
def test_only_addresses_of_the_web_are_links(href: str | None) -> None:
    """Another scheme, or what could break out of an address, is none."""
    assert web_address(href) is None
    assert web_address("https://host/pull/1?a=b#c") == "https://host/pull/1?a=b#c"


@pytest.mark.parametrize("sign", FORMULA)
def test_no_cell_is_a_formula(sign: str) -> None:
    """A text that a spreadsheet computes has a `'` before it; numbers and other texts stay."""
    assert safe_cell(f'{sign}HYPERLINK("x")') == f'\'{sign}HYPERLINK("x")'
    assert safe_cell(-0.5) == -0.5
    assert safe_cell("a=b") == "a=b"
