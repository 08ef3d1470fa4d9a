"""`agree`: a judge against people, judges against each other, rankings of systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.common import Json, LabellingFlags, Seed
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import give_json
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
    labelling: LabellingFlags,
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Runs,
    systems: Annotated[
        bool, typer.Option("--systems", help="The runs are systems: compare how judge and labels rank them.")
    ] = False,
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Measure how far verdicts agree with labels; intervals are resampled by trace.

    Examples:
    judge-eval agree latest labels.csv
    judge-eval agree label:judge-a label:judge-b
    judge-eval agree a b c --systems --labels qrels.txt --metrics NDCG@10
    """
    from judge_eval.alignment import agree as agreement
    from judge_eval.alignment.matching import labels_of
    from judge_eval.alignment.systems import rank_systems

    names, labels = list(runs), labelling.labels
    if labels is None and len(names) > 1 and Path(names[-1]).is_file():
        labels = Path(names.pop())
    loaded = [keeping.load(name) for name in names]
    given = None if labels is None else labels_of(loaded[0], labels)
    if systems:
        tables = [
            rank_systems(loaded, given, metric, threshold=labelling.label_relevant)
            for metric in numbers.names or loaded[0].manifest.metrics[:1]
        ]
        if json_:
            give_json(json.dumps([table.model_dump(mode="json") for table in tables], indent=2))
        else:
            for table in tables:
                _show_rankings(table)
        return
    if len(loaded) > 2 or (len(loaded) == 2 and labels is not None):
        figures = agreement.agree_all(loaded, given, seed=seed)
        if json_:
            give_json(json.dumps({k: f.model_dump(mode="json") for k, f in figures.items()}, indent=2))
        else:
            who = f"{len(loaded)} judges" + (" and the labels" if labels is not None else "")
            _show_figures(f"Krippendorff's alpha of {who}", figures)
        return
    other = loaded[1] if len(loaded) == 2 else given
    result = agreement.agree(loaded[0], other, threshold=labelling.label_relevant, seed=seed)
    if json_:
        give_json(result.model_dump_json(indent=2))
    else:
        _show_agreement(result)


def _show_figures(title: str, figures: dict[str, Figure]) -> None:
    from judge_eval.cli.printing.output import say, say_table

    say(title)
    say()
    rows = []
    for name, figure in figures.items():
        span = "" if figure.interval is None else f"[{figure.interval[0]:.4f}, {figure.interval[1]:.4f}]"
        value = "undefined" if figure.value is None else f"{figure.value:.4f}"
        rows.append([name, value, span, str(figure.n), str(figure.traces or "")])
    say_table(["figure", "value", "95% interval", "n", "traces"], rows, right=(1, 3, 4))


def _show_agreement(result: Agreement) -> None:
    from judge_eval.cli.printing.output import say, say_table

    _show_figures(
        f"{result.judge} against {result.labels}: {result.n} chunks of {result.traces} traces", result.figures
    )
    say()
    columns = ["judge \\ label", *map(str, result.grades)]
    rows = [[str(g), *map(str, row)] for g, row in zip(result.grades, result.confusion, strict=True)]
    say_table(columns, rows, right=range(1, len(columns)))
    for note in result.notes:
        say(f"note: {note}")
    if result.failed:
        say(f"{result.failed} labelled chunks have no verdict and are in no figure", "yellow")
    if result.elsewhere:
        say(f"{result.elsewhere} labels are of chunks that this run does not hold")
    if result.worst:
        say()
        say("The traces that differ most (`show RUN TRACE` shows one):")
        worst = [
            [d.trace_id, f"{d.unequal} of {d.n}", f"{d.distance:.3f}", f"{d.bias:+.3f}"]
            for d in result.worst[:10]
        ]
        say_table(["trace", "differ", "distance", "bias"], worst, right=(2, 3))


def _show_rankings(table_: Rankings) -> None:
    from judge_eval.cli.printing.output import say, say_table

    _show_figures(f"{table_.metric}: {len(table_.systems)} systems on {table_.traces} traces", table_.figures)
    say()
    rows = sorted(zip(table_.systems, table_.human, table_.judge, strict=True), key=lambda row: -row[1])
    shown = [[name, f"{human:.4f}", f"{judge:.4f}"] for name, human, judge in rows]
    say_table(["system", "by labels", "by the judge"], shown, right=(1, 2))
    say(f"note: {table_.note}")
