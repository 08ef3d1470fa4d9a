"""`doctor`: the settings in force, where each comes from, and what is unusable."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import options as o
from judge_eval.cli.flags import values
from judge_eval.cli.flags.config import find_config
from judge_eval.cli.printing.errors import USAGE, verb

PACKAGES = ("judge-eval", "openai", "pydantic", "tenacity", "numpy", "diskcache", "typer", "genai-prices")


@verb
def doctor(
    context: typer.Context,
    model: o.Model = None,
    prompt: o.Prompt = "support/binary",
    mode: o.ModeOption = o.Mode.pointwise,
    metrics: o.Metrics = None,
    out: o.Out = Path("runs"),
    cache: o.Cache = None,
    base_url: o.BaseUrl = None,
    timeout: o.Timeout = 120.0,
    live: Annotated[bool, typer.Option("--live", help="Also make one call to the judge.")] = False,
) -> None:
    """Show the settings in force with their sources, and what cannot be used and why.

    Makes no call unless --live is given.
    """
    from judge_eval.cli.printing.output import console, table
    from judge_eval.evaluator import default_cache

    path, _ = find_config()
    names = ("model", "prompt", "mode", "metrics", "out", "cache", "base_url", "timeout")
    sources = {
        "COMMANDLINE": "flag",
        "ENVIRONMENT": "environment",
        "DEFAULT_MAP": str(path),
        "DEFAULT": "default",
    }
    rows = []
    for name in names:
        value = context.params[name]
        if name == "cache" and value is None:
            value = default_cache()
        shown = ", ".join(value) if isinstance(value, list | tuple) else "" if value is None else str(value)
        source = context.get_parameter_source(name)
        rows.append([name, _hide(shown) or "(none)", sources.get(source.name if source else "", "default")])
    key = "set" if os.environ.get("OPENAI_API_KEY") else "not set"
    rows.append(["OPENAI_API_KEY", key, "environment"])
    console().print(table(["setting", "value", "source"], rows))
    print()
    for package in PACKAGES:
        try:
            print(f"{package} {version(package)}")
        except PackageNotFoundError:
            print(f"{package} is not installed")
    print()
    told = _problems(model, prompt, mode, metrics, out, cache or default_cache(), base_url)
    if not told and live:
        told = _call(model, base_url, timeout)
    for line in told:
        print(f"cannot be used: {line}")
    if told:
        raise typer.Exit(USAGE)
    print("everything can be used" + ("" if live else " (nobody was called; --live makes one call)"))


def _problems(
    model: str | None,
    prompt: str,
    mode: o.Mode,
    metrics: list[str] | None,
    out: Path,
    cache: str | Path,
    base_url: str | None,
) -> list[str]:
    """Try each setting by itself and gather what is wrong."""
    from judge_eval.backends.stack import Options, create, open_store
    from judge_eval.errors import ConfigError, JudgeEvalError
    from judge_eval.evaluator import DEFAULT_METRICS
    from judge_eval.judges.choose import make_judge
    from judge_eval.runs.scoring.scorer import Scorer
    from judge_eval.schema import BINARY

    def try_store() -> None:
        store = open_store(cache)
        try:
            if store.info().read_only:
                raise ConfigError(f"cache {_hide(str(cache))} is read-only: only what it holds can be judged")
        finally:
            store.close()

    def try_out() -> None:
        place = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
        if not place.is_dir() or not os.access(place, os.W_OK):
            raise ConfigError(f"out {out}: {place} cannot be written")

    checks = (
        lambda: create(values.need_model(model), Options(base_url=base_url)),
        lambda: make_judge(
            values.prompt_name(prompt), "listwise" if mode is o.Mode.listwise else "pointwise"
        ),
        lambda: Scorer(values.split_metrics(metrics) or DEFAULT_METRICS, BINARY),
        try_store,
        try_out,
    )
    told = []
    for check in checks:
        try:
            check()
        except JudgeEvalError as error:
            told.append(str(error))
    return told


def _call(model: str | None, base_url: str | None, timeout: float) -> list[str]:
    """Ask the judge once, past the cache."""
    from judge_eval.backends.stack import Options
    from judge_eval.errors import JudgeEvalError
    from judge_eval.evaluator import Evaluator
    from judge_eval.schema import Trace

    text = "The office opens at nine."
    trace = Trace.parse({"query": "When does the office open?", "reference": "At nine.", "chunks": [text]})
    options = Options(base_url=base_url, timeout=timeout, attempts=2)
    try:
        with Evaluator(values.need_model(model), cache=False, options=options) as evaluator:
            (result,) = evaluator.evaluate(trace).results
    except JudgeEvalError as error:
        return [str(error)]
    (outcome,) = result.outcomes
    if outcome.kind == "no_verdict":
        return [f"the judge gave no verdict: {outcome.why}: {outcome.detail}"]
    print(f"live: the judge answered, {'relevant' if outcome.relevant else 'not relevant'}: {outcome.reason}")
    for call in result.calls:
        print(f"live: model {call.model}, {call.input_tokens} + {call.output_tokens} tokens")
        if call.dropped:
            print(f"live: the server would not take: {', '.join(call.dropped)}")
    return []


def _hide(text: str) -> str:
    """Leave credentials out of a URL."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return text
    host = rest.rpartition("@")[2]
    return f"{scheme}://{host.partition('?')[0]}"
