"""The evaluator that the command line would make without a flag, for those who cannot name one in code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.config import find_config, settings_for
from judge_eval.cli.flags.groups import spread, without
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
        """Make the evaluator; it is to be closed.

        Args:
            model: Who judges, in place of the one that is set.
            first: A metric to compute beside those that are set.

        Raises:
            ConfigError: No model is named, or a setting cannot be used.
        """
        from judge_eval.evaluator import DEFAULT_METRICS

        judging = replace(self.judging, model=model or self.model)
        metrics = dict.fromkeys([first, *(self.numbers.names or DEFAULT_METRICS)])
        return judging.evaluator(self.calling, self.numbers, list(metrics))


def configured() -> Configured:
    """Read the settings in force.

    Raises:
        ConfigError: A variable or a file holds what cannot be used.
    """
    found: list[Configured] = []

    @spread
    def read(
        runs: Runs,
        judging: JudgingFlags,
        numbers: NumbersFlags,
        calling: Annotated[CallingFlags, without("base_url")],
    ) -> None:
        found.append(Configured(runs, judging, numbers, calling))

    app = typer.Typer(add_completion=False)
    app.command()(read)
    settings = settings_for(read, find_config()[1])
    try:
        typer.main.get_command(app).main(
            [], prog_name="judge-eval", standalone_mode=False, default_map=settings
        )
    except Exception as error:
        said = getattr(error, "format_message", None)  # what typer says of a value
        if said is None:
            raise
        raise ConfigError(said()) from None
    return found[0]
