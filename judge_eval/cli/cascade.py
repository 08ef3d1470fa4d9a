"""`cascade`: a cheap judge before a strong one, with a threshold that keeps the risk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.cascades import JUDGES
from judge_eval.cli.flags.common import Json, LabellingFlags, Quiet, output_flag
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import JudgingFlags
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.flags.reading import ReadingFlags, readable
from judge_eval.cli.printing.door import complain, give_json, remark
from judge_eval.cli.printing.errors import INCOMPLETE, close, verb

app = typer.Typer(
    help="Judge by a cheap judge first, a strong one where that is not sure.", no_args_is_help=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingFlags:
    """What the threshold is to keep, and on how large a sample it is found."""

    alpha: Annotated[
        float, typer.Option(help="The greatest risk: the share of answers that are not the target's.")
    ] = 0.05
    level: Annotated[
        float, typer.Option("--confidence", help="How sure to be that the risk is no greater.")
    ] = 0.95
    n: Annotated[
        int | None,
        typer.Option("--n", help="How many traces to draw; all, up to 300, unless given."),
    ] = None
    seed: Annotated[int, typer.Option(help="Of the sample, and of the chunk of each trace.")] = 0
    target: Annotated[
        Literal["strong", "labels"],
        typer.Option(help="Whose answers are right: the strong judge's, or people's labels."),
    ] = "strong"
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show calls, cache hits and tokens; make no call.")
    ] = False


@app.command("fit")
@verb
def fit(
    data: Annotated[
        str,
        typer.Argument(help="Traces that tuned neither judge: a file, folder or URL of any known format."),
    ],
    reading: ReadingFlags,
    judging: Annotated[JudgingFlags, only("model", "prompt", "mode", "layout", "evidence", *JUDGES)],
    numbers: Annotated[NumbersFlags, only("relevant", "cluster")],
    calling: Annotated[CallingFlags, without("base_urls", "record", "replay", "lead", "hedge", "otel")],
    runs: Runs,
    labelling: LabellingFlags,
    fitting: FittingFlags,
    output: Annotated[Path, output_flag("Where to write the cascade, as JSON.")] = Path("cascade.json"),
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the confidence from which the cheap judge's verdicts may stand, so that the risk is kept.

    Draws traces uniformly, one of each cluster where some share one, and one random chunk of each. The cheap
    judge is asked about the whole trace, the strong one about that chunk alone. Both runs are kept, so that
    the same command goes on where it ended, and another --alpha asks nobody. The figures hold for traces
    like these, and only where seed, alpha and confidence were not chosen by what came of them.

    Example:
    judge-eval cascade fit traces.jsonl --cascade decisions/NAME --then openai/NAME -o cascade.json
    """
    from judge_eval.auditions import Audition
    from judge_eval.cli.printing.auditions import show_audition, show_cascade
    from judge_eval.cli.printing.progress import watching
    from judge_eval.data.labels import read_labels
    from judge_eval.errors import ConfigError
    from judge_eval.export import text as export
    from judge_eval.runs.judging.selection import Selection
    from judge_eval.runs.keeping.mirroring import written

    export.check_suffix(output, (".json",))
    if not judging.cascade:
        raise ConfigError("name the cheap judge: --cascade decisions/NAME, or a chat model")
    if fitting.target != "labels" and labelling.labels is not None:
        raise ConfigError("--labels are for --target labels; the strong judge needs none")
    labels = None if labelling.labels is None else read_labels(labelling.labels)
    reader = reading.options(numbers.relevant)
    strong = judging.then or judging.model or ""
    with (
        readable(data) as (path, name),
        judging.evaluator(calling, numbers, ["RR"], fitting=True) as evaluator,
    ):
        audition = Audition(
            evaluator,
            {
                "cheap": (judging.cascade, judging.cascade_prompt or judging.asked),
                "strong": (strong, judging.asked),
            },
            seed=fitting.seed,
            target=fitting.target,
            labels=labels,
            label_relevant=labelling.label_relevant,
        )
        drawn = audition.draw(path, fitting.n, Selection(name=name, reader=reader))
        audition.check(drawn, alpha=fitting.alpha, level=fitting.level)
        if fitting.dry_run:
            show_audition(audition, drawn)
            return
        with written(runs.out, remark), watching(quiet) as watch:
            judged = audition.judge(drawn, runs.out, watch)
        file = None
        if failed := judged["strong"].manifest.tally.failed_verdicts:
            complain(
                f"the strong judge gave no verdict on {failed} of {len(drawn.spots)} chunks; leaving them "
                "out would favour what is easily judged, so nothing was fitted: the same command asks for "
                "these alone"
            )
        else:
            file = audition.fit(drawn, judged, alpha=fitting.alpha, level=fitting.level)
            export.write_text(output, file.model_dump_json(indent=2) + "\n")
        close(evaluator)
    if file is None:
        raise typer.Exit(INCOMPLETE)
    if json_:
        give_json(file.model_dump_json(indent=2))
        return
    show_cascade(file)
    if not quiet:
        remark(f"written to {output}; judge by it: judge-eval run DATA --cascade-file {output}")


@app.command("show")
@verb
def show_(
    file: Annotated[Path, typer.Argument(help="What `cascade fit` wrote.")],
    json_: Json = False,
) -> None:
    """Show a cascade that was fitted: its judges, its threshold, what that rests on, what it costs.

    Example:
    judge-eval cascade show cascade.json
    """
    from judge_eval.alignment.cascade import read_cascade
    from judge_eval.cli.printing.auditions import show_cascade

    cascade = read_cascade(file)
    if json_:
        give_json(cascade.model_dump_json(indent=2))
    else:
        show_cascade(cascade)
