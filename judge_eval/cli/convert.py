"""`convert`: any format into ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from judge_eval.cli.exit_codes import OK, USAGE, verb
from judge_eval.cli.flags.common import Quiet
from judge_eval.cli.printing.output import give_json, remark, tell
from judge_eval.data.options import ReadOptions
from judge_eval.safe_text import counted
from judge_eval.settings import setting

if TYPE_CHECKING:
    from judge_eval.errors import DataError


@verb
def convert(
    data: Annotated[Path, typer.Argument(help="Traces: a file or folder of any known format.")],
    reading: ReadOptions,
    output: Path | None = setting(None, "The JSON Lines file to write; standard output if not given."),
    on_invalid: Literal["error", "skip"] = setting("error", "What to do with an invalid record.", file=True),
    quiet: Quiet = False,
) -> int:
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
        return OK
    written = write_jsonl(traces, output)
    show_remarks()
    if not quiet:
        left_out = f", {counted(skipped, 'invalid record')} skipped" if skipped else ""
        tell(f"{counted(written, 'trace')} in {output}{left_out}")
    return OK if written else USAGE
