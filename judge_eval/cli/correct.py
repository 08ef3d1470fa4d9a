"""`correct`: means corrected by human labels."""

from typing import Annotated

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import Json, LabellingFlags, NumbersFlags, OneRun
from judge_eval.cli.flags.groups import only
from judge_eval.cli.printing.output import print_record
from judge_eval.settings import setting


@verb
def correct(
    numbers: Annotated[NumbersFlags, only("metrics")],
    chosen: OneRun,
    labelling: LabellingFlags,
    sequential: bool = setting(
        False,
        "Intervals that hold at every look, whatever makes labelling stop; if only their width does, leave it out.",
    ),
    json_: Json = False,
) -> None:
    """Correct a run's means by human labels on a random part of its traces (PPI++); each number is explained.

    Examples:
    judge-eval correct latest --labels to_label.csv
    judge-eval correct label:main --labels to_label.csv --metrics AP@5 --sequential
    """
    from judge_eval.metrics import parse_metric
    from judge_eval.study.correct import correct as correct_run
    from judge_eval.study.matching import labels_of
    from judge_eval.views.correction import correction_view

    run = chosen.loaded()
    names = [str(parse_metric(name)) for name in numbers.names]
    labels = labels_of(run, labelling.labels, labelling.label_relevant)
    corrected = correct_run(run, labels, names or None, threshold=labelling.label_relevant, sequential=sequential)
    print_record(corrected, json_, correction_view)
