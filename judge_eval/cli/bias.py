"""`bias`: how a judge treats chunks that people find equally relevant."""

from typing import Annotated

import typer

from judge_eval.cli.flags.calling import HowCalled
from judge_eval.cli.flags.common import Json, LabellingFlags, NumbersFlags, OneRun, Quiet, Seed
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import WhoJudges
from judge_eval.cli.printing.error_messages import verb
from judge_eval.cli.printing.safe_output import give_json, remark
from judge_eval.data.options import read_origins

EDITS = ("padded", "echo-bait", "length-bait", "order", "other-reference")
"""The probes that edit chunks: padding, echo of the question, another place in the list, a false reference."""


@verb
def bias(
    chosen: OneRun,
    labelling: Annotated[LabellingFlags, only("labels")],
    judging: WhoJudges,
    numbers: Annotated[NumbersFlags, only()],
    calling: HowCalled,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=MODEL",
            help="Who reranked the chunks or wrote reference or answer (reranker=NAME), where traces do not say; "
            "repeatable.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="With a judge: edit chunks of a random sample of this many traces.")] = 50,
    seed: Seed = 0,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate how length, rank, echo, title, source, language, score and kinship affect the judge's verdicts.

    With labels: the change of the probability of `relevant` at equal label, by a logistic model, corrected by Holm.
    With a judge (--model): chunks are edited (padded, echoing the question, moved, another trace's reference) and asked
    again.

    Examples:
    judge-eval bias latest --labels labels.csv --origin reranker=openai/NAME
    judge-eval bias latest --model openai/NAME --limit 30
    """
    from judge_eval.cli.printing.output import show
    from judge_eval.cli.printing.progress import watching
    from judge_eval.study.bias import bias_report
    from judge_eval.study.matching import labels_of
    from judge_eval.trials import Prober
    from judge_eval.views.probe import bias_view, probe_view

    origins = read_origins(origin or ())
    run = chosen.loaded(remark)
    labels = None if labelling.labels is None else labels_of(run, labelling.labels)
    report = bias_report(run, labels, origin=origins, needs_labels=not judging.is_named)
    edits = None
    if judging.is_named:
        with judging.evaluator(calling, numbers, ["RR"]) as evaluator, watching(quiet) as evaluator.watch:
            edits = Prober(evaluator, EDITS, seed).probe([result.trace for result in run.results], limit=limit)
    if json_:
        give_json(report.replace(edits=edits).model_dump_json(indent=2))
        return
    show(bias_view(report))
    if edits is not None:
        show(probe_view(edits))
