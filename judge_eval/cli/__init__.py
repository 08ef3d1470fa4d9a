"""The command line: verbs over the evaluator and the runs; the only place that prints."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `judge-eval`; exits with the verb's code."""
    _calm_collector()
    from judge_eval.cli.printing.door import is_watched
    from judge_eval.cli.stopping import terminable

    if not is_watched():  # typer's help takes FORCE_COLOR for a terminal
        os.environ.setdefault("_TYPER_FORCE_DISABLE_TERMINAL", "1")

    given = list(sys.argv[1:] if arguments is None else arguments)
    with terminable():
        from judge_eval.cli.printing.errors import exit_code

        sys.exit(exit_code(lambda: _called(given)))


def _called(given: list[str]) -> object:
    from judge_eval.cli.verbs import make_app
    from judge_eval.installed import check_alone

    check_alone()
    app = make_app(given[0] if given else None)
    return app(args=_bare_resume(given), prog_name="judge-eval", standalone_mode=False)


def _calm_collector() -> None:
    """Collect garbage less often: a run makes many short-lived records and no cycles of its own.

    Measured on cold and warm runs: a tenth less CPU for a few MB of memory.
    """
    gc.set_threshold(50_000, 20, 50)


def _bare_resume(arguments: list[str]) -> list[str]:
    """Let `--resume` stand alone: followed by another flag, by the data or by nothing it means `newest`."""
    out = []
    for place, argument in enumerate(arguments):
        following = arguments[place + 1] if place + 1 < len(arguments) else "-"
        alone = following.startswith("-") or Path(following).is_file()
        out.append("--resume=newest" if argument == "--resume" and alone else argument)
    return out
