"""`compare`: runs against a baseline, trace by trace."""

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.calling import HowCalled
from judge_eval.cli.flags.common import Json, Seed, output_flag
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import WhoJudges
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.error_messages import GATE, verb
from judge_eval.cli.printing.safe_output import give_json, remark
from judge_eval.compare.options import Gates

FORMATS = (".json", ".md", ".xml")


@verb
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="The baseline, then its candidates: a run's folder, its id or the start of it, label:NAME or latest.",
            autocompletion=completion.runs,
        ),
    ],
    numbers: Annotated[NumbersFlags, only("metrics", "by")],
    keeping: Runs,
    gates: Annotated[Gates, only("fail_under", "max_drop", "non_inferior", "strict"), without("baseline")],
    judging: WhoJudges,
    calling: HowCalled,
    cluster: Annotated[str | None, typer.Option(metavar="KEY", help="The key of metadata that groups traces.")] = None,
    judge_again: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Ask the candidate's judge, named as for `run`, about at most N chunks of the baseline that it never "
            "saw: the split of the first metric becomes narrower.",
        ),
    ] = 0,
    seed: Seed = 0,
    output: Annotated[
        list[Path] | None, output_flag("Write the comparison here: .json, .md (pull request), .xml. Repeatable.")
    ] = None,
    json_: Json = False,
) -> None:
    """Compare runs on the traces they have in common; nothing is judged, except with --judge-again.

    Examples:
    judge-eval compare label:main latest --max-drop AP@5=0.03 -o report.md
    judge-eval compare label:main latest --judge-again 200 --model openai/NAME
    """
    from judge_eval.cli.printing.gates import show_failed, show_passed, write_ci_report
    from judge_eval.cli.printing.output import show_comparison
    from judge_eval.cli.printing.progress import watching
    from judge_eval.compare.compare import compare as compare_runs
    from judge_eval.compare.gate import check_gates, gated_metrics
    from judge_eval.export import text as export
    from judge_eval.runs.folder.records import Tally
    from judge_eval.safe_text import counted
    from judge_eval.trials.again import ask_again

    export.check_suffixes(output or (), FORMATS)
    if len(runs) < 2:
        raise typer.BadParameter("name two runs or more; the first is the baseline")
    baseline, *candidates = (keeping.load(name, remark) for name in runs)
    wanted = gated_metrics(numbers.names or baseline.manifest.metrics, gates)
    again = None
    if judge_again:
        with judging.evaluator(calling, numbers, ["P@5"]) as evaluator, watching(json_) as evaluator.watch:
            again = ask_again(evaluator, baseline, candidates[0], wanted[0], judge_again)
        asked = again.manifest.tally if again is not None else Tally()
        chunks = counted(asked.verdicts + asked.failed_verdicts, "chunk")
        failed = f", {asked.failed_verdicts:,} without a verdict" if asked.failed_verdicts else ""
        remark(f"asked the candidate's judge about {chunks} of the baseline{failed}")
    comparison = compare_runs(
        baseline, *candidates, metrics=wanted, cluster=cluster, seed=seed, again=again, by=numbers.by
    )
    checks = check_gates(candidates, gates, comparison)
    comparison = comparison.model_copy(update={"checks": tuple(checks)})
    show_failed(checks)
    if json_:
        give_json(comparison.model_dump_json(indent=2))
    else:
        show_comparison(comparison)
    show_passed(checks, quiet=json_)
    for path in output or ():
        if path.suffix.lower() == ".json":
            export.write_text(path, comparison.model_dump_json(indent=2) + "\n")
        else:
            write_ci_report(path, None, comparison, checks)
    if not all(check.passed for check in checks):
        raise typer.Exit(GATE)
