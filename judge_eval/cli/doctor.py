"""`doctor`: the settings in force, where each comes from, and what is unusable."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.common import Json
from judge_eval.cli.flags.config import find_config, settings
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import JudgingFlags, OneJudge
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import BAD, GOOD, give_json, tell
from judge_eval.cli.printing.errors import USAGE, verb
from judge_eval.errors import DISTRIBUTION
from judge_eval.given import prompt_name
from judge_eval.shown import one_line
from judge_eval.urls import public_url

PACKAGES = (DISTRIBUTION, "openai", "pydantic", "tenacity", "numpy", "diskcache", "typer", "genai-prices")


@verb
def doctor(
    context: typer.Context,
    judging: OneJudge,
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Runs,
    calling: Annotated[CallingFlags, only("cache", "base_url", "timeout", "param")],
    live: Annotated[bool, typer.Option("--live", help="Also make one call to the judge.")] = False,
    json_: Json = False,
) -> None:
    """Show the settings in force with their sources, and what cannot be used and why.

    Makes no call unless --live is given. Exits with 2 where something cannot be used.

    Examples:
    judge-eval doctor
    judge-eval doctor --model openai/NAME --live
    judge-eval doctor --json
    """
    rows = _settings(context, calling)
    versions = {package: _version(package) for package in PACKAGES}
    problems = _problems(judging, numbers, keeping.out, calling)
    answered: list[str] = []
    if not problems and live:
        problems, answered = _call(judging, calling)
    if json_:
        told = {
            "settings": [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows],
            "packages": versions,
            "problems": problems,
            "live": answered,
            "usable": not problems,
        }
        give_json(json.dumps(told, indent=2))
    else:
        _show(rows, versions, problems, answered, live)
    if problems:
        raise typer.Exit(USAGE)


def _settings(context: typer.Context, calling: CallingFlags) -> list[list[str | None]]:
    """Return name, value (None where there is none) and source of each setting."""
    from judge_eval.backends.storing.seals import KEY_VARIABLE
    from judge_eval.evaluator import DEFAULT_METRICS

    path, _ = find_config()
    unset = {"metrics": DEFAULT_METRICS}
    sources = {"COMMANDLINE": "flag", "ENVIRONMENT": "environment", "DEFAULT_MAP": str(path)}
    rows: list[list[str | None]] = []
    for name in (p.name for p in context.command.params if p.name in settings()):
        value = calling.location if name == "cache" else context.params[name] or unset.get(name)
        values = value if isinstance(value, list | tuple) else [] if value is None else [value]
        shown = ", ".join(public_url(str(one)) for one in values)
        source = context.get_parameter_source(name)
        rows.append([name, shown or None, sources.get(source.name if source else "", "default")])
    keys = ("OPENAI_API_KEY", KEY_VARIABLE)
    return rows + [[key, "set" if os.environ.get(key) else "not set", "environment"] for key in keys]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _show(
    rows: list[list[str | None]],
    versions: dict[str, str | None],
    problems: list[str],
    answered: list[str],
    live: bool,
) -> None:
    from judge_eval.cli.printing.output import say, say_table

    say_table(["setting", "value", "source"], [[cell or "(none)" for cell in row] for row in rows])
    tell()
    for package, number in versions.items():
        tell(f"{package} {number}" if number else f"{package} is not installed")
    tell()
    for line in answered:
        tell(f"live: {line}")
    for problem in problems:
        say(one_line(f"cannot be used: {problem}"), BAD)
    if not problems:
        left = "" if live else " (nobody was called; --live makes one call)"
        say(f"everything can be used{left}", GOOD)


def _problems(judging: JudgingFlags, numbers: NumbersFlags, out: Path, calling: CallingFlags) -> list[str]:
    """Try each setting by itself and gather what is wrong."""
    from judge_eval.backends.stack import create_backend, open_store
    from judge_eval.errors import ConfigError, JudgeEvalError
    from judge_eval.evaluator import DEFAULT_METRICS
    from judge_eval.judges.choose import check_models, make_judge, mode_for
    from judge_eval.runs.scoring.scorer import Scorer
    from judge_eval.schema import BINARY

    def try_judge() -> None:
        judge = make_judge(prompt_name(judging.asked), judging.mode or mode_for(judging.model))
        check_models(judge, judging.model)

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
        try_judge,
        lambda: Scorer(numbers.names or DEFAULT_METRICS, BINARY, by_claims=judging.by_claims),
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


def _call(judging: JudgingFlags, calling: CallingFlags) -> tuple[list[str], list[str]]:
    """Ask the judge once, past the cache; return what is wrong, and what it answered."""
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
        return [str(error)], []
    (outcome,) = result.outcomes
    if outcome.kind == "no_verdict":
        return [f"the judge gave no verdict: {outcome.why}: {outcome.detail}"], []
    said = [
        f"the judge answered, {'relevant' if outcome.relevant else 'not relevant'}: {outcome.explanation}"
    ]
    for call in result.calls:
        said.append(f"model {call.model}, {call.input_tokens} + {call.output_tokens} tokens")
        if call.dropped:
            said.append(f"the server would not take: {', '.join(call.dropped)}")
    return [], said
