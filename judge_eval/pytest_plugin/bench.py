"""Replaying a test's cassette, with advice on how to record what it lacks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from judge_eval.errors import ConfigError, JudgeEvalError, MissError, UnknownNameError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import DEFAULT_METRICS, Evaluator
from judge_eval.judge_file import read_judge
from judge_eval.judges.judge import mode_for
from judge_eval.llm.backend import Backend, Unavailable, Wrapper
from judge_eval.llm.cassettes import Replay
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.llm.options import Options
from judge_eval.llm.stack import check_recorded
from judge_eval.pytest_plugin import PRUNER
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.judging.sources import Traces
from judge_eval.safe_text import prompt_name, read_params
from judge_eval.schema import Trace
from judge_eval.wire import Completion, Request


class Cassette(Wrapper):
    """A cassette that need not be there yet: what it lacks is an error that says how to record it.

    Messages call it `shown`, and `command` is what records it.
    """

    def __init__(self, path: Path, shown: str, command: str) -> None:
        missing = Unavailable(None, f"{shown} (the cassette does not exist)", f"record it: {command}")
        super().__init__(Replay(path) if path.exists() else missing)
        self._shown, self._command = shown, command

    def of_route(self, route: str) -> Cassette:
        """Return the part of the cassette that holds the answers of one of several judges."""
        other = copy(self)
        if isinstance(self.inner, Replay):
            other.inner = self.inner.of_route(route)
        return other

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer what is recorded, in the order of the requests."""
        return self.inner.peek(requests) if isinstance(self.inner, Replay) else [None] * len(requests)

    async def complete(self, request: Request) -> Completion:
        """Answer what is recorded; a miss names trace and chunks, and the command that records it."""
        try:
            return await self.inner.complete(request)
        except MissError:
            if not isinstance(self.inner, Replay):
                raise
            advice = f"the request is new or was changed; record it: {self._command}"
            raise MissError(self._shown, request.trace_id, request.chunk_ids, advice) from None


Models: TypeAlias = str | Backend | Mapping[str, str | Backend]
"""A model, or by route several: those of a panel or a cascade."""

SETTINGS = (
    *("model", "prompt", "mode", "judge", "judge_file", "metrics"),
    *("relevant", "evidence", "blank", "params", "base_url", "cassette"),
)
_JUDGING = ("prompt", "mode", "judge", "relevant", "evidence", "blank", "repeat", "vote")
"""The settings that an evaluator takes as they are; a judge file sets the last two."""


class Bench:
    """A judge at a test's disposal; messages say where its verdicts come from, and how to renew them."""

    def __init__(self, evaluator: Evaluator, source: str, advice: str = "") -> None:
        self.evaluator, self.source, self.advice = evaluator, source, advice

    def __call__(self, trace: Trace | Mapping[str, Any]) -> TraceResult:
        """Judge one trace; in replay mode a verdict that the cassette lacks is a `MissError`."""
        __tracebackhide__ = True
        (result,) = self.evaluate(trace).results
        return result

    def evaluate(self, data: Traces, **settings: Any) -> EvalRun:
        """Judge traces; see `Evaluator.evaluate`, and `MissError` in replay mode."""
        __tracebackhide__ = True
        try:
            return self.evaluator.evaluate(data, **settings)
        except JudgeEvalError as error:
            # The way through engine and backends helps nobody who reads a test's failure.
            raise error.with_traceback(None) from None


def fake_bench(
    request: pytest.FixtureRequest,
    opened: ExitStack,
    answers: Mapping[Any, Any] | Callable[..., Any] | str = "overlap",
    **settings: Any,
) -> Bench:
    """Make a judge that needs no network, which `opened` closes; `settings` take the place of the marker's."""
    chosen = {**settings_of(request), **_known(settings)}
    backend: str | Backend
    if isinstance(answers, str):
        backend = f"fake/{answers}"
    elif isinstance(answers, Mapping):
        backend = FakeBackend.table(answers)
    else:
        backend = FakeBackend(answers)
    evaluator = _evaluator(backend, chosen, cache=False, options=Options())
    return Bench(opened.enter_context(evaluator), "a fake judge")


@contextmanager
def open_bench(request: pytest.FixtureRequest, mode: str) -> Iterator[Bench]:
    """Make the judge of a test."""
    chosen = settings_of(request)
    path = cassette_path(request, chosen.get("cassette"))
    root = request.config.rootpath
    shown = str(path.relative_to(root) if path.is_relative_to(root) else path)
    command = f"pytest {shlex.quote(request.node.nodeid)} --judge-eval-mode=record"
    model: Models | None = chosen.get("model")
    options = Options(base_url=chosen.get("base_url"), params=dict(chosen.get("params") or {}))
    if (file := chosen.pop("judge_file", None)) and not {"model", "judge"} & chosen.keys():
        keywords = read_judge(root / file).keywords(options)
        options, model = keywords.pop("options"), keywords["model"]
        chosen = {**keywords, **chosen, "model": model}
    cache: str | bool = str(request.config.getini("judge_eval_cache")) or True
    tape = Cassette(path, shown, command)
    if mode == "replay":
        chosen, model = _replaying(chosen, options, tape, command)
        cache, options, source = False, Options(), f"replayed from {shown}"
    elif mode == "fake":
        fake = "fake/overlap"
        model = dict.fromkeys(model, fake) if isinstance(model, Mapping) else fake
        cache, options, source, command = False, Options(), "a fake judge", ""
    elif not model:
        raise ConfigError(
            f"--judge-eval-mode={mode} needs a model; set judge_eval_model in the ini "
            "file or give the marker a model, as in judge_eval(model='openai/NAME')"
        )
    elif mode == "record":
        options, source = replace(options, record=path), f"recorded to {shown}"
    else:
        source, command = f"asked of {model}", ""
    cache = False if cache == "off" else cache
    with _evaluator(model, chosen, cache=cache, options=options) as made:
        yield Bench(made, source, command)
    pruner = request.config.pluginmanager.get_plugin(PRUNER)
    if pruner is not None and isinstance(tape.inner, Replay):
        pruner.see(tape.inner)


def _replaying(
    chosen: Mapping[str, Any], options: Options, tape: Cassette, command: str
) -> tuple[dict[str, Any], Models]:
    """Return the settings and the models of a test whose judges answer from a cassette, each as recorded."""
    model, advice = chosen.get("model"), f"delete the cassette and record it again: {command}"
    if isinstance(model, Mapping):
        options = Evaluator(model, options=options, cache=False, **_judging(chosen)).options
        parts = {route: tape.of_route(route) for route in model}
        for route, named in model.items():
            check_recorded(parts[route].identity, named, options.members.get(route, options), advice)
        return dict(chosen), parts
    recorded = tape.identity
    check_recorded(recorded, model, options, advice)
    if model is None and recorded is not None:
        model = f"{recorded.provider}/{recorded.model}"
    return {**chosen, "mode": mode_for(model, chosen.get("mode"))}, tape


def settings_of(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Gather the settings of a test: its markers, the nearest first in rank, above the ini file."""
    config = request.config
    settings: dict[str, Any] = {
        name: value
        for name in ("model", "prompt", "judge_file", "base_url")
        if (value := config.getini(f"judge_eval_{name}"))
    }
    if file := config.getoption("--judge-eval-judge-file"):
        settings["judge_file"] = config.invocation_params.dir / file
    if "judge_file" in settings:
        settings.pop("model", None)
    if metrics := config.getini("judge_eval_metrics"):
        settings["metrics"] = metrics
    if params := config.getini("judge_eval_params"):
        settings["params"] = read_params(params, "judge_eval_params")
    for marker in reversed(list(request.node.iter_markers("judge_eval"))):
        if marker.args:
            raise ConfigError("the marker judge_eval takes keyword arguments only, such as prompt='support/graded'")
        settings |= _known(marker.kwargs)
    return settings


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    for name in settings:
        if name not in SETTINGS:
            raise UnknownNameError("setting of judge_eval", name, SETTINGS)
    return dict(settings)


def _judging(chosen: Mapping[str, Any]) -> dict[str, Any]:
    judging = {name: chosen[name] for name in _JUDGING if name in chosen}
    if isinstance(judging.get("prompt"), str):
        judging["prompt"] = prompt_name(judging["prompt"])
    return judging


def _evaluator(model: Models, chosen: Mapping[str, Any], *, cache: str | bool, options: Options) -> Evaluator:
    metrics = chosen.get("metrics") or DEFAULT_METRICS
    metrics = [metrics] if isinstance(metrics, str) else metrics
    return Evaluator(model, metrics=metrics, cache=cache, options=options, **_judging(chosen))


def cassette_path(request: pytest.FixtureRequest, named: str | Path | None) -> Path:
    """Return a test's cassette: beside its file, a folder a module, a file a function with all its cases."""
    folder = request.path.parent
    if named is not None:
        return folder / named
    name = request.node.originalname or request.node.name
    if request.cls is not None:
        name = f"{request.cls.__qualname__}.{name}"
    name = re.sub(r"[^\w.-]+", "_", name)
    beside = str(request.config.getini("judge_eval_cassettes")) or "cassettes"
    return folder / beside / request.path.stem / f"{name}.jsonl"
