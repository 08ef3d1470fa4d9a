"""`doctor`: the settings in force, where each comes from, and what is unusable."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_eval.cli.exit_codes import OK, USAGE, verb
from judge_eval.cli.flags.common import Json, NumbersFlags, Runs
from judge_eval.cli.flags.config import find_config, settings
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import CallingFlags, JudgingFlags, WhoJudges
from judge_eval.cli.printing.output import give_json, say, show, tell
from judge_eval.errors import DISTRIBUTION, ConfigError, JudgeEvalError
from judge_eval.safe_text import is_address, one_line, prompt_name, public_url
from judge_eval.settings import setting
from judge_eval.views.tones import BAD, GOOD

if TYPE_CHECKING:
    from judge_eval.judge_file import JudgeSpec
    from judge_eval.llm.http.client import HttpBackend

PACKAGES = (
    DISTRIBUTION,
    "aiohttp",
    "openai",
    "pydantic",
    "tenacity",
    "numpy",
    "diskcache",
    "msgspec",
    "typer",
    "genai-prices",
)


@verb
def doctor(
    context: typer.Context,
    judging: WhoJudges,
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Runs,
    calling: Annotated[CallingFlags, only("cache", "fleet", "params")],
    live: bool = setting(False, "Also make one call to the judge."),
    json_: Json = False,
) -> int:
    """Show the settings in force with their sources, and what does not work and why.

    Makes no call unless --live is given. The exit code is 2 if something does not work.

    Examples:
    judge-eval doctor
    judge-eval doctor --model groq/NAME --live
    judge-eval doctor --json
    """
    spec, problems, calls, servers = _problems(judging, numbers, keeping.out, calling)
    rows = _settings(context, calling, [server.key_env for server in servers if server.key_env])
    judge = {} if spec is None or problems else spec.model_copy(update={"fitted": None}).table()
    for server in servers:
        with noting(problems):
            server.check()
    answered: list[str] = []
    if spec is not None and not problems and live:
        problems, answered = _call(spec, calling)
    report = {
        "settings": [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows],
        "judge": judge,
        "calls": calls,
        "packages": {package: _version(package) for package in PACKAGES},
        "problems": problems,
        "live": answered,
        "usable": not problems,
    }
    if json_:
        give_json(json.dumps(report, indent=2))
    else:
        _show(report, live)
    return USAGE if problems else OK


def _settings(context: typer.Context, calling: CallingFlags, keys_of: Sequence[str]) -> list[list[str | None]]:
    """Return name, value (None where there is none) and source of each setting, and whether keys are set."""
    from judge_eval.evaluator import DEFAULT_METRICS
    from judge_eval.llm.cache.store import KEY_VARIABLE

    path, _ = find_config()
    unset = {"metrics": DEFAULT_METRICS}
    sources = {"COMMANDLINE": "flag", "ENVIRONMENT": "environment", "DEFAULT_MAP": str(path)}
    rows: list[list[str | None]] = []
    keys = {name: key for key, names in settings().items() for name in names}
    for name in (p.name for p in context.command.params if p.name in keys):
        value = calling.location if name == "cache" else context.params[name] or unset.get(name)
        values = value if isinstance(value, list | tuple) else [] if value is None else [value]
        shown = ", ".join(public_url(str(item)) for item in values)
        source = context.get_parameter_source(name)
        rows.append([keys[name], shown or None, sources.get(source.name if source else "", "default")])
    secrets = dict.fromkeys([*(keys_of or ("OPENAI_API_KEY",)), KEY_VARIABLE])
    return rows + [[key, "set" if os.environ.get(key) else "not set", "environment"] for key in secrets]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _show(report: Mapping[str, Any], live: bool) -> None:
    from judge_eval.judge_file import to_toml
    from judge_eval.views.blocks import table_view

    rows = [[cell or "(none)" for cell in row.values()] for row in report["settings"]]
    show(table_view(["setting", "value", "source"], rows))
    tell()
    if report["judge"]:
        tell("the judge in force, as a judge file (--judge FILE) states it:")
        for line in to_toml(report["judge"]).splitlines():
            tell(f"  {one_line(line)}".rstrip())
        tell()
    for model, facts in report["calls"].items():
        tell(f"calls of {one_line(model)}:")
        for name, value in facts.items():
            tell(f"  {name}: {one_line(value)}")
        tell()
    for package, number in report["packages"].items():
        tell(f"{package} {number}" if number else f"{package} is not installed")
    tell()
    for line in report["live"]:
        tell(f"live: {line}")
    for problem in report["problems"]:
        say(one_line(f"problem: {problem}"), BAD)
    if report["usable"]:
        left = "" if live else " (no call was made; --live makes one)"
        say(f"no problems{left}", GOOD)


PATIENCE = 2.0
"""Seconds in which a database must answer."""


def _problems(
    judging: JudgingFlags, numbers: NumbersFlags, out: Path, calling: CallingFlags
) -> tuple[JudgeSpec | None, list[str], dict[str, dict[str, str]], list[HttpBackend]]:
    """Try each setting by itself; return the judge, what is wrong, by model what is sent where, and the servers."""
    from judge_eval.evaluator import DEFAULT_METRICS
    from judge_eval.judges.judge import DEFAULT_PROMPT, check_models, make_judge, mode_for
    from judge_eval.llm.http.client import HttpBackend
    from judge_eval.llm.stack import create_backend, open_store
    from judge_eval.registry import provider_of
    from judge_eval.runs.scoring.scorer import Scorer
    from judge_eval.schema import BINARY

    spec: JudgeSpec | None = None
    calls: dict[str, dict[str, str]] = {}
    servers: list[HttpBackend] = []
    folder = None if is_address(calling.location) else Path(calling.location)

    def try_judge() -> None:
        nonlocal spec
        spec = judging.spec()
        if spec.models or spec.judge:
            spec.keywords(calling.options())
            return
        judge = make_judge(prompt_name(spec.prompt or DEFAULT_PROMPT), spec.mode or mode_for(spec.model))
        check_models(judge, spec.model)

    def try_models() -> None:
        keywords = (spec or judging.spec()).keywords(calling.options())
        models, options = keywords["model"], keywords["options"]
        for route, model in models.items() if isinstance(models, dict) else [("", models)]:
            backend = create_backend(model, options.members.get(route, options), folder=folder)
            if isinstance(backend, HttpBackend):
                servers.append(backend)
            if (facts := getattr(backend, "facts", None)) is not None:
                takes = provider_of(model).takes_batches
                calls[model] = {**dict(facts()), "batches": "yes" if takes else "no"}

    def try_store() -> None:
        with closing(open_store(calling.location, timeout=PATIENCE)) as store:
            if store.info().read_only:
                place = public_url(str(calling.location))
                raise ConfigError(f"cache {place} is read-only: only answers that it already holds can be used")

    def try_out() -> None:
        above = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise ConfigError(f"out {out}: {above} cannot be written")

    checks = (
        try_judge,
        try_models,
        lambda: Scorer(numbers.names or DEFAULT_METRICS, BINARY, by_claims=spec is None or spec.by_claims),
        try_store,
        try_out,
    )
    problems: list[str] = []
    for check in checks:
        with noting(problems):
            check()
    return spec, problems, calls, servers


@contextmanager
def noting(problems: list[str]) -> Iterator[None]:
    """Note a problem that ends the block, once."""
    try:
        yield
    except JudgeEvalError as error:
        if (problem := str(error)) not in problems:
            problems.append(problem)


def _call(spec: JudgeSpec, calling: CallingFlags) -> tuple[list[str], list[str]]:
    from judge_eval.evaluator import Evaluator
    from judge_eval.schema import Trace

    text = "The office opens at nine."
    trace = Trace.parse(
        {"query": "When does the office open?", "reference": "At nine.", "answer": "At nine.", "chunks": [text]}
    )
    options = replace(calling.options(), attempts=2)
    try:
        with Evaluator(**spec.keywords(options), cache=False) as evaluator:
            (result,) = evaluator.evaluate(trace).results
    except JudgeEvalError as error:
        return [str(error)], []
    (outcome,) = result.outcomes
    if outcome.kind == "no_verdict":
        return [f"the judge gave no verdict: {outcome.why}: {outcome.detail}"], []
    answers = [f"the judge answered, {'relevant' if outcome.relevant else 'not relevant'}: {outcome.explanation}"]
    for call in result.calls:
        answers.append(f"model {call.model}, {call.input_tokens} + {call.output_tokens} tokens")
        if call.dropped:
            answers.append(f"the server does not support: {', '.join(call.dropped)}")
    return [], answers
