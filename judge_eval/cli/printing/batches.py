"""What people read of a batch on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge_eval.cli.printing.door import remark, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openai.types import Batch

    from judge_eval.batch.flow import Imported
    from judge_eval.batch.state import Folder, Part, Round


def show_imported(imported: Imported) -> None:
    """Say what an import imported."""
    tell(
        f"{imported.imported:,} replies went into the cache, {imported.rejected:,} could not be read, "
        f"{imported.open:,} requests are open"
    )
    if imported.doubled or imported.unreadable:
        remark(f"{imported.doubled:,} lines were doubled, {imported.unreadable:,} are no replies")
    for counts, words in (
        (imported.declined, "declined by the server"),
        (imported.unanswered, "not answered"),
    ):
        for message, count in counts.most_common(3):
            remark(f"{count:,} {words}: {message}")


def show_round(folder: Folder, round_: Round) -> None:
    """Say how far the files of a round are."""
    tell(f"round {round_.number} in {folder.place(round_.number)}")
    for part in round_.parts:
        line = f"  {part.name}: {part.requests:,} requests, {part.bytes:,} bytes, {part.phase}"
        if part.batch_id:
            line += f" as {part.batch_id} ({part.status}, {part.completed:,} done, {part.failed:,} failed)"
        tell(line + (f": {part.message}" if part.message else ""))


def show_doubles(folder: Folder, doubled: Sequence[tuple[Part, Batch]]) -> None:
    """Name the batches that do another's work over again, and say how to cancel them."""
    for part, batch in doubled:
        remark(
            f"warning: {part.name} was ordered twice: {batch.id} ({batch.status}) does the work of "
            f"{part.batch_id} over again"
        )
    if any(batch.status != "completed" for _, batch in doubled):
        remark(f"`judge-eval batch cancel {folder.path} --doubles` cancels what is not needed")
