"""Steps of a batch in processes of their own, killed at given moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from tests.support.batch_server import BatchServer


class Killer:
    """Runs steps of a batch in processes of their own and kills them with SIGKILL at given moments."""

    def __init__(self, server: BatchServer) -> None:
        self.server, self.kills = server, 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Start a step."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "judge_eval", *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "OPENAI_API_KEY": "sk-test-1234567890"},
        )
        return self._process

    def kill(self) -> None:
        """Kill the step that runs."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self.kills += 1

    def at(self, when: str, kind: str, *arguments: object) -> None:
        """Run a step and kill it before or after the server has done such a call, or when it is `asked`."""
        hooks = {"before": self.server.before, "after": self.server.after, "asked": self.server.asked}[when]
        hooks.setdefault(kind, []).append(self.kill)
        process = self.start(*arguments)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        hooks[kind].clear()

    def when(self, seen: Callable[[], bool], *arguments: object) -> None:
        """Run a step and kill it as soon as something is to be seen, unless it ends before."""
        process = self.start(*arguments)
        while process.poll() is None and not seen():
            time.sleep(0.0005)
        self.kill()
        process.communicate(timeout=60)

    def to_the_end(self, *arguments: object, codes: tuple[int, ...] = (0,)) -> int:
        """Run a step undisturbed."""
        process = self.start(*arguments)
        _, result = process.communicate(timeout=60)
        assert process.returncode in codes, result.decode()
        return process.returncode
