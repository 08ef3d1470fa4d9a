"""What people read of a batch on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge_eval.cli.printing.door import remark, tell

if TYPE_CHECKING:
    from judge_eval.batch.flow import Imported
    from judge_eval.batch.state import Folder, Round


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
