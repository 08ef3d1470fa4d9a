"""The commands of a batch's steps, as messages name them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge_eval.batch.state import Folder


def step(folder: Folder, verb: str) -> str:
    """Return the command of a step, with the hosts that only the folder names to it."""
    trusted = [word for host in folder.unnamed_hosts() for word in ("--trust-host", host)]
    return shlex.join(["judge-eval", *trusted, "batch", verb, str(folder.path)])
