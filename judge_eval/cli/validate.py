"""`validate`: read a dataset and say what is wrong with it."""

from __future__ import annotations

from typing import Annotated

import typer

from judge_eval.cli.flags.groups import without
from judge_eval.cli.flags.reading import ReadingFlags, readable
from judge_eval.cli.printing.door import tell
from judge_eval.cli.printing.errors import USAGE, verb
from judge_eval.given import prompt_name


@verb
def validate(
    data: Annotated[
        str, typer.Argument(help="Traces: a file, folder or URL of any known format; - reads standard input.")
    ],
    reading: Annotated[ReadingFlags, without("depth")],
    prompt: Annotated[
        str | None, typer.Option(help="Also check that every trace brings what this prompt needs.")
    ] = None,
    most: Annotated[int, typer.Option(help="How many errors to print.")] = 20,
) -> None:
    """Read a dataset without judging it; print file, line and field of every error."""
    from judge_eval.errors import DataError
    from judge_eval.prompts import load_prompt
    from judge_eval.runs.judging.selection import Selection
    from judge_eval.runs.judging.sources import replayable
    from judge_eval.schema import Trace

    needs = load_prompt(prompt_name(prompt)).needs if prompt else ()
    errors = 0

    def check(trace: Trace) -> None:
        for need in needs:
            if not (getattr(trace, need) or "").strip():
                raise DataError(f"the prompt {prompt} needs the {need}, and this trace has none", field=need)

    def show(error: DataError) -> None:
        nonlocal errors
        errors += 1
        if errors <= most:
            tell(error)

    reader = reading.options()
    with readable(data) as (path, name):
        source = replayable(path, check, Selection(on_invalid="skip", name=name, reader=reader))
        assert source is not None
        dataset = source.survey(show)
    if errors > most:
        tell(f"... and {errors - most} more")
    labelled = "" if not dataset.traces else f", digest {dataset.digest[:12]}"
    tell(f"{dataset.traces} valid traces, {dataset.chunks} chunks{labelled}; {errors} invalid")
    if errors or not dataset.traces:
        raise typer.Exit(USAGE)
