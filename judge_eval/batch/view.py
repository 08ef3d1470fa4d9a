"""What people read of a batch: its files, and what an import brought."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from judge_eval.batch.pending import KnownAnswers
from judge_eval.batch.state import Folder, Part, Round
from judge_eval.safe_text import counted
from judge_eval.views.blocks import Remark, Section, Sentence, View, ViewBlock


def imported_view(imported: KnownAnswers) -> View:
    """Say what an import brought; what it could not use are remarks."""
    replies = imported.replies
    blocks: list[ViewBlock] = [
        Sentence(
            f"{imported.imported:,} replies went into the cache, {imported.rejected:,} could not be read, "
            f"{len(imported.open):,} requests are open"
        )
    ]
    several = ((replies.doubled, "line is repeated", "lines are repeated"),
               (replies.unreadable, "line is no reply", "lines are no replies"))  # fmt: skip
    if odd_lines := ", ".join(counted(number, noun, many) for number, noun, many in several if number):
        blocks.append(Remark("lines", odd_lines))
    for counts, words in ((replies.declined, "declined by the server"), (replies.unanswered, "not answered")):
        blocks += [Remark(words, f"{n:,} {words}: {message}") for message, n in counts.most_common(3)]
    return View("import", (Section("import", tuple(blocks)),))


def step(folder: Folder, verb: str) -> str:
    """Return the command of a step, with the hosts that only the folder names to it."""
    trusted = [word for host in folder.unnamed_hosts() for word in ("--trust-host", host)]
    return shlex.join(["judge-eval", *trusted, "batch", verb, str(folder.path)])


def foreign_view(lines: Mapping[Path, Sequence[int]]) -> View:
    """Name the lines of files of replies that answer no request of the batch."""
    remarks = []
    for path, numbers in lines.items():
        named = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
        some = counted(len(numbers), "line answers", "lines answer")
        remarks.append(Remark("lines", f"{path}: {some} no request of this batch: {named}"))
    return View("foreign", (Section("foreign", tuple(remarks)),))


def round_view(folder: Folder, round_: Round) -> View:
    """Say how far the files of a round are, a line each."""
    title = Sentence(f"round {round_.number} in {folder.place(round_.number)}")
    return View("round", (Section("files", (title, *(Sentence(_line(part)) for part in round_.parts))),))


def _line(part: Part) -> str:
    line = f"  {part.name}: {part.requests:,} requests, {part.bytes:,} bytes, {part.phase}"
    if part.batch_id:
        line += f" as {part.batch_id} ({part.status}, {part.completed:,} done, {part.failed:,} failed)"
    return line + (f": {part.message}" if part.message else "")
