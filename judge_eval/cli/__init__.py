"""The command line: verbs over the evaluator and the runs; the only place that prints."""

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_AT_START = 700_000  # objects, more than a start makes


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `judge-eval`; exits with the verb's code."""
    if arguments is None:  # in a process of its own: what a start imports is no garbage (30 ms to find out)
        gc.set_threshold(_AT_START, 20, 50)
    from judge_eval.cli.printing.safe_output import is_watched
    from judge_eval.cli.stopping import terminable

    if not is_watched():  # typer's help takes FORCE_COLOR for a terminal
        os.environ.setdefault("_TYPER_FORCE_DISABLE_TERMINAL", "1")

    words = list(sys.argv[1:] if arguments is None else arguments)
    with terminable():
        from judge_eval.cli.exit_codes import exit_code

        sys.exit(exit_code(lambda: _called(words)))


def _called(arguments: list[str]) -> object:
    from judge_eval.cli.verbs import make_app
    from judge_eval.installed import check_alone

    check_alone()
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    app = make_app(arguments[0] if arguments else None)
    return app(args=_bare_resume(arguments), prog_name="judge-eval", standalone_mode=False)


def start_is_over() -> None:
    """Collect garbage from now on, though seldom: what was imported stays, and a run makes no cycles."""
    if gc.get_threshold()[0] == _AT_START:
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)


def _bare_resume(arguments: list[str]) -> list[str]:
    """Let `--resume` stand alone: followed by another flag, by the data or by nothing it means `newest`."""
    out = []
    for place, argument in enumerate(arguments):
        following = arguments[place + 1] if place + 1 < len(arguments) else "-"
        alone = following.startswith("-") or Path(following).is_file()
        out.append("--resume=newest" if argument == "--resume" and alone else argument)
    return out
