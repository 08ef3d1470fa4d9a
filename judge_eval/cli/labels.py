"""`sample`, `correct` and `calibrate`: what labels are chosen, and what they are used for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.agree import LabelFile, LabelThreshold, figure
from judge_eval.cli.flags import completion, values
from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import remark, verb

RunName = Annotated[
    str,
    typer.Argument(
        help="A run's folder, its id or the start of it, label:NAME or latest.",
        autocompletion=completion.runs,
    ),
]


class Strata(StrEnum):
    """How traces to label are chosen."""

    none = "none"
    grade = "grade"


class Objective(StrEnum):
    """What a threshold is chosen by."""

    kappa = "kappa"
    f1 = "f1"
    youden = "youden"


@verb
def sample(
    run: RunName,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many traces.")] = 50,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write them here: .jsonl or .csv, labels to be filled in.")
    ] = Path("to_label.jsonl"),
    by: Annotated[
        Strata, typer.Option(help="grade: as many of each highest judged grade, weighted later.")
    ] = Strata.none,
    without: Annotated[
        Path | None, typer.Option("--without", help="A file of labels: its traces are not chosen again.")
    ] = None,
    seed: o.Seed = 0,
    out: o.Out = Path("runs"),
) -> None:
    """Choose traces for people to label, shown blind: without verdicts, scores or ranks."""
    from judge_eval.alignment.sample import blind_csv, blind_jsonl, choose
    from judge_eval.data.labels import read_labels
    from judge_eval.export import text as export
    from judge_eval.runs.folder.run import EvalRun
    from judge_eval.runs.keeping.finding import find_run

    export.check_suffix(output, (".jsonl", ".csv"))
    found = EvalRun.load(find_run(run, out))
    done = sorted({trace for trace, _ in read_labels(without).grades}) if without is not None else []
    chosen = choose(found, n, strata=by.value, seed=seed, without=done)
    text = blind_csv(chosen, seed) if output.suffix.lower() == ".csv" else blind_jsonl(chosen, found, seed)
    export.write_text(output, text)
    chunks = sum(len(one.result.outcomes) for one in chosen)
    remark(f"{len(chosen)} traces with {chunks} chunks to label in {output}")


@verb
def correct(
    run: RunName,
    labels: LabelFile = None,
    metrics: o.Metrics = None,
    label_relevant: LabelThreshold = None,
    out: o.Out = Path("runs"),
    json_: o.Json = False,
) -> None:
    """Correct a run's means by human labels on a random part of its traces (PPI++)."""
    from rich.text import Text

    from judge_eval.alignment.correct import correct as correct_run
    from judge_eval.alignment.matching import labels_of
    from judge_eval.cli.printing.output import console, table
    from judge_eval.export.text import interval, number
    from judge_eval.metrics import parse_metric
    from judge_eval.runs.folder.run import EvalRun
    from judge_eval.runs.folder.signs import printable
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


@verb
def calibrate(
    run: RunName,
    labels: LabelFile = None,
    label_relevant: LabelThreshold = None,
    objective: Annotated[Objective, typer.Option(help="What the threshold is chosen by.")] = Objective.kappa,
    held_out: Annotated[float, typer.Option(help="The share of labelled traces to measure on.")] = 0.5,
    seed: o.Seed = 0,
    out: o.Out = Path("runs"),
    json_: o.Json = False,
) -> None:
    """Choose the relevance threshold of a graded judge, and map its grades to relevance, on labels.

    The threshold is used with `score RUN --relevant N` and `run --relevant N`.
    """
    from rich.text import Text

    from judge_eval.alignment.calibrate import calibrate as calibrate_run
    from judge_eval.alignment.matching import labels_of
    from judge_eval.cli.printing.output import console, table
    from judge_eval.runs.folder.run import EvalRun
    from judge_eval.runs.folder.signs import printable
    from judge_eval.runs.keeping.finding import find_run

    found = EvalRun.load(find_run(run, out))
    told = calibrate_run(
        found,
        labels_of(found, labels),
        threshold=label_relevant,
        objective=objective.value,
        held_out=held_out,
        seed=seed,
    )
    if json_:
        print(told.model_dump_json(indent=2))
        return
    screen = console()
    screen.print(Text(printable(f"{told.run} against {told.labels}")))
    screen.print(
        f"relevant from grade {told.threshold:g} (now {told.current}), chosen by {told.objective} on "
        f"{told.fitted_traces} traces; measured on {told.held_out_traces} others:"
    )
    screen.print()
    rows = [[name, figure(f)] for name, f in told.figures.items()]
    screen.print(table(["figure", "held out"], rows))
    screen.print()
    screen.print(
        table(["grade", "relevance"], [[g, f"{r:.4f}"] for g, r in told.relevance.items()], right=(1,))
    )
    screen.print(f"Brier score {figure(told.brier)}, of a constant {figure(told.brier_constant)}")
    for note in told.notes:
        screen.print(Text(printable(f"note: {note}")))
