"""The commands of a batch's steps, as messages name them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge_eval.batch.state import Folder


def step(folder: Folder, verb: str) -> str:
    """Return the command of a step, with the hosts that only the folder names to it."""
    trusted = (f"--trust-host {host}" for host in folder.unnamed_hosts())
    return shlex.join(["judge-eval", "batch", verb, str(folder.path)]) + "".join(f" {each}" for each in trusted)
