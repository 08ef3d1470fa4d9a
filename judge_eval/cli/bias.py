"""`bias`: how a judge treats chunks that people find equally relevant."""

from typing import Annotated

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import Json, LabellingFlags, NumbersFlags, OneRun, Quiet, Seed
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import HowCalled, WhoJudges
from judge_eval.cli.printing.output import give_json, show, watching
from judge_eval.data.options import read_origins
from judge_eval.settings import setting

EDITS = ("padded", "echo-bait", "length-bait", "order", "other-reference")
"""The probes that edit chunks: padding, echo of the question, another place in the list, a false reference."""


@verb
def bias(
    chosen: OneRun,
    labelling: Annotated[LabellingFlags, only("labels")],
    judging: WhoJudges,
    numbers: Annotated[NumbersFlags, only()],
    calling: HowCalled,
    origin: list[str] | None = setting(
        None,
        "Who reranked the chunks or wrote reference or answer (reranker=NAME), where traces do not say; repeatable.",
        metavar="ROLE=MODEL",
    ),
    limit: int = setting(50, "With a judge: edit chunks of a random sample of this many traces."),
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
    from judge_eval.study.bias import bias_report
    from judge_eval.trials import Prober
    from judge_eval.views.probe import bias_view, probe_view

    origins = read_origins(origin or ())
    run = chosen.loaded()
    report = bias_report(run, labelling.of(run), origin=origins, needs_labels=not judging.is_named)
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
