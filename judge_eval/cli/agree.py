"""`agree`: a judge against people, judges against each other, rankings of systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags import completion, values
from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import verb

if TYPE_CHECKING:
    from judge_eval.alignment.agree import Agreement, Figure
    from judge_eval.alignment.systems import Rankings


@verb
def agree(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="A run, then a file of labels, or the runs of other judges or systems.",
            autocompletion=completion.runs,
        ),
    ],
    labels: o.LabelFile = None,
    label_relevant: o.LabelThreshold = None,
    systems: Annotated[
        bool, typer.Option("--systems", help="The runs are systems: compare how judge and labels rank them.")
    ] = False,
    metrics: o.Metrics = None,
    seed: o.Seed = 0,
    out: o.Out = Path("runs"),
    json_: o.Json = False,
) -> None:
    """Measure how far verdicts agree with labels; every interval is resampled by trace.

    Examples:
    judge-eval agree latest labels.csv
    judge-eval agree label:judge-a label:judge-b
    judge-eval agree a b c --systems --labels qrels.txt --metrics NDCG@10
    """
    from judge_eval.alignment import agree as agreement
    from judge_eval.alignment.matching import labels_of
    from judge_eval.alignment.systems import rank_systems
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.keeping.finding import find_run

    names = list(runs)
    if labels is None and len(names) > 1 and Path(names[-1]).is_file():
        labels = Path(names.pop())
    found = [EvalRun.load(find_run(name, out)) for name in names]
    if systems:
        given = labels_of(found[0], labels) if labels is not None else None
        tables = [
            rank_systems(found, given, metric, threshold=label_relevant, seed=seed)
            for metric in values.split_metrics(metrics) or found[0].manifest.metrics[:1]
        ]
        if json_:
            print(json.dumps([table.model_dump(mode="json") for table in tables], indent=2))
        else:
            for table in tables:
                _show_rankings(table)
        return
    if len(found) > 2 or (len(found) == 2 and labels is not None):
        given = labels_of(found[0], labels) if labels is not None else None
        figures = agreement.agree_all(found, given, seed=seed)
        if json_:
            print(json.dumps({k: f.model_dump(mode="json") for k, f in figures.items()}, indent=2))
        else:
            who = f"{len(found)} judges" + (" and the labels" if labels is not None else "")
            _show_figures(f"Krippendorff's alpha of {who}", figures)
        return
    other = found[1] if len(found) == 2 else None if labels is None else labels_of(found[0], labels)
    told = agreement.agree(found[0], other, threshold=label_relevant, seed=seed)
    if json_:
        print(told.model_dump_json(indent=2))
    else:
        _show_agreement(told)


def _show_figures(title: str, figures: dict[str, Figure]) -> None:
    from rich.text import Text

    from judge_eval.cli.printing.output import console, table
    from judge_eval.runs.folder.wording import printable

    out = console()
    out.print(Text(printable(title)))
    out.print()
    rows = []
    for name, found in figures.items():
        span = "" if found.interval is None else f"[{found.interval[0]:.4f}, {found.interval[1]:.4f}]"
        value = "undefined" if found.value is None else f"{found.value:.4f}"
        rows.append([name, value, span, str(found.n), str(found.traces or "")])
    out.print(table(["figure", "value", "95% interval", "n", "traces"], rows, right=(1, 3, 4)))


def _show_agreement(told: Agreement) -> None:
    from rich.text import Text

    from judge_eval.cli.printing.output import console, table
    from judge_eval.runs.folder.wording import printable

    out = console()
    _show_figures(
        f"{told.judge} against {told.labels}: {told.n} chunks of {told.traces} traces", told.figures
    )
    out.print()
    columns = ["judge \\ label", *map(str, told.grades)]
    rows = [[str(g), *map(str, row)] for g, row in zip(told.grades, told.confusion, strict=True)]
    out.print(table(columns, rows, right=range(1, len(columns))))
    for note in told.notes:
        out.print(Text(printable(f"note: {note}")))
    if told.failed:
        out.print(Text(f"{told.failed} labelled chunks have no verdict and are in no figure", style="yellow"))
    if told.elsewhere:
        out.print(f"{told.elsewhere} labels are of chunks that this run does not hold")
    if told.worst:
        out.print()
        out.print("The traces that differ most (`show RUN TRACE` shows one):")
        worst = [
            [d.trace_id, f"{d.unequal} of {d.n}", f"{d.distance:.3f}", f"{d.bias:+.3f}"]
            for d in told.worst[:10]
        ]
        out.print(table(["trace", "differ", "distance", "bias"], worst, right=(2, 3)))


def _show_rankings(table_: Rankings) -> None:
    from judge_eval.cli.printing.output import console, table

    out = console()
    _show_figures(f"{table_.metric}: {len(table_.systems)} systems on {table_.traces} traces", table_.figures)
    out.print()
    rows = sorted(zip(table_.systems, table_.human, table_.judge, strict=True), key=lambda row: -row[1])
    shown = [[name, f"{human:.4f}", f"{judge:.4f}"] for name, human, judge in rows]
    out.print(table(["system", "by labels", "by the judge"], shown, right=(1, 2)))
