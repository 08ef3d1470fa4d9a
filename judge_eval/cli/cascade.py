"""`cascade`: a cheap judge before a strong one, with a threshold that keeps the risk."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from judge_eval.cli.exit_codes import INCOMPLETE, OK, VerbGroup, close
from judge_eval.cli.flags.common import Json, LabellingFlags, NumbersFlags, Quiet, Runs, readable
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import HowCalled, JudgingFlags
from judge_eval.cli.printing.output import complain, print_record, remark, show_pilot, watching
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError
from judge_eval.runs.options import Selection
from judge_eval.settings import setting

app = VerbGroup("Judge by a cheap judge first, and by a strong one if the cheap judge is not confident.")


_fitting = partial(setting, common=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingFlags:
    """What the threshold is to keep, and on how large a sample it is found."""

    alpha: float = _fitting(0.05, "The greatest accepted risk: the share of answers that differ from the target's.")
    n: int | None = _fitting(None, "How many traces to draw. Default: all, at most 300.")
    seed: int = _fitting(0, "The seed of the sample and of the chunk drawn from each trace.")
    target: Literal["strong", "labels"] = _fitting(
        "strong", "Whose answers count as correct: the strong judge's, or people's labels."
    )
    dry_run: bool = _fitting(False, "Show calls, cache hits and tokens; make no call.")


@app.verb("fit")
def fit(
    data: Annotated[
        str, typer.Argument(help="Traces not used to tune either judge: a file, folder or URL of any known format.")
    ],
    reading: Annotated[ReadOptions, only("format", "map")],
    judging: Annotated[JudgingFlags, only("model", "prompt", "mode", "judge", "cascade", "strong_model")],
    numbers: Annotated[NumbersFlags, only("relevant", "cluster")],
    calling: HowCalled,
    runs: Runs,
    labelling: LabellingFlags,
    fitting: FittingFlags,
    output: Path = setting(Path("cascade.json"), "Where to write the judge file: .json or .toml."),
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find the confidence above which the cheap judge's verdicts are kept, for a given risk.

    Draws traces uniformly (one per cluster) and one random chunk of each trace. Both judges are asked
    as in use: the cheap judge about the whole trace, the strong judge only about that chunk (about the whole
    trace if it reads several chunks at once, as with --mode listwise). Both runs are stored: the same command
    continues where it ended, and another --alpha needs no call. The figures hold for traces like these, and
    only if seed and alpha were chosen before looking at the result.

    If the cheap judge has a server, a mode, a prompt or parameters of its own, state both in a judge file (`--judge`).

    Examples:
    judge-eval cascade fit traces.jsonl --cascade decisions/NAME --strong-model openai/NAME -o cascade.json
    judge-eval cascade fit traces.jsonl --judge stages.toml -o cascade.json
    """
    from judge_eval.data.labels import read_labels
    from judge_eval.export import text as export
    from judge_eval.judge_file import JudgeSpec, to_toml
    from judge_eval.trials import PairedPilot
    from judge_eval.views.cascade import cascade_view

    export.check_suffix(output, (".json", ".toml"))
    spec = judging.spec(numbers.relevant)
    if spec.cheap is None or spec.strong is None or not spec.cheap.model:
        raise ConfigError("name the cheap judge: --cascade decisions/NAME, or a chat model")
    if fitting.target != "labels" and labelling.labels is not None:
        raise ConfigError("--labels needs --target labels; the strong judge needs no labels")
    reader = replace(reading, relevant=numbers.relevant)
    prompt = spec.strong.prompt or judging.asked
    with readable(data) as (path, name), judging.evaluator(calling, numbers, ["RR"], fitting=True) as evaluator:
        labels, relevant = None, labelling.label_relevant
        if labelling.labels is not None:
            labels = read_labels(labelling.labels, scale=evaluator.chosen_judge.scale, threshold=relevant)
        pilot = PairedPilot(
            evaluator,
            {"cheap": (spec.cheap.model, spec.cheap.prompt or prompt), "strong": (spec.strong.model, prompt)},
            seed=fitting.seed,
            target=fitting.target,
            labels=labels,
            label_relevant=relevant,
        )
        drawn = pilot.draw(path, fitting.n, Selection(name=name, reader=reader))
        pilot.check(drawn, alpha=fitting.alpha)
        if fitting.dry_run:
            show_pilot(pilot, drawn)
            return OK
        with runs.written(), watching(quiet) as watch:
            judged = pilot.judge(drawn, runs.out, watch)
        file = None
        if failed := pilot.failed(drawn, judged):
            complain(
                f"the strong judge gave no verdict on {failed} of {len(drawn.spots)} chunks; leaving them "
                "out would bias the sample towards easy chunks, so nothing was fitted: run the "
                "same command again to ask for these"
            )
        else:
            file = pilot.fit(drawn, judged, alpha=fitting.alpha)
            text = file.model_dump_json(indent=2) + "\n"
            if output.suffix == ".toml":
                text = to_toml(JudgeSpec.of_cascade(file).table())
            export.write_text(output, text)
        close(evaluator)
    if file is None:
        return INCOMPLETE
    print_record(file, json_, cascade_view)
    if not json_ and not quiet:
        remark(f"written to {output}; to judge with it: judge-eval run DATA --judge {output}")
    return OK


@app.verb("show")
def show_(file: Annotated[Path, typer.Argument(help="A file written by `cascade fit`.")], json_: Json = False) -> None:
    """Show a fitted cascade: its judges, its threshold, the evidence for it, and its cost.

    Example:
    judge-eval cascade show cascade.json
    """
    from judge_eval.study.cascade_file import read_cascade
    from judge_eval.views.cascade import cascade_view

    print_record(read_cascade(file), json_, cascade_view)
