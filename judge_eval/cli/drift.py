"""`drift`: whether a judge is still the judge that it was."""

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.common import Json, Quiet
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import SEVERAL, JudgingFlags
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.errors import GATE, verb
from judge_eval.cli.printing.safe_output import remark
from judge_eval.ranges import RANGES


@verb
def drift(
    anchors: Annotated[str, typer.Argument(help="Traces with labels, or an older run (folder, id, label:NAME).")],
    judging: Annotated[JudgingFlags, only("model", "prompt", "mode", "evidence", "confidence", "judge", *SEVERAL)],
    numbers: Annotated[NumbersFlags, only("relevant")],
    calling: Annotated[
        CallingFlags, without("fleet", "attempts", "record", "replay", "warm_prefix", "otel", "cache", "no_cache")
    ],
    keeping: Runs,
    history: Annotated[
        Path | None,
        typer.Option(help="The file of all looks. Default: drift.jsonl in the folder of runs.", metavar="FILE"),
    ] = None,
    baseline_looks: Annotated[int, "How often to ask for the baseline, which shows the noise."] = 5,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Ask a judge about the same chunks again, to see whether it has changed.

    The first call asks --baseline-looks times, later ones once. Nothing comes from the cache, and a look that was
    stopped goes on where it stood. The last look and the last four are tested by permutation within each chunk, so
    that a year of weekly looks gives a false alarm in at most 5 of 100 cases.

    The exit code is 1 if the judge drifted. `serve` plots the histories in its folder of runs.

    Examples:
    judge-eval drift labelled.jsonl --model openai/NAME
    judge-eval drift label:release-1 --model openai/NAME --history release-1.jsonl
    """
    from judge_eval.cli.printing.output import print_record
    from judge_eval.cli.printing.progress import watching
    from judge_eval.trials.drift import watch_judge
    from judge_eval.views.drift import drift_view

    RANGES["baseline_looks"].check(baseline_looks, "--baseline-looks")
    data = Path(anchors)
    earlier = None if data.exists() and not (data / "manifest.json").exists() else keeping.load(anchors, remark)

    asked = data if earlier is None else [result.trace for result in earlier.results]
    history = history or keeping.out / "drift.jsonl"
    with watching(quiet) as watch:
        ask = judging.anew(calling, numbers, asked, watch)
        report = watch_judge(ask, history, earlier, baseline_looks=baseline_looks)
    print_record(report, json_, drift_view)
    if report.verdict == "drifted":
        raise typer.Exit(GATE)
