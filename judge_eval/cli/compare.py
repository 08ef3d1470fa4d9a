"""`compare`: runs against a baseline, trace by trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.common import Json, Seed, output_flag
from judge_eval.cli.flags.gating import GatingFlags
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import give_json, remark
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
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Runs,
    gating: Annotated[GatingFlags, without("baseline")],
    cluster: Annotated[
        str | None, typer.Option(metavar="KEY", help="The key of metadata that groups traces.")
    ] = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None, output_flag("Write the comparison here: .json, .md (pull request), .xml.")
    ] = None,
    json_: Json = False,
) -> None:
    """Compare runs on the traces they have in common; nothing is judged.

    Example:
    judge-eval compare label:main latest --max-drop AP@5=0.03 -o report.md
    """
    from judge_eval.cli.printing.comparison import show_comparison
    from judge_eval.cli.printing.gates import show_checks, write_ci_report
    from judge_eval.comparison.compare import compare as compare_runs
    from judge_eval.comparison.gate import check_drops, check_under
    from judge_eval.export import text as export
    from judge_eval.runs.scoring.rescore import rescore

    if output is not None:
        export.check_suffix(output, FORMATS)
    if len(runs) < 2:
        raise typer.BadParameter("name two runs or more; the first is the baseline")
    limits = gating.limits()
    baseline, *candidates = (keeping.load(name, remark) for name in runs)
    named = numbers.names or list(baseline.manifest.metrics)
    wanted = tuple(dict.fromkeys([*named, *(limit.metric for limit in limits)]))
    comparison = compare_runs(baseline, *candidates, metrics=wanted, cluster=cluster, seed=seed)
    under = [limit for limit in limits if limit.of_mean]
    undecided = gating.on_undecided or ("fail" if gating.strict else "pass")
    checks = []
    for run in candidates if under else ():
        scored = rescore(run, [limit.metric for limit in under])
        checks += check_under(scored, under, on_undecided=undecided)
    checks += check_drops(comparison, limits, strict=gating.strict, on_undecided=undecided)
    comparison = comparison.model_copy(update={"checks": tuple(checks)})
    if json_:
        give_json(comparison.model_dump_json(indent=2))
    else:
        show_comparison(comparison)
    show_checks(checks, quiet=json_)
    if output is not None and output.suffix.lower() == ".json":
        export.write_text(output, comparison.model_dump_json(indent=2) + "\n")
    elif output is not None:
        write_ci_report(output, None, comparison, checks)
    if not all(check.passed for check in checks):
        raise typer.Exit(GATE)
