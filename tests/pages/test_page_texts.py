"""Texts for people are written in one file: the scripts of the pages only put values into them."""

from __future__ import annotations

import re

import pytest

from judge_eval.pages.page import pages, web, web_files
from judge_eval.server.pages import OWN_PAGES
from judge_eval.views.page_texts import page_texts

SCRIPTS = sorted(name for name in web_files() if name.endswith(".js"))
TECHNICAL = {
    "(min-width: 900px)",
    "(prefers-color-scheme: dark)",
    '{"error": {"type", "message"}}',
    "dot bare",
    "input:not([type=checkbox]), textarea, select",
    "judge_eval theme",
    "judge_eval token",
    "noopener noreferrer",
    "reliability-title reliability-desc",
    "state warn",
}
"""Literals of several words that no person reads: media queries, selectors, classes, keys."""
_PREFIXES = ("#rank-{} .", "tr[data-run=", "M{} ", "mark {}", "tie {}", "Bearer {}", "{} · judge_eval")
_WORDS = re.compile(r"[^\W\d_]{2,}[^\w]*\s[^\w]*[^\W\d_]{2,}")


def literals(source: str) -> list[str]:
    """Return the text of every string and template literal of a script; what is put into one is `{}`."""
    texts: list[str] = []

    def code(at: int, before: str = "") -> int:
        """Read code up to its end, or to the brace that ends a place of a template."""
        depth = 0
        while at < len(source):
            sign, two = source[at], source[at : at + 2]
            if two in ("//", "/*"):
                at = source.find(*(("\n", at) if two == "//" else ("*/", at)))
            elif sign == "`":
                at = template(at + 1)
            elif sign in "\"'" or (sign == "/" and before in "(,=:[!&|?{;"):
                result = re.compile(rf"{sign}((?:\\.|\[(?:\\.|[^]\\])*\]|[^{sign}\\])*?){sign}").match(source, at)
                assert result is not None
                texts.extend([] if sign == "/" else [result[1]])
                at = result.end() - 1
            elif sign == "}" and not depth:
                return at
            depth += (sign == "{") - (sign == "}")
            before = before if sign.isspace() else sign
            at += 1
        return at

    def template(at: int) -> int:
        text = ""
        while source[at] != "`":
            if source.startswith("${", at):
                text, at = text + "{}", code(at + 2, "{") + 1
            else:
                step = 2 if source[at] == "\\" else 1
                text, at = text + source[at : at + step], at + step
        texts.append(text)
        return at

    code(0)
    return texts


def sentences(source: str) -> list[str]:
    """Return the literals of a script in which two words have a blank between them."""
    values = [text for text in literals(source) if _WORDS.search(text.replace("{}", "XX"))]
    worded = [text for text in values if re.search(r"[^\W\d_]{2,}", text)]
    return [text for text in worded if text not in TECHNICAL and not text.startswith(_PREFIXES)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_holds_no_sentence(name: str) -> None:
    """No literal of a script has two words with a blank between them, apart from technical ones."""
    assert sentences(web(name)) == []


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ('el("p", null, "nothing was found")', ["nothing was found"]),
        ("const x = `rank ${a ? 'is new' : b} of ${c}`;", ["is new", "rank {} of {}"]),
        ("// a comment with words\nel('p.note', null, `${a} ${b}`); x.replace(/two words \"/g, '')", []),
        ('`${count} traces`', ["{} traces"]),
    ],
)  # fmt: skip
def test_the_scan_sees_sentences(source: str, seen: list[str]) -> None:
    """Strings, templates and what stands inside a template are seen; comments and patterns are not."""
    assert sentences(source) == seen


@pytest.mark.slow
def test_each_text_is_asked_for_and_is_there() -> None:
    """A page has every text that its scripts ask for, and no text is left that no script asks for."""
    everything = set().union(*(asked_for(web(name)) for name in SCRIPTS))
    assert [text for text in page_texts() if not any(fits(text, name) for name in everything)] == []
    for page in (*pages().values(), *OWN_PAGES):
        texts = page.all_texts(served=page in OWN_PAGES)
        asked = asked_for(page.code())
        assert [name for name in asked if not any(fits(text, name) for text in texts)] == [], page.name


def asked_for(source: str) -> set[str]:
    """Return the names of the texts that a script asks for; `*` stands for what is put into one."""
    stems = "|".join(name.removesuffix(".js") for name in SCRIPTS)
    named = (text.replace("{}", "*") for text in literals(source))
    return {text for text in named if re.fullmatch(rf"({stems})\.(?!js$)[\w*]+", text)}


def fits(text: str, name: str) -> bool:
    """Whether a text is meant by a name, which may have `*` in it."""
    return re.fullmatch(re.escape(name).replace(r"\*", ".+"), text) is not None
