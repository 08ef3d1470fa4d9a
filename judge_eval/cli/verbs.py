"""The verbs of the command line, each loaded when it is called."""

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from judge_eval.cli.flags.command import VerbCommand
from judge_eval.cli.flags.config import find_config, settings_for
from judge_eval.cli.printing.output import can_answer, tell, trusts
from judge_eval.installed import own_version
from judge_eval.trust import begin_command, name_hosts

PANELS = {
    "Judge": ("init", "run", "show", "compare", "report", "serve"),
    "People and trust": ("agree", "sample", "correct", "calibrate", "probe", "bias", "drift", "validate-judge"),
    "More answers": ("pool", "what-if", "missing", "claims", "score", "judge"),
    "Data": ("validate", "convert", "export", "runs"),
    "Scale and tools": ("batch", "cascade", "cache", "prompts", "doctor", "mcp"),
}
"""The verbs and groups of verbs as the help shows them; each is what its module holds."""
GROUPS = ("runs", "batch", "cascade", "prompts", "cache")
"""The groups of verbs; each is the application in the module of its name."""
VERBS = tuple(name for names in PANELS.values() for name in names if name not in GROUPS)
"""The verbs; each is a function in the module of its name."""


class OrderedGroup(TyperGroup):
    """A group whose help lists its commands in the order of `PANELS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order in which the help shows them."""
        names = super().list_commands(ctx)
        return [name for panel in PANELS.values() for name in panel if name in names]


def make_app(first: str | None = None) -> typer.Typer:
    """Make the application; if `first` is a verb, that one alone is loaded, which halves the start."""
    app = typer.Typer(
        name="judge-eval",
        cls=OrderedGroup,
        help="Judge retrieved chunks with an LLM; turn verdicts into ranking metrics that can be trusted.",
        epilog="`judge-eval help COMMAND` and `judge-eval COMMAND -h` explain a command.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    known = first in (*VERBS, *GROUPS, "--version")
    for panel, name in [(panel, name) for panel, names in PANELS.items() for name in names]:
        if known and name != first:
            continue
        if name in VERBS:
            app.command(name, cls=VerbCommand, rich_help_panel=panel)(_load(name, name))
        else:
            app.add_typer(_load(name, "app"), name=name, rich_help_panel=panel)
    app.callback()(start)
    return app


def _load(module: str, name: str) -> Any:
    return getattr(import_module(f"judge_eval.cli.{module.replace('-', '_')}"), name.replace("-", "_"))


def _print_version(wanted: bool) -> None:
    if wanted:
        tell(f"judge-eval {own_version()}")
        raise typer.Exit


def _end_command() -> None:
    begin_command()
    if (providers := sys.modules.get("judge_eval.providers")) is not None:
        providers.begin_project()


def start(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    trust_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A host that may be called although only a file names it; repeatable (always: "
            "JUDGE_EVAL_TRUST_HOSTS).",
        ),
    ] = None,
) -> None:
    """Judge retrieved chunks with an LLM; turn the verdicts into ranking metrics that can be trusted.

    Settings come from flags, then JUDGE_EVAL_* variables, then [tool.judge_eval] in pyproject.toml or judge_eval.toml.
    Exit codes: 0 ok, 1 gate failed, 2 usage, configuration or data, 3 incomplete, 4 no credit left, 70 a fault of
    this program, 130 interrupted, 141 the output's reader has left, 143 stopped (SIGTERM).
    """
    begin_command(trusts if can_answer() else None)
    name_hosts(trust_host or ())
    context.call_on_close(_end_command)
    _, values = find_config()
    called = context.invoked_subcommand or ""
    if called in GROUPS:
        commands = _load(called, "app").registered_commands
        context.default_map = {called: {each.name: settings_for(each.callback, values) for each in commands}}
    elif called in VERBS:
        context.default_map = {called: settings_for(_load(called, called), values)}
