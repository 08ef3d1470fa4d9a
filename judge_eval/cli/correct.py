"""`correct`: means corrected by human labels."""

from __future__ import annotations

from typing import Annotated

from judge_eval.cli.flags.common import Json, LabellingFlags
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.keeping import OneRun
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import DOUBTFUL, give_json, remark
from judge_eval.cli.printing.errors import verb


@verb
def correct(
    numbers: Annotated[NumbersFlags, only("metrics")],
    chosen: OneRun,
    labelling: LabellingFlags,
    json_: Json = False,
) -> None:
    """Correct a run's means by human labels on a random part of its traces (PPI++); each number is explained.

    Examples:
    judge-eval correct latest --labels to_label.csv
    judge-eval correct label:main --labels to_label.csv --metrics AP@5
    """
    from judge_eval.alignment.correct import correct as correct_run
    from judge_eval.alignment.explaining import explain_mean, explain_rate, worth
    from judge_eval.alignment.matching import labels_of
    from judge_eval.cli.printing.output import say, say_table
    from judge_eval.metrics import parse_metric
    from judge_eval.runs.folder.wording import interval, number

    run = chosen.loaded(remark)
    names = [str(parse_metric(name)) for name in numbers.names]
    labels = labels_of(run, labelling.labels)
    corrected = correct_run(run, labels, names or None, threshold=labelling.label_relevant)
    if json_:
        give_json(corrected.model_dump_json(indent=2))
        return
    say(f"{corrected.run}, corrected by {corrected.labels}")
    say()
    rows = [
        [
            m.metric, number(m.value), interval(m.interval), number(m.judge_only), number(m.labels_only),
            f"{m.power:.2f}", str(m.n_labelled), worth(m.effective_n),
        ]
        for m in corrected.means.values()
    ]  # fmt: skip
    columns = ["metric", "corrected", "95% interval", "judge alone", "labels alone"]
    columns += ["weight of the judge", "labelled", "worth"]
    say_table(columns, rows, right=(1, 3, 4, 5, 6, 7))
    for mean in corrected.means.values():
        say()
        say(f"What this says of {mean.metric}:")
        for sentence in explain_mean(mean):
            say(f"- {sentence}")
    if corrected.rate is not None:
        say()
        say("And of the share of chunks that are relevant:")
        for sentence in explain_rate(corrected.rate):
            say(f"- {sentence}")
    warnings = [w for m in corrected.means.values() for w in m.warnings] + list(
        corrected.rate.warnings if corrected.rate else ()
    )
    for warning in dict.fromkeys(warnings):
        say(f"warning: {warning}", DOUBTFUL)
    for note in corrected.notes:
        say(f"note: {note}")
