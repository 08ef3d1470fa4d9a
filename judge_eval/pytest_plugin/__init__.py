"""Judging inside a test suite, from cassettes unless told otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from judge_eval.eval_run import EvalRun
    from judge_eval.pytest_plugin.bench import Bench

PRUNER = "judge_eval_pruner"
"""The name of the plugin that sees what is asked of cassettes, if they are pruned."""
PROPERTY = "judge_eval"
"""The name of the user property in which a test's scores travel to the summary, across processes too."""
# Every test run of every project that has this package installed imports this module: nothing heavy here.
MODES = ("replay", "record", "live", "fake")
_INI = {
    "judge_eval_mode": "replay, record, live or fake: the default of --judge-eval-mode",
    "judge_eval_model": "the model of the modes record and live; cassettes must hold answers of this model",
    "judge_eval_prompt": "the prompt's id, or file:PATH (default: support/binary)",
    "judge_eval_judge_file": "who judges, as a judge file: the default of --judge-eval-judge-file",
    "judge_eval_base_url": "the address of an OpenAI-compatible server",
    "judge_eval_cache": "the folder of the cache in the modes record and live; `off` for none",
    "judge_eval_cassettes": "the folder of cassettes beside each test file (default: cassettes)",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and ini settings."""
    group = parser.getgroup("judge_eval", "judging retrieved chunks with an LLM")
    group.addoption(
        "--judge-eval-mode",
        choices=MODES,
        default=None,
        help="replay: answer only from cassettes (default); record: ask and write cassettes; "
        "live: ask, write none; fake: an offline judge",
    )
    group.addoption(
        "--judge-eval-prune",
        action="store_true",
        help="after all tests have passed, remove from their cassettes what none of them asked for",
    )
    group.addoption("--judge-eval-judge-file", metavar="FILE", help="who judges: a model, a panel or a cascade")
    for name, text in _INI.items():
        parser.addini(name, text, default="")
    parser.addini("judge_eval_metrics", "the default metrics of a test", "args", default=[])
    parser.addini("judge_eval_params", "NAME=VALUE sent with every request", "linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, where results are gathered, the summary."""
    config.addinivalue_line(
        "markers",
        "judge_eval(model, prompt, mode, judge, judge_file, metrics, relevant, evidence, blank, params, "
        "base_url, cassette): how the traces of this test are judged",
    )
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Summary(), "judge_eval_summary")
        if config.getoption("--judge-eval-prune"):
            from judge_eval.pytest_plugin.pruning import Pruner

            config.pluginmanager.register(Pruner(config, _mode(config)), PRUNER)


class _Summary:
    """Gathers what tests have judged and prints it at the end; silent where none has."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            for name, value in report.user_properties:
                if name == PROPERTY:
                    self.rows.append({"test": report.nodeid, **json.loads(str(value))})

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if self.rows:
            from judge_eval.pytest_plugin.assertions import summary_lines

            terminalreporter.section(f"judge_eval ({_mode(config)})")
            for line in summary_lines(self.rows):
                terminalreporter.write_line(line)


def _mode(config: pytest.Config) -> str:
    mode = str(config.getoption("--judge-eval-mode") or config.getini("judge_eval_mode") or "replay")
    if mode not in MODES:
        raise pytest.UsageError(f"judge_eval_mode: no mode {mode!r}; use one of {', '.join(MODES)}")
    return mode


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Judges this test's traces: `judge(trace)` returns a `TraceResult`, `judge.evaluate(data)` a run.

    In replay mode a verdict that the test's cassette does not hold raises `MissError`.
    """
    from judge_eval.pytest_plugin.bench import open_bench

    with open_bench(request, _mode(request.config)) as bench:
        yield bench


@pytest.fixture
def eval_run(judge: Bench) -> Callable[..., EvalRun]:
    """Judge a dataset: `eval_run("traces.jsonl")` or `eval_run(traces)` returns an `EvalRun`."""
    return judge.evaluate


@pytest.fixture
def fake_judge(request: pytest.FixtureRequest) -> Iterator[Callable[..., Bench]]:
    """Judge without a network in every mode: `fake_judge({"c1": True, "c2": False})(trace)`.

    The answers are a table by chunk id, a function as `FakeBackend` takes it, or a rule's name
    (default: `overlap`); keyword arguments are those of the marker.
    """
    from judge_eval.pytest_plugin.bench import fake_bench

    with ExitStack() as opened:
        yield partial(fake_bench, request, opened)


@pytest.fixture
def assert_metrics(request: pytest.FixtureRequest) -> Callable[..., EvalRun]:
    """Assert the least values of metrics: `assert_metrics(trace, {"AP@5": 0.8, "MRR": 0.5})`.

    The first argument is what `judge.evaluate` takes, or a run. Of several traces the mean counts. The value is the
    greatest of a metric of which less is better. `judge` is who judges, by default the fixture `judge`. A failed
    verdict fails the assertion: what was not judged cannot pass. It returns the run with the metrics asked for.
    """
    from judge_eval.pytest_plugin import assertions

    return partial(assertions.assert_metrics, request)


@pytest.fixture
def assert_context_precision(request: pytest.FixtureRequest) -> Callable[..., EvalRun]:
    """Assert the least average precision: `assert_context_precision(trace, ap=0.8, k=5)`; all ranks without `k`."""
    from judge_eval.pytest_plugin import assertions

    return partial(assertions.assert_context_precision, request)
