"""`agree`: a judge against people, judges against each other, rankings of systems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.common import Json, LabellingFlags, Seed
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import BAD, DOUBTFUL, GOOD, give_json, remark
from judge_eval.cli.printing.errors import verb

if TYPE_CHECKING:
    from judge_eval.alignment.agree import Agreement
    from judge_eval.alignment.reliability import Reliability
    from judge_eval.alignment.systems import Rankings
    from judge_eval.runs.scoring.figure import Figure


MODERATE = 0.4
"""The kappa above which agreement is at least moderate."""


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
    all_: Annotated[
        bool,
        typer.Option("--all", help="Every figure, the table of grades, and the traces that differ most."),
    ] = False,
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Say how far the judge can be trusted: how well its verdicts agree with labels that people gave.

    Two sentences come first, then the figures that say most; intervals are resampled by trace.

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
    loaded = [keeping.load(name, remark) for name in names]
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
            _show_raters(who, figures)
        return
    other = loaded[1] if len(loaded) == 2 else given
    result = agreement.agree(loaded[0], other, threshold=labelling.label_relevant, seed=seed)
    if json_:
        give_json(result.model_dump_json(indent=2))
    else:
        _show_agreement(result, all_, another=len(loaded) == 2)


def _show_figures(figures: Mapping[str, Figure], meanings: Mapping[str, str] | None = None) -> None:
    """Print figures; with their meanings, and those alone that have one, where meanings are given."""
    from judge_eval.cli.printing.output import say_table

    rows = []
    for name in figures if meanings is None else meanings:
        figure = figures[name]
        span = "" if figure.interval is None else f"[{figure.interval[0]:.4f}, {figure.interval[1]:.4f}]"
        value = "undefined" if figure.value is None else f"{figure.value:.4f}"
        of = [str(figure.n), str(figure.traces or "")] if meanings is None else [meanings[name]]
        rows.append([name, value, span, *of])
    of = ["n", "traces"] if meanings is None else ["which is"]
    say_table(["figure", "value", "95% interval", *of], rows, right=(1, 3, 4) if meanings is None else (1,))


def _show_raters(who: str, figures: Mapping[str, Figure]) -> None:
    from judge_eval.alignment.trust import raters_agree
    from judge_eval.cli.printing.output import say

    alpha = figures["alpha_ordinal"]
    say(raters_agree(figures, f"the {who}"), _colour(alpha))
    say(f"The evidence: {alpha.n:,} chunks of {alpha.traces or 0:,} traces.")
    say()
    _show_figures(figures)


def _show_agreement(result: Agreement, all_: bool, *, another: bool) -> None:
    from judge_eval.alignment.trust import first_figures
    from judge_eval.cli.printing.output import say, say_table

    say(f"{result.judge} against {result.labels}")
    say()
    say(result.trust, _colour(result.figures[f"kappa_ge{result.relevant}"]))
    say(result.evidence)
    say()
    first = first_figures(list(result.figures), result.relevant, another=another)
    _show_figures(result.figures, None if all_ else first)
    say()
    say(result.certainty)
    if result.reliability is not None:
        _show_reliability(result.reliability, all_)
    if all_:
        say()
        columns = ["judge \\ label", *map(str, result.grades)]
        rows = [[str(g), *map(str, row)] for g, row in zip(result.grades, result.confusion, strict=True)]
        say_table(columns, rows, right=range(1, len(columns)))
    for note in result.notes:
        say(f"note: {note}")
    if result.failed:
        say(f"{result.failed} labelled chunks have no verdict and are in no figure", DOUBTFUL)
    if result.elsewhere:
        say(f"{result.elsewhere} labels are of chunks that this run does not hold", DOUBTFUL)
    if result.worst and all_:
        say()
        say("The traces that differ most (`show RUN TRACE` shows one):")
        worst = [
            [d.trace_id, f"{d.unequal} of {d.n}", f"{d.distance:.3f}", f"{d.bias:+.3f}"]
            for d in result.worst[:10]
        ]
        say_table(["trace", "differ", "distance", "bias"], worst, right=(2, 3))
    elif not all_:
        differ = f" and the traces that differ (`{result.worst[0].trace_id}` most)" if result.worst else ""
        bins = "" if result.reliability is None else ", the bins of probabilities"
        say(f"--all shows {len(result.figures)} figures, the table of grades{bins}{differ}")


def _show_reliability(told: Reliability, all_: bool) -> None:
    from judge_eval.alignment.trust import OF_PROBABILITIES
    from judge_eval.cli.printing.output import say, say_table
    from judge_eval.runs.folder.wording import interval

    say()
    _show_figures(told.figures, None if all_ else OF_PROBABILITIES)
    if told.without:
        say(
            f"note: {told.without} labelled chunks have a verdict without a probability, and are not in these"
        )
    if not all_:
        return
    say()
    rows = [
        [
            f"{b.low:.3f} to {b.high:.3f}",
            f"{b.probability:.4f}",
            f"{b.rate.value:.4f}",
            interval(b.rate.interval),
            str(b.rate.n),
            str(b.rate.traces),
        ]
        for b in told.bins
    ]
    columns = ["probabilities", "mean", "relevant by labels", "95% interval", "n", "traces"]
    say_table(columns, rows, right=(1, 2, 4, 5))


def _colour(figure: Figure) -> str:
    """Colour what is said of a judge by the low end of its interval: bad where it holds chance."""
    if figure.interval is None:
        return DOUBTFUL
    low = figure.interval[0]
    return GOOD if low > MODERATE else BAD if low <= 0 else DOUBTFUL


def _show_rankings(table_: Rankings) -> None:
    from judge_eval.alignment.trust import systems_agree
    from judge_eval.cli.printing.output import say, say_table

    say(systems_agree(table_.judge, table_.human))
    say(f"The evidence: {table_.metric} of {len(table_.systems)} systems on {table_.traces} labelled traces.")
    say()
    _show_figures(table_.figures)
    say()
    rows = sorted(zip(table_.systems, table_.human, table_.judge, strict=True), key=lambda row: -row[1])
    shown = [[name, f"{human:.4f}", f"{judge:.4f}"] for name, human, judge in rows]
    say_table(["system", "by labels", "by the judge"], shown, right=(1, 2))
    say(f"note: {table_.note}")
