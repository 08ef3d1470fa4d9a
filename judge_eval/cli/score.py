"""`score`: other metrics over the verdicts of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from judge_eval.cli.flags.common import Json, output_flag
from judge_eval.cli.flags.keeping import OneRun
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.errors import verb


@verb
def score(
    numbers: NumbersFlags,
    chosen: OneRun,
    output: Annotated[Path | None, output_flag("Write the scored run here: .json, .csv or .md.")] = None,
    json_: Json = False,
) -> None:
    """Compute metrics over a run's verdicts, without a call; the run itself stays as it is."""
    from judge_eval.cli.printing.output import summary
    from judge_eval.export import text as export
    from judge_eval.runs.scoring.rescore import rescore

    if output is not None:
        export.check_suffix(output)
    run = chosen.loaded()
    wanted = numbers.names or run.manifest.metrics
    scored = rescore(run, wanted, numbers.relevant, intervals=numbers.intervals)
    summary(scored, json_)
    if output is not None:
        export.write(scored, output)
