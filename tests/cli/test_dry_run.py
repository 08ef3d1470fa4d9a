from __future__ import annotations

import re
import sys

import pytest

from tests.support.chat_server import ChatServer
from tests.support.command import FIXTURES
from tests.support.desk import Desk

DATA = FIXTURES / "docs_qa.jsonl"
FAKE = ("--model", "fake/overlap")


def tokens(text: str, line: str) -> int:
    """Return the number in a line."""
    result = re.search(line.replace("N", r"([\d,]+)"), text)
    assert result, text
    return int(result[1].replace(",", ""))


def plan(desk: Desk, *flags: object) -> str:
    """Return what a dry run prints."""
    result = desk("run", DATA, "--dry-run", *flags, OPENAI_API_KEY="sk-none")
    assert result.code == 0, result.err
    return result.out


def test_without_answers_to_learn_from_a_third_of_the_cap_is_named(desk: Desk) -> None:
    """With an empty cache the likely figure is a share of the worst case, and says so."""
    answers = plan(desk, *FAKE)
    most = tokens(answers, "at most N output tokens")
    assert tokens(answers, "about N output tokens are likely") == most // 3
    assert "(a third of the cap, since no earlier answers are known)" in answers
    assert "cost: nothing, the judge calls no server" in answers


@pytest.mark.slow
def test_answers_to_the_same_data_are_learned_from_first(desk: Desk) -> None:
    """A part that is judged tells what the rest will take, within a tenth, and on how many answers."""
    assert desk("run", DATA, *FAKE, "--limit", "20", "-q").code == 0
    answers = plan(desk, *FAKE)
    assert "(as the 100 answers to these data in the cache)" in answers
    likely = tokens(answers, "about N output tokens are likely")
    output = desk("run", DATA, *FAKE, "--out", "rest").out
    assert likely == pytest.approx(tokens(output, r"\+ N tokens"), rel=0.1)


def test_answers_of_a_server_are_learned_from(desk: Desk) -> None:
    """Answers of a real client over HTTP, kept in the cache, tell what the rest will take."""
    with ChatServer() as server:
        flags = ("--model", "openai/some-model", "--base-url", server.url)
        done = desk("run", DATA, *flags, "-q", "--limit", "8", "--max-failures", "999", OPENAI_API_KEY="sk-1")
        assert done.code == 0, done.err
        answers = plan(desk, *flags)
    assert re.search(r"\(as the \d+ answers to these data in the cache\)", answers), answers


@pytest.mark.foreign
def test_both_costs_stand_beside_each_other(desk: Desk) -> None:
    """Where the price is known the likely cost and the worst case are said; elsewhere why not."""
    answers = plan(desk, "--model", "openai/gpt-4.1-mini")
    likely, most = (float(each) for each in re.findall(r"\$(\d+\.\d\d)", answers))
    assert 0 < likely < most
    assert "if every answer were as long as its cap" in answers
    assert "cost: unknown, since the price of 'no-such-model' is not known" in plan(
        desk, "--model", "openai/no-such-model"
    )


def test_what_is_at_hand_costs_nothing(desk: Desk) -> None:
    """Where the cache holds every answer there is nothing to estimate."""
    assert desk("run", DATA, *FAKE, "-q").code == 0
    assert "cost: nothing, every answer is in the cache" in plan(desk, *FAKE)


def test_without_the_price_list_it_is_said_how_to_get_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named where it is missing, with the command that brings it."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    answers = plan(desk, "--model", "openai/gpt-4.1-mini")
    assert "cost: unknown, since no price list is installed; " in answers
    assert "pip install 'context-judge[cost]'" in answers


def test_a_prompt_too_short_for_the_cache_of_the_server_is_named(desk: Desk) -> None:
    """A prompt shorter than what Anthropic's cache takes is reported; other servers' plans do not say it."""
    result = desk("run", DATA, "--dry-run", "--model", "anthropic/some", ANTHROPIC_API_KEY="sk-none")
    assert result.code == 0, result.err
    fixed = tokens(result.out, "the fixed part of the prompt has about N tokens, less than 512")
    assert 0 < fixed < 512
    assert "prompt cache" not in plan(desk, "--model", "openai/some")
