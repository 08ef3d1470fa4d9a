"""What people read of a batch on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge_eval.cli.printing.errors import remark

if TYPE_CHECKING:
    from judge_eval.batch.flow import Imported
    from judge_eval.batch.state import Folder, Round


def tell_imported(found: Imported) -> None:
    """Say what an import found."""
    print(
        f"{found.imported:,} replies went into the cache, {found.rejected:,} could not be read, "
        f"{found.open:,} requests are open"
    )
    if found.doubled or found.unreadable:
        remark(f"{found.doubled:,} lines were doubled, {found.unreadable:,} are no replies")
    for counts, words in ((found.declined, "declined by the server"), (found.unanswered, "not answered")):
        for message, count in counts.most_common(3):
            remark(f"{count:,} {words}: {message}")


def tell_round(folder: Folder, given: Round) -> None:
    """Say how far the files of a round are."""
    print(f"round {given.number} in {folder.place(given.number)}")
    for part in given.parts:
        told = f"  {part.name}: {part.requests:,} requests, {part.bytes:,} bytes, {part.phase}"
        if part.batch_id:
            told += f" as {part.batch_id} ({part.status}, {part.completed:,} done, {part.failed:,} failed)"
        print(told + (f": {part.message}" if part.message else ""))
