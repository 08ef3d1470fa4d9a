"""`convert`: any format into ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from judge_eval.cli.flags.common import Quiet, output_flag
from judge_eval.cli.printing.error_messages import USAGE, verb
from judge_eval.cli.printing.safe_output import give_json, remark, tell
from judge_eval.data.options import ReadOptions
from judge_eval.safe_text import counted
from judge_eval.settings import Setting

if TYPE_CHECKING:
    from judge_eval.errors import DataError


@verb
def convert(
    data: Annotated[Path, typer.Argument(help="Traces: a file or folder of any known format.")],
    reading: ReadOptions,
    output: Annotated[Path | None, output_flag("The JSON Lines file to write; standard output if not given.")] = None,
    on_invalid: Annotated[Literal["error", "skip"], "What to do with an invalid record.", Setting(file=True)] = "error",
    quiet: Quiet = False,
) -> None:
    """Convert a dataset of any known format into this package's format, record by record.

    Examples:
    judge-eval convert ragas.csv -o traces.jsonl
    judge-eval convert gold.jsonl --map query=q --map chunks=passages -o traces.jsonl
    """
    from judge_eval.data.files.jsonl import trace_line, write_jsonl
    from judge_eval.data.reading import open_dataset
    from judge_eval.data.remarks import Remarks

    remarks, skipped = Remarks(), 0

    def show(error: DataError) -> None:
        nonlocal skipped
        skipped += 1
        if not quiet:
            remark(f"skipped: {error}")

    def show_remarks() -> None:
        for each in () if quiet else remarks.sentences():
            remark(each)

    traces = open_dataset(data, reading, on_invalid=on_invalid, on_skip=show, on_remark=remarks.add)
    if output is None:
        for trace in traces:
            give_json(trace_line(trace).decode().rstrip("\n"))
        show_remarks()
        return
    written = write_jsonl(traces, output)
    show_remarks()
    if not quiet:
        tell(
            f"{counted(written, 'trace')} in {output}"
            + (f", {counted(skipped, 'invalid record')} skipped" if skipped else "")
        )
    if not written:
        raise typer.Exit(USAGE)
