"""`correct`: means corrected by human labels."""

from __future__ import annotations

from pathlib import Path

from judge_eval.cli.flags import options as o
from judge_eval.cli.flags import values
from judge_eval.cli.printing.errors import verb


@verb
def correct(
    run: o.RunName,
    labels: o.LabelFile = None,
    metrics: o.Metrics = None,
    label_relevant: o.LabelThreshold = None,
    out: o.Out = Path("runs"),
    json_: o.Json = False,
) -> None:
    """Correct a run's means by human labels on a random part of its traces (PPI++)."""
    from rich.text import Text

    from judge_eval.alignment.correct import correct as correct_run
    from judge_eval.alignment.matching import labels_of
    from judge_eval.cli.printing.output import console, table
    from judge_eval.eval_run import EvalRun
    from judge_eval.metrics import parse_metric
    from judge_eval.runs.folder.wording import interval, number, printable
    from judge_eval.runs.keeping.finding import find_run

    found = EvalRun.load(find_run(run, out))
    names = [str(parse_metric(name)) for name in values.split_metrics(metrics)]
    told = correct_run(found, labels_of(found, labels), names or None, threshold=label_relevant)
    if json_:
        print(told.model_dump_json(indent=2))
        return
    screen = console()
    screen.print(Text(printable(f"{told.run}, corrected by {told.labels}")))
    screen.print()
    rows = [
        [
            m.metric, number(m.value), interval(m.interval), number(m.judge_only), number(m.labels_only),
            f"{m.power:.2f}", str(m.n_labelled), "" if m.effective_n is None else f"{m.effective_n:.0f}",
        ]
        for m in told.means.values()
    ]  # fmt: skip
    columns = ["metric", "corrected", "95% interval", "judge alone", "labels alone"]
    columns += ["weight of the judge", "labelled", "worth"]
    screen.print(table(columns, rows, right=(1, 3, 4, 5, 6, 7)))
    if told.rate is not None:
        rate = told.rate
        screen.print()
        screen.print(
            f"relevant chunks: {number(rate.value)} {interval(rate.interval)} (judge alone "
            f"{rate.judge_only:.4f}, sensitivity {rate.sensitivity:.4f}, specificity {rate.specificity:.4f})"
        )
    warnings = [w for m in told.means.values() for w in m.warnings] + list(
        told.rate.warnings if told.rate else ()
    )
    for warning in dict.fromkeys(warnings):
        screen.print(Text(printable(f"warning: {warning}"), style="yellow"))
    for note in told.notes:
        screen.print(Text(printable(f"note: {note}")))
