"""The pytest plugin, driven by real pytest runs in folders of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import judge_eval.evaluator  # noqa: F401  inner runs forget what they import first; NumPy must not be
from tests.support.blocks import PLUGIN, ROOT
from tests.support.chat_server import ChatServer

pytest_plugins = ["pytester"]

TRACE = """
TRACE = {
    "id": "q1",
    "query": "Which tomatoes go into the sauce?",
    "reference": "San Marzano tomatoes.",
    "chunks": ["The oven must reach 450 degrees.", "The sauce is made of San Marzano tomatoes."],
}
"""
LOW = f"""
{TRACE}
def test_sauce(assert_context_precision):
    assert_context_precision(TRACE, ap=0.8)
"""

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest on the pytester's folder, against a dead address unless a test gives another."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-plugin")
    monkeypatch.setenv("JUDGE_EVAL_CACHE", str(pytester.path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def start(*arguments: str, apart: bool = False) -> pytest.RunResult:
        method = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        return method(*PLUGIN, f"--rootdir={pytester.path}", "-p", "no:cacheprovider", *arguments)

    return start


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, run: Run) -> Iterator[ChatServer]:
    """A judge on loopback to record from."""
    with ChatServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def _record(pytester: pytest.Pytester, run: Run) -> Path:
    """Record the cassette of `test_sauce` and return it."""
    pytester.makeini("[pytest]\njudge_eval_model = openai/some-model\n")
    pytester.makepyfile(test_pizza=LOW.replace("0.8", "0.0"))
    run("--judge-eval-mode=record").assert_outcomes(passed=1)
    return pytester.path / "cassettes" / "test_pizza" / "test_sauce.jsonl"


@pytest.mark.slow
def test_a_run_without_judging_says_nothing(pytester: pytest.Pytester, run: Run) -> None:
    """Where no test judges, the plugin prints nothing and loads none of the package's machinery."""
    pytester.makepyfile(
        """
        import sys

        def test_plain():
            heavy = {"judge_eval.evaluator", "judge_eval.schema", "pydantic", "numpy", "openai", "rich"}
            assert not heavy & set(sys.modules)
        """
    )
    result = run(apart=True)
    result.assert_outcomes(passed=1)
    assert "judge_eval" not in result.stdout.str()


def test_a_replay_without_a_cassette_names_the_missing_verdict(pytester: pytest.Pytester, run: Run) -> None:
    """Replay is the default, and asks nobody: the error names trace, chunk and how to record it."""
    pytester.makepyfile(test_pizza=LOW)
    result = run()
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert "for trace 'q1', chunk 'c1'" in output
    assert "pytest test_pizza.py::test_sauce --judge-eval-mode=record" in output
    assert not (pytester.path / "cassettes").exists()


def test_record_then_replay_without_the_server(
    pytester: pytest.Pytester, run: Run, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was recorded answers later runs, though nobody listens any more; the summary shows the score."""
    path = _record(pytester, run)
    assert server.stats["calls"] == 2
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["chunk_ids"] for row in rows[1:]] == [["c1"], ["c2"]]
    assert "sk-plugin" not in path.read_text()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    result = run()
    result.assert_outcomes(passed=1)
    assert server.stats["calls"] == 2
    result.stdout.fnmatch_lines(["*judge_eval (replay)*", "test_pizza.py::test_sauce*AP*>= 0.0000*2*"])


@pytest.mark.slow
def test_a_changed_chunk_is_a_miss_until_it_is_recorded_again(
    pytester: pytest.Pytester, run: Run, server: ChatServer
) -> None:
    """A verdict on another text never answers; recording again asks for the changed chunk alone."""
    path = _record(pytester, run)
    pytester.makepyfile(test_pizza=LOW.replace("0.8", "0.0").replace("450", "480"))
    result = run()
    result.assert_outcomes(failed=1)
    assert "new or was changed" in result.stdout.str()
    run("--judge-eval-mode=record").assert_outcomes(passed=1)
    assert server.stats["calls"] == 3
    run().assert_outcomes(passed=1)
    assert "480" in path.read_text()


@pytest.mark.slow
def test_answers_that_no_test_asks_for_are_pruned(pytester: pytest.Pytester, run: Run, server: ChatServer) -> None:
    """Only on request, if all tests ran and passed; what is asked for stays and replays."""
    path = _record(pytester, run)
    pytester.makepyfile(test_pizza=LOW.replace("0.8", "0.0").replace("450", "480"))
    run("--judge-eval-mode=record").assert_outcomes(passed=1)
    assert len(path.read_text().splitlines()) == 4
    assert "nothing was pruned" in run("--judge-eval-prune", "-k", "nothing").stdout.str()
    assert len(path.read_text().splitlines()) == 4
    assert "1 answer removed" in run("--judge-eval-prune").stdout.str()
    assert "450" not in path.read_text()
    assert "every answer was asked for" in run("--judge-eval-prune").stdout.str()
    for more in (("--judge-eval-mode=record",), ("test_pizza.py::test_sauce",)):
        assert run("--judge-eval-prune", *more).ret == pytest.ExitCode.USAGE_ERROR


def test_a_misspelt_metric_costs_no_call(pytester: pytest.Pytester, run: Run, server: ChatServer) -> None:
    """The names of metrics are read before anything is judged."""
    pytester.makepyfile(
        test_named="""
        def test_named(assert_metrics):
            chunks = [{"id": "c1", "text": "Tomatoes."}]
            assert_metrics({"id": "q", "query": "Which?", "reference": "Tomatoes.", "chunks": chunks}, {"APP@5": 0.8})
        """
    )
    result = run("test_named.py", "--judge-eval-mode=record")
    result.assert_outcomes(failed=1)
    assert "APP" in result.stdout.str()
    assert "calls" not in server.stats


@pytest.mark.slow
def test_another_model_does_not_replay(pytester: pytest.Pytester, run: Run, server: ChatServer) -> None:
    """A cassette of one model never answers for another; the message says who is who."""
    _record(pytester, run)
    pytester.makeini("[pytest]\njudge_eval_model = openai/other-model\n")
    result = run()
    result.assert_outcomes(failed=1)
    assert "holds the verdicts of openai/some-model" in result.stdout.str()


def test_a_low_score_fails_with_strip_reasons_and_command(
    pytester: pytest.Pytester, run: Run, server: ChatServer
) -> None:
    """The failure shows the score, the rank strip, every reason, and how to record the verdicts again."""
    path = _record(pytester, run)
    lines = path.read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row, relevant in zip(rows[1:], (False, True), strict=True):
        quote = "San Marzano" if relevant else ""
        row["reply"] = json.dumps(
            {
                "evidence": quote,
                "reason": f"said of {row['chunk_ids'][0]}",
                "instruction_in_chunk": False,
                "verdict": relevant,
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pytester.makepyfile(test_pizza=LOW)
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: AP is 0.5000, wanted at least 0.8000: fails",
            "*trace q1  .+  AP 0.5000",
            "*1 . c1  not relevant (grade 0): said of c1",
            "*2 + c2  relevant (grade 1): said of c2",
            "*verdicts: replayed from cassettes/test_pizza/test_sauce.jsonl",
            "*record them again: pytest test_pizza.py::test_sauce --judge-eval-mode=record",
            "test_pizza.py::test_sauce*AP*0.5000*>= 0.8000*FAILED",
        ]
    )


def test_a_failed_verdict_never_passes(pytester: pytest.Pytester, run: Run) -> None:
    """Where the judge refuses, the assertion fails even if it wants nothing: a failure is not a score."""
    pytester.makepyfile(
        f"""
        {TRACE.replace(chr(10), chr(10) + "        ")}
        def test_refused(fake_judge, assert_metrics):
            assert_metrics(TRACE, {{"AP@5": 0.0}}, judge=fake_judge("refused"))
        """
    )
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AP@5 is none*fails", "*2 verdicts failed*refused 2*", "*trace q1  !!*"])


def test_the_fake_judge_takes_tables_functions_and_rules(pytester: pytest.Pytester, run: Run) -> None:
    """`fake_judge` answers without a network and without a cassette, in every mode."""
    pytester.makepyfile(
        f"""
        {TRACE.replace(chr(10), chr(10) + "        ")}
        def test_table(fake_judge):
            result = fake_judge({{"c1": True, "c2": False}}, metrics=["RR"])(TRACE)
            assert result.scores == {{"RR": 1.0}}

        def test_function(fake_judge):
            seen = []
            def answer(request):
                seen.append(request.chunk_ids)
                return '{{"evidence": "", "reason": "", "instruction_in_chunk": false, "verdict": false}}'
            assert fake_judge(answer)(TRACE).failed == 0
            assert len(seen) == 2

        def test_rule(fake_judge, assert_context_precision):
            run = assert_context_precision(TRACE, ap=0.5, k=2, judge=fake_judge())
            assert run["AP@2"] == 0.5
        """
    )
    run("--judge-eval-mode=live").assert_outcomes(passed=3)


def test_fake_mode_needs_no_cassette_and_no_model(pytester: pytest.Pytester, run: Run) -> None:
    """In fake mode the offline stand-in answers for the judge, and nothing is written."""
    pytester.makepyfile(
        f"""
        import pytest
        {TRACE.replace(chr(10), chr(10) + "        ")}
        @pytest.mark.judge_eval(metrics=["NDCG@5", "RR"], prompt="support/graded")
        def test_eval_run(eval_run):
            run = eval_run([TRACE])
            assert list(run.aggregates) == ["NDCG@5", "RR"]
            assert run.manifest.judge["prompt"]["id"] == "support/graded"
        """
    )
    run("--judge-eval-mode=fake").assert_outcomes(passed=1)
    assert not (pytester.path / "cassettes").exists()
    assert not (pytester.path / "cache").exists()


def test_a_marker_may_bring_a_judge(pytester: pytest.Pytester, run: Run) -> None:
    """A judge of one's own, or an installed one by name, takes the place of prompt and mode."""
    pytester.makepyfile(
        f"""
        import pytest
        from judge_eval import Listwise
        {TRACE.replace(chr(10), chr(10) + "        ")}
        @pytest.mark.judge_eval(judge=Listwise("listwise/support/binary"))
        def test_own(eval_run):
            assert eval_run(TRACE).manifest.judge["mode"] == "listwise"

        @pytest.mark.judge_eval(judge="nobody")
        def test_unknown(eval_run):
            pass
        """
    )
    result = run("--judge-eval-mode=fake")
    result.assert_outcomes(passed=1, errors=1)
    assert "no judge 'nobody'" in result.stdout.str()


def test_live_and_record_need_a_model(pytester: pytest.Pytester, run: Run) -> None:
    """There is no default model: asking without one says where to name it."""
    pytester.makepyfile(test_pizza=LOW)
    result = run("--judge-eval-mode=live")
    result.assert_outcomes(failed=1)
    assert "judge_eval_model" in result.stdout.str()


def test_live_asks_and_writes_no_cassette(pytester: pytest.Pytester, run: Run, server: ChatServer) -> None:
    """Live mode asks the judge that the marker names."""
    marked = LOW.replace("def test_sauce", "import pytest\n@pytest.mark.judge_eval(model='openai/m')\ndef test_sauce")
    pytester.makepyfile(test_pizza=marked.replace("0.8", "0.0"))
    run("--judge-eval-mode=live").assert_outcomes(passed=1)
    assert server.stats["calls"] == 2
    assert not (pytester.path / "cassettes").exists()


@pytest.mark.parametrize(
    ("marker", "told"), [("promt='x'", "did you mean 'prompt'"), ("'support/graded'", "keyword arguments only")]
)
def test_a_wrong_marker_is_an_error(pytester: pytest.Pytester, run: Run, marker: str, told: str) -> None:
    """A marker that cannot be understood ends the test with advice."""
    marked = LOW.replace("def test_sauce", f"import pytest\n@pytest.mark.judge_eval({marker})\ndef test_sauce")
    pytester.makepyfile(test_pizza=marked)
    result = run("--judge-eval-mode=fake")
    assert result.ret == 1
    assert told in result.stdout.str()


def test_an_unknown_mode_in_the_ini_file_is_a_usage_error(pytester: pytest.Pytester, run: Run) -> None:
    """A mode that does not exist is never taken for replay."""
    pytester.makeini("[pytest]\njudge_eval_mode = relive\n")
    pytester.makepyfile(test_pizza=LOW)
    result = run()
    assert result.ret != 0
    assert "no mode 'relive'" in result.stdout.str() + result.stderr.str()


@pytest.mark.slow
def test_works_under_xdist(pytester: pytest.Pytester, run: Run, server: ChatServer) -> None:
    """Several processes record into one cassette and replay from it; the summary gathers from all."""
    pytester.makeini("[pytest]\njudge_eval_model = openai/some-model\n")
    pytester.makepyfile(
        test_many=f"""
        import pytest
        {TRACE.replace(chr(10), chr(10) + "        ")}
        @pytest.mark.parametrize("number", range(4))
        def test_trace(assert_metrics, number):
            assert_metrics({{**TRACE, "id": f"q{{number}}", "query": f"Question {{number}}?"}}, {{"RR": 0.0}})
        """
    )
    run("-n2", "--judge-eval-mode=record", apart=True).assert_outcomes(passed=4)
    assert server.stats["calls"] == 8
    result = run("-n2", apart=True)
    assert server.stats["calls"] == 8
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines([f"test_many.py::test_trace[[]{n}[]]*RR*" for n in range(4)])
    (path,) = (pytester.path / "cassettes").rglob("*.jsonl")
    assert len(path.read_text().splitlines()) == 9
