"""Steps of a batch in processes of their own, killed at given moments."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from tests.support.batch_server import BatchServer
from tests.support.forking import ROOT, Forked


class Killer:
    """Runs steps of a batch in processes of their own and kills them with SIGKILL at given moments."""

    def __init__(self, server: BatchServer) -> None:
        self.server, self.kills = server, 0
        self._process: Forked | None = None
        folder = mkdtemp(prefix="judge-eval-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._said = Path(folder) / "said"

    def start(self, *arguments: object) -> Forked:
        """Start a step."""
        environment = {**os.environ, "OPENAI_API_KEY": "sk-test-1234567890", "PYTHONPATH": str(ROOT)}
        self._process = Forked([*map(str, arguments)], Path.cwd(), environment, self._said)
        return self._process

    def kill(self) -> None:
        """Kill the step that runs."""
        assert self._process is not None
        self._process.kill()

    def at(self, when: str, kind: str, *arguments: object) -> None:
        """Run a step and kill it before or after the server has done such a call, or when it is `asked`."""
        hooks = {"before": self.server.before, "after": self.server.after, "asked": self.server.asked}[when]
        hooks.setdefault(kind, []).append(self.kill)
        assert self._ended(self.start(*arguments)) == -signal.SIGKILL
        hooks[kind].clear()

    def when(self, seen: Callable[[], bool], *arguments: object) -> None:
        """Run a step and kill it as soon as something is to be seen, unless it ends before."""
        process = self.start(*arguments)
        while not process.ended() and not seen():
            time.sleep(0.0005)
        self.kill()
        self._ended(process)

    def to_the_end(self, *arguments: object, codes: tuple[int, ...] = (0,)) -> int:
        """Run a step undisturbed."""
        code = self._ended(self.start(*arguments))
        assert code in codes, self._said.read_text()
        return code

    def _ended(self, process: Forked) -> int:
        code = process.wait()
        self.kills += code == -signal.SIGKILL
        return code
