"""Cassettes of tests whose judge is a decision model, a panel or a cascade."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import judge_eval.evaluator  # noqa: F401  inner runs forget what they import first; NumPy must not be
from tests.support.blocks import PLUGIN
from tests.support.chat_server import ChatServer
from tests.support.decision_server import DecisionServer

pytest_plugins = ["pytester"]

QUIET = ("-p", "no:cacheprovider", "-s")
HEAD = """
import pytest
from judge_eval import Member, Panel, Pointwise
from judge_eval.judges.cascade import cascade_of

TRACE = {"id": "q1", "query": "Which?", "reference": "San Marzano.", "chunks": ["San Marzano.", "Basil."]}
"""
TEST = """
def test_sauce(judge):
    run = judge.evaluate([TRACE])
    m, r = run.manifest, run.results[0]
    print("judged", m.judge, m.backend, m.aggregates, r.outcomes, r.votes)
"""
KINDS = {
    "decision": "model='decisions/m', params={'dialect': 'openai'}, base_url='DECIDING'",
    "panel": (
        "model={'a': 'openai/a', 'b': 'openai/b'}, "
        "judge=Panel([Member('x', Pointwise(), 'a'), Member('y', Pointwise(), 'b')])"
    ),
    "cascade": (
        "model={'cheap': 'openai/a', 'strong': 'openai/b'}, judge=cascade_of('openai/a', 'openai/b', threshold=0.9)"
    ),
}


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A server of models that write, which tests ask unless they name another."""
    with ChatServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-plugin")
        yield server


def judged(result: pytest.RunResult) -> list[str]:
    """Return what the tests printed of their runs."""
    return [line.partition("judged ")[2] for line in result.outlines if "judged {" in line]


@pytest.mark.slow
def test_tests_replay_what_they_recorded(
    pytester: pytest.Pytester, chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same judge asks in the same mode, each model answers for itself, and nobody is called.

    A panel of other models than the recorded ones is refused.
    """
    monkeypatch.setenv("JUDGE_EVAL_CACHE", str(pytester.path / "cache"))
    with DecisionServer() as decides:
        tests = [
            f"\n@pytest.mark.judge_eval({marker})".replace("DECIDING", decides.url) + TEST.replace("sauce", kind)
            for kind, marker in KINDS.items()
        ]
        pytester.makepyfile(test_pizza=HEAD + "".join(tests))
        recorded = pytester.runpytest_inprocess(*PLUGIN, *QUIET, "--judge-eval-mode=record")
        recorded.assert_outcomes(passed=3)
        paid = chat.counts["calls"] + decides.counts["calls"]
        pytester.makepyfile(test_pizza=(HEAD + "".join(tests)).replace("'b': 'openai/b'", "'b': 'openai/c'"))
        replayed = pytester.runpytest_inprocess(*PLUGIN, *QUIET)
        replayed.assert_outcomes(passed=2, errors=1)
        assert chat.counts["calls"] + decides.counts["calls"] == paid > 0
    assert "holds the verdicts of openai/b" in replayed.stdout.str()
    seen, again = judged(recorded), judged(replayed)
    assert len(seen) == 3
    assert again == [line for line in seen if "'mode': 'panel'" not in line]


CASCADE_FILE = 'threshold = 0.9\n[cheap]\nmodel = "openai/a"\n[strong]\nmodel = "openai/b"\n'


@pytest.mark.parametrize("text", ['model = "openai/a"\nprompt = "support/graded"\nrepeat = 2\n', CASCADE_FILE])
def test_a_judge_file_judges_the_tests(
    text: str, pytester: pytest.Pytester, chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting or the flag names a judge file; what it judged is replayed; a marker overrides it."""
    monkeypatch.setenv("JUDGE_EVAL_CACHE", str(pytester.path / "cache"))
    pytester.path.joinpath("judge.toml").write_text(text)
    pytester.makepyfile(test_pizza=HEAD + TEST)
    flag = "--judge-eval-judge-file=judge.toml"
    recorded = pytester.runpytest_inprocess(*PLUGIN, *QUIET, flag, "--judge-eval-mode=record")
    recorded.assert_outcomes(passed=1)
    paid = chat.counts["calls"]
    pytester.makeini("[pytest]\njudge_eval_model = openai/other\njudge_eval_judge_file = judge.toml\n")
    replayed = pytester.runpytest_inprocess(*PLUGIN, *QUIET)
    replayed.assert_outcomes(passed=1)
    assert chat.counts["calls"] == paid > 0
    assert judged(recorded) == judged(replayed) != []
    pytester.makepyfile(test_pizza=HEAD + "@pytest.mark.judge_eval(model='openai/c')" + TEST)
    marked = pytester.runpytest_inprocess(*PLUGIN, *QUIET, "--judge-eval-mode=live")
    marked.assert_outcomes(passed=1)
    assert "openai/c" in judged(marked)[0] or "'model': 'c'" in judged(marked)[0]
