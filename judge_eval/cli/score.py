"""`score`: other metrics over the verdicts of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import completion, values
from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import verb


@verb
def score(
    run: Annotated[
        str,
        typer.Argument(
            help="A run's folder, its id or the start of it, label:NAME or latest.",
            autocompletion=completion.runs,
        ),
    ],
    metrics: o.Metrics = None,
    relevant: o.Relevant = None,
    interval: o.Interval = o.IntervalMethod.t,
    cluster: o.Cluster = "cluster",
    out: o.Out = Path("runs"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the scored run here: .json, .csv or .md.")
    ] = None,
    json_: o.Json = False,
) -> None:
    """Compute metrics over a run's verdicts, without a call; the run itself stays as it is."""
    from judge_eval.cli.printing.output import summary
    from judge_eval.eval_run import EvalRun
    from judge_eval.export import text as export
    from judge_eval.runs.folder.records import Intervals
    from judge_eval.runs.keeping.finding import find_run
    from judge_eval.runs.scoring.rescore import rescore

    if output is not None:
        export.check_suffix(output)
    found = EvalRun.load(find_run(run, out))
    intervals = Intervals(method=interval.value, cluster=cluster)
    wanted = values.split_metrics(metrics) or found.manifest.metrics
    scored = rescore(found, wanted, relevant, intervals=intervals)
    if json_:
        print(scored.manifest.model_dump_json(indent=2))
    else:
        summary(scored)
    if output is not None:
        export.write(scored, output)
