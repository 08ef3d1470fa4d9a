"""`doctor`: the settings in force, where each comes from, and what is unusable."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.config import find_config, settings
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import JudgingFlags, OneJudge
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import tell
from judge_eval.cli.printing.errors import USAGE, verb
from judge_eval.given import prompt_name
from judge_eval.urls import public_url

PACKAGES = ("judge-eval", "openai", "pydantic", "tenacity", "numpy", "diskcache", "typer", "genai-prices")


@verb
def doctor(
    context: typer.Context,
    judging: OneJudge,
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Runs,
    calling: Annotated[CallingFlags, only("cache", "base_url", "timeout")],
    live: Annotated[bool, typer.Option("--live", help="Also make one call to the judge.")] = False,
) -> None:
    """Show the settings in force with their sources, and what cannot be used and why.

    Makes no call unless --live is given.
    """
    from judge_eval.backends.storing.seals import KEY_VARIABLE
    from judge_eval.cli.printing.output import say_table

    path, _ = find_config()
    sources = {"COMMANDLINE": "flag", "ENVIRONMENT": "environment", "DEFAULT_MAP": str(path)}
    rows = []
    for name in (p.name for p in context.command.params if p.name in settings()):
        value = calling.location if name == "cache" else context.params[name]
        values = value if isinstance(value, list | tuple) else [] if value is None else [value]
        shown = ", ".join(public_url(str(one)) for one in values)
        source = context.get_parameter_source(name)
        rows.append([name, shown or "(none)", sources.get(source.name if source else "", "default")])
    key = "set" if os.environ.get("OPENAI_API_KEY") else "not set"
    rows.append(["OPENAI_API_KEY", key, "environment"])
    rows.append([KEY_VARIABLE, "set" if os.environ.get(KEY_VARIABLE) else "not set", "environment"])
    say_table(["setting", "value", "source"], rows)
    tell()
    for package in PACKAGES:
        try:
            tell(f"{package} {version(package)}")
        except PackageNotFoundError:
            tell(f"{package} is not installed")
    tell()
    problems = _problems(judging, numbers, keeping.out, calling)
    if not problems and live:
        problems = _call(judging, calling)
    for problem in problems:
        tell(f"cannot be used: {problem}")
    if problems:
        raise typer.Exit(USAGE)
    tell("everything can be used" + ("" if live else " (nobody was called; --live makes one call)"))


def _problems(judging: JudgingFlags, numbers: NumbersFlags, out: Path, calling: CallingFlags) -> list[str]:
    """Try each setting by itself and gather what is wrong."""
    from judge_eval.backends.stack import create_backend, open_store
    from judge_eval.errors import ConfigError, JudgeEvalError
    from judge_eval.evaluator import DEFAULT_METRICS
    from judge_eval.judges.choose import make_judge
    from judge_eval.runs.scoring.scorer import Scorer
    from judge_eval.schema import BINARY

    def try_store() -> None:
        with closing(open_store(calling.location)) as store:
            if store.info().read_only:
                place = public_url(str(calling.location))
                raise ConfigError(f"cache {place} is read-only: only what it holds can be judged")

    def try_out() -> None:
        above = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise ConfigError(f"out {out}: {above} cannot be written")

    checks = (
        lambda: create_backend(judging.needed_model, calling.options()),
        lambda: make_judge(prompt_name(judging.prompt), judging.mode),
        lambda: Scorer(numbers.names or DEFAULT_METRICS, BINARY),
        try_store,
        try_out,
    )
    problems = []
    for check in checks:
        try:
            check()
        except JudgeEvalError as error:
            problems.append(str(error))
    return problems


def _call(judging: JudgingFlags, calling: CallingFlags) -> list[str]:
    """Ask the judge once, past the cache."""
    from judge_eval.errors import JudgeEvalError
    from judge_eval.evaluator import Evaluator
    from judge_eval.schema import Trace

    text = "The office opens at nine."
    trace = Trace.parse({"query": "When does the office open?", "reference": "At nine.", "chunks": [text]})
    options = replace(calling.options(), attempts=2)
    try:
        with Evaluator(judging.needed_model, cache=False, options=options) as evaluator:
            (result,) = evaluator.evaluate(trace).results
    except JudgeEvalError as error:
        return [str(error)]
    (outcome,) = result.outcomes
    if outcome.kind == "no_verdict":
        return [f"the judge gave no verdict: {outcome.why}: {outcome.detail}"]
    tell(f"live: the judge answered, {'relevant' if outcome.relevant else 'not relevant'}: {outcome.reason}")
    for call in result.calls:
        tell(f"live: model {call.model}, {call.input_tokens} + {call.output_tokens} tokens")
        if call.dropped:
            tell(f"live: the server would not take: {', '.join(call.dropped)}")
    return []
