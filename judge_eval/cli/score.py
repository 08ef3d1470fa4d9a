"""`score`: other metrics over the verdicts of a run."""

from pathlib import Path

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import Json, NumbersFlags, OneRun
from judge_eval.cli.printing.output import summary
from judge_eval.settings import setting


@verb
def score(
    numbers: NumbersFlags,
    chosen: OneRun,
    output: list[Path] | None = setting(None, "Write the scored run here: .json, .csv or .md. Repeatable."),
    calibration: Path | None = setting(
        None, "A file written by `calibrate -o` for this judge: a threshold or calibrated probabilities."
    ),
    reader: str | None = setting(
        None,
        "The run of a reader (prompt reader/binary, with --confidence), for UDCG.",
        metavar="RUN",
        completion="runs",
    ),
    json_: Json = False,
) -> None:
    """Compute metrics over a run's verdicts, without a call; the run itself does not change.

    A calibration is valid only for the model, prompt and scale it was made for.

    Examples:
    judge-eval score latest --metrics P@1,NDCG@10
    judge-eval score label:main --relevant 3 -o scored.csv
    judge-eval score latest --metrics SoftP@5 --calibration calibration.json
    judge-eval score label:main --metrics UDCG --reader label:reader
    """
    from judge_eval.export import text as export
    from judge_eval.runs.scoring.calibrating import read_calibration
    from judge_eval.runs.scoring.rescore import rescore

    export.prepare(output or ())
    learnt = None if calibration is None else read_calibration(calibration)
    run = chosen.loaded()
    wanted = numbers.names or run.manifest.metrics
    read = None if reader is None else chosen.load(reader)
    scored = rescore(run, wanted, numbers.relevant, intervals=numbers.intervals, calibration=learnt, reader=read)
    summary(scored, json_)
    for path in output or ():
        export.write(scored, path)
