"""`compare`: runs against a baseline, trace by trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import completion, values
from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import GATE, verb

FORMATS = (".json", ".md", ".xml")


@verb
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="The baseline, then its candidates: a run's folder, its id or the start of it, label:NAME "
            "or latest.",
            autocompletion=completion.runs,
        ),
    ],
    metrics: o.Metrics = None,
    out: o.Out = Path("runs"),
    cluster: Annotated[
        str | None, typer.Option(metavar="KEY", help="The key of metadata that groups traces.")
    ] = None,
    seed: o.Seed = 0,
    fail_under: o.FailUnder = None,
    max_drop: o.MaxDrop = None,
    non_inferior: o.NonInferior = None,
    strict: o.Strict = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the comparison here: .json, .md (pull request), .xml."),
    ] = None,
    json_: o.Json = False,
) -> None:
    """Compare runs on the traces they have in common; nothing is judged.

    Example:
    judge-eval compare label:main latest --max-drop AP@5=0.03 -o report.md
    """
    from judge_eval.cli.gating import tell, write_report
    from judge_eval.cli.printing.comparison import show_comparison
    from judge_eval.comparison.compare import compare as compare_runs
    from judge_eval.comparison.gate import check_drops, check_under, read_limits
    from judge_eval.eval_run import EvalRun
    from judge_eval.export import text as export
    from judge_eval.runs.keeping.finding import find_run
    from judge_eval.runs.scoring.rescore import rescore

    if output is not None:
        export.check_suffix(output, FORMATS)
    if len(runs) < 2:
        raise typer.BadParameter("name two runs or more; the first is the baseline")
    limits = read_limits(fail_under or (), max_drop or (), non_inferior or ())
    baseline, *candidates = (EvalRun.load(find_run(name, out)) for name in runs)
    named = values.split_metrics(metrics) or list(baseline.manifest.metrics)
    wanted = tuple(dict.fromkeys([*named, *(limit.metric for limit in limits)]))
    found = compare_runs(baseline, *candidates, metrics=wanted, cluster=cluster, seed=seed)
    under = [limit for limit in limits if limit.kind == "fail-under"]
    checks = [
        check
        for run in candidates
        for check in (check_under(rescore(run, [limit.metric for limit in under]), under) if under else ())
    ]
    checks += check_drops(found, limits, strict=strict)
    if json_:
        print(found.model_dump_json(indent=2))
    else:
        show_comparison(found)
    tell(checks, quiet=json_)
    if output is not None and output.suffix.lower() == ".json":
        export.write_text(output, found.model_dump_json(indent=2) + "\n")
    elif output is not None:
        write_report(output, None, found, checks)
    if not all(check.passed for check in checks):
        raise typer.Exit(GATE)
