"""The typer application: every verb hung in its place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer

from judge_eval.cli import (
    agree,
    batch,
    cache,
    compare,
    convert,
    doctor,
    export,
    init,
    judge,
    labels,
    probe,
    prompts,
    report,
    run,
    runs,
    score,
    serve,
    show,
    validate,
)
from judge_eval.cli.config import find_config
from judge_eval.cli.errors import USAGE, complain
from judge_eval.errors import ConfigError

app = typer.Typer(
    name="judge-eval",
    help="Judge retrieved chunks with an LLM; turn the verdicts into ranking metrics that can be trusted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

VERBS: dict[str, Callable[..., None]] = {
    "init": init.init,
    "run": run.run,
    "judge": judge.judge,
    "score": score.score,
    "show": show.show,
    "compare": compare.compare,
    "agree": agree.agree,
    "sample": labels.sample,
    "correct": labels.correct,
    "calibrate": labels.calibrate,
    "probe": probe.probe,
    "report": report.report,
    "serve": serve.serve,
    "export": export.export,
    "validate": validate.validate,
    "convert": convert.convert,
    "doctor": doctor.doctor,
}
GROUPS = {
    "runs": runs.app,
    "batch": batch.app,
    "prompts": prompts.app,
    "cache": cache.app,
}

for _name, _verb in VERBS.items():
    app.command(_name)(_verb)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"judge-eval {version('judge-eval')}")
        raise typer.Exit


@app.callback()
def settings(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Judge retrieved chunks with an LLM; turn the verdicts into ranking metrics that can be trusted.

    Settings come from flags, then JUDGE_EVAL_* variables, then [tool.judge_eval] in pyproject.toml or
    judge_eval.toml. Exit codes: 0 ok, 1 gate failed, 2 usage, configuration or data, 3 incomplete,
    130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        _, found = find_config()
    except ConfigError as error:
        complain(str(error))
        raise typer.Exit(USAGE) from None
    defaults: dict[str, Any] = dict.fromkeys(VERBS, found)
    for name, group in GROUPS.items():
        defaults[name] = {command.name: found for command in group.registered_commands}
    if isinstance(found.get("base_url"), str):  # the one verb that takes several
        defaults["run"] = {**found, "base_url": [found["base_url"]]}
    context.default_map = defaults
