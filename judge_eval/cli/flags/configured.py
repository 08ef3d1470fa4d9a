"""The evaluator that the command line makes without a flag."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.command import VerbCommand
from judge_eval.cli.flags.config import find_config, settings_for
from judge_eval.cli.flags.groups import spread
from judge_eval.cli.flags.judging import JudgingFlags
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.errors import ConfigError

if TYPE_CHECKING:
    from judge_eval.evaluator import Evaluator


@dataclass(frozen=True, slots=True)
class Configured:
    """What `JUDGE_EVAL_*` variables and the nearest configuration file say."""

    runs: Runs
    judging: JudgingFlags
    numbers: NumbersFlags
    calling: CallingFlags

    @property
    def out(self) -> Path:
        """The folder of runs."""
        return self.runs.out

    @property
    def model(self) -> str | None:
        """Who judges; None where nobody is named."""
        return self.judging.model

    def evaluator(self, model: str | None = None, *, first: str) -> Evaluator:
        """Make the evaluator, which the caller closes, with `first` as one more metric."""
        from judge_eval.evaluator import DEFAULT_METRICS

        judging = replace(self.judging, model=model or self.model)
        metrics = dict.fromkeys([first, *(self.numbers.names or DEFAULT_METRICS)])
        return judging.evaluator(self.calling, self.numbers, list(metrics))


def configured() -> Configured:
    """Read the settings in force."""
    settings_in_force: list[Configured] = []

    @spread
    def read(runs: Runs, judging: JudgingFlags, numbers: NumbersFlags, calling: CallingFlags) -> None:
        settings_in_force.append(Configured(runs, judging, numbers, calling))

    app = typer.Typer(add_completion=False)
    app.command(cls=VerbCommand)(read)
    settings = settings_for(read, find_config()[1])
    try:
        typer.main.get_command(app).main([], prog_name="judge-eval", standalone_mode=False, default_map=settings)
    except Exception as error:
        message = getattr(error, "format_message", None)  # an error of typer
        if message is None:
            raise
        raise ConfigError(message()) from None
    return settings_in_force[0]
