"""`convert`: any format into ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from judge_eval.cli.flags.common import Quiet, output_flag
from judge_eval.cli.flags.groups import FILE
from judge_eval.cli.flags.reading import ReadingFlags
from judge_eval.cli.printing.door import give_json, remark, tell
from judge_eval.cli.printing.errors import USAGE, verb


@verb
def convert(
    data: Annotated[Path, typer.Argument(help="Traces: a file or folder of any known format.")],
    reading: ReadingFlags,
    output: Annotated[
        Path | None, output_flag("The JSON Lines file to write; standard output if not given.")
    ] = None,
    on_invalid: Annotated[
        Literal["error", "skip"], typer.Option(help="What an invalid record does."), FILE
    ] = "error",
    quiet: Quiet = False,
) -> None:
    """Turn a dataset of any known format into ours, record by record.

    Examples:
    judge-eval convert ragas.csv -o traces.jsonl
    judge-eval convert gold.jsonl --map query=q --map chunks=passages -o traces.jsonl
    """
    from judge_eval.data.reading import open_dataset
    from judge_eval.data.remarks import Remarks
    from judge_eval.data.writing import trace_line, write_jsonl

    remarks, skipped = Remarks(), 0

    def show(error: Exception) -> None:
        nonlocal skipped
        skipped += 1
        if not quiet:
            remark(f"skipped: {error}")

    def show_remarks() -> None:
        for each in () if quiet else remarks.told():
            remark(each)

    traces = open_dataset(
        data,
        reading.options(),
        on_invalid=on_invalid,
        on_skip=show,
        on_remark=remarks.add,
    )
    if output is None:
        for trace in traces:
            give_json(trace_line(trace).decode().rstrip("\n"))
        show_remarks()
        return
    written = write_jsonl(traces, output)
    show_remarks()
    if not quiet:
        tell(f"{written} traces in {output}" + (f", {skipped} invalid records skipped" if skipped else ""))
    if not written:
        raise typer.Exit(USAGE)
