"""The judge that a test is given, made from its marker, the ini settings and the mode."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judge_eval.backends.base import Backend
from judge_eval.backends.fake.backend import FakeBackend
from judge_eval.backends.stack import Options
from judge_eval.errors import ConfigError, JudgeEvalError, UnknownNameError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import DEFAULT_METRICS, Evaluator
from judge_eval.given import prompt_name, read_params
from judge_eval.pytest_plugin.tape import Cassette, same_judge
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.judging.sources import Traces
from judge_eval.schema import Trace

SETTINGS = (
    "model",
    "prompt",
    "mode",
    "judge",
    "metrics",
    "relevant",
    "evidence",
    "params",
    "base_url",
    "cassette",
)


class Bench:
    """A judge at a test's disposal.

    Args:
        evaluator: Who judges.
        source: Where the verdicts come from, for messages.
        advice: How to renew them; empty where that makes no sense.
    """

    def __init__(self, evaluator: Evaluator, source: str, advice: str = "") -> None:
        self.evaluator, self.source, self.advice = evaluator, source, advice

    def __call__(self, trace: Trace | Mapping[str, Any]) -> TraceResult:
        """Judge one trace.

        Raises:
            MissError: In replay mode, the cassette does not hold a verdict; the message names it.
        """
        __tracebackhide__ = True
        (result,) = self.evaluate(trace).results
        return result

    def evaluate(self, data: Traces, **settings: Any) -> EvalRun:
        """Judge traces; see `Evaluator.evaluate`.

        Raises:
            MissError: In replay mode, the cassette does not hold a verdict; the message names it.
        """
        __tracebackhide__ = True
        try:
            return self.evaluator.evaluate(data, **settings)
        except JudgeEvalError as error:
            # The way through engine and backends helps nobody who reads a test's failure.
            raise error.with_traceback(None) from None


class FakeBench:
    """Makes judges that need no network."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request, self._open = request, ExitStack()

    def __call__(
        self, answers: Mapping[Any, Any] | Callable[..., Any] | str = "overlap", **settings: Any
    ) -> Bench:
        """Make a judge.

        Args:
            answers: A table (see `FakeBackend.table`), a function (see `FakeBackend`), or a rule's name.
            settings: `prompt`, `mode`, `judge`, `metrics`, `relevant` or `evidence`, instead of the marker's.

        Raises:
            ConfigError: A setting cannot be used.
        """
        chosen = {**settings_of(self._request), **_known(settings)}
        backend: str | Backend
        if isinstance(answers, str):
            backend = f"fake/{answers}"
        elif isinstance(answers, Mapping):
            backend = FakeBackend.table(answers)
        else:
            backend = FakeBackend(answers)
        made = self._open.enter_context(_evaluator(backend, chosen, cache=False, options=Options()))
        return Bench(made, "a fake judge")

    def close(self) -> None:
        """Close every judge that was made."""
        self._open.close()


@contextmanager
def open_bench(request: pytest.FixtureRequest, mode: str) -> Iterator[Bench]:
    """Make the judge of a test.

    Raises:
        ConfigError: A setting cannot be used; in replay mode also, the cassette is another judge's.
    """
    chosen = settings_of(request)
    path = cassette_path(request, chosen.get("cassette"))
    shown = _relative(path, request.config.rootpath)
    command = f"pytest {shlex.quote(request.node.nodeid)} --judge-eval-mode=record"
    model: str | Backend | None = chosen.get("model")
    options = Options(base_url=chosen.get("base_url"), params=dict(chosen.get("params") or {}))
    cache: str | bool = str(request.config.getini("judge_eval_cache")) or True
    if mode == "replay":
        tape = Cassette(path, shown, command)
        if isinstance(model, str):
            same_judge(tape, model, options, command)
        model, cache, options, source = tape, False, Options(), f"replayed from {shown}"
    elif mode == "fake":
        model, cache, options, source, command = "fake/overlap", False, Options(), "a fake judge", ""
    elif not model:
        raise ConfigError(
            f"--judge-eval-mode={mode} asks a judge, and none is named; set judge_eval_model in the ini "
            "file or give the marker a model, as in judge_eval(model='openai/NAME')"
        )
    elif mode == "record":
        options, source = replace(options, record=path), f"recorded to {shown}"
    else:
        source, command = f"asked of {model}", ""
    cache = False if cache == "off" else cache
    with _evaluator(model, chosen, cache=cache, options=options) as made:
        yield Bench(made, source, command)


def settings_of(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Gather the settings of a test: its markers, the nearest first in rank, above the ini file.

    Raises:
        ConfigError: There is no such setting.
    """
    config = request.config
    settings: dict[str, Any] = {
        name: value
        for name in ("model", "prompt", "base_url")
        if (value := config.getini(f"judge_eval_{name}"))
    }
    if metrics := config.getini("judge_eval_metrics"):
        settings["metrics"] = metrics
    if params := config.getini("judge_eval_params"):
        settings["params"] = read_params(params, "judge_eval_params")
    for marker in reversed(list(request.node.iter_markers("judge_eval"))):
        if marker.args:
            raise ConfigError(
                "the marker judge_eval takes keyword arguments only, such as prompt='support/graded'"
            )
        settings |= _known(marker.kwargs)
    return settings


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    for name in settings:
        if name not in SETTINGS:
            raise UnknownNameError("setting of judge_eval", name, SETTINGS)
    return dict(settings)


def _evaluator(
    model: str | Backend, chosen: Mapping[str, Any], *, cache: str | bool, options: Options
) -> Evaluator:
    judging = {
        name: chosen[name] for name in ("prompt", "mode", "judge", "relevant", "evidence") if name in chosen
    }
    if isinstance(judging.get("prompt"), str):
        judging["prompt"] = prompt_name(judging["prompt"])
    metrics = chosen.get("metrics") or DEFAULT_METRICS
    metrics = [metrics] if isinstance(metrics, str) else metrics
    return Evaluator(model, metrics=metrics, cache=cache, options=options, **judging)


def cassette_path(request: pytest.FixtureRequest, named: str | Path | None) -> Path:
    """Return where a test's cassette is: beside its file, a folder a module, a file a test function.

    The cases of a parametrised test share one: the keys inside tell them apart.
    """
    folder = request.path.parent
    if named is not None:
        return folder / named
    name = request.node.originalname or request.node.name
    if request.cls is not None:
        name = f"{request.cls.__qualname__}.{name}"
    name = re.sub(r"[^\w.-]+", "_", name)
    beside = str(request.config.getini("judge_eval_cassettes")) or "cassettes"
    return folder / beside / request.path.stem / f"{name}.jsonl"


def _relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
