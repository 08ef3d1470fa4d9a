"""The typer application: every verb hung in its place."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer

from judge_eval.cli import cache, doctor, init, judge, prompts, run, runs, score, show, validate
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

app.command("init")(init.init)
app.command("run")(run.run)
app.command("judge")(judge.judge)
app.command("score")(score.score)
app.command("show")(show.show)
app.add_typer(runs.app, name="runs")
app.command("validate")(validate.validate)
app.add_typer(prompts.app, name="prompts")
app.add_typer(cache.app, name="cache")
app.command("doctor")(doctor.doctor)


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
    defaults: dict[str, Any] = dict.fromkeys(("run", "judge", "score", "validate", "doctor", "show"), found)
    defaults["runs"] = {"list": found}
    defaults["cache"] = dict.fromkeys(("info", "clear", "path"), found)
    context.default_map = defaults
