"""What the benchmarks share: synthetic datasets, the mock server as a process, whole commands measured."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Took:
    """What a whole process took."""

    cpu: float
    """User and system seconds."""
    wall: float
    peak_mb: float
    """Peak resident memory of the process in MB."""
    code: int
    out: str
    read_mb: float = 0.0
    """MB that it read from files, from the disk or not; 0 where the system does not say."""


def measured(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Took:
    """Run a command to its end and say what it took, by the system's own accounting of that process."""
    with tempfile.TemporaryFile("w+") as out:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT)
        read_mb = _read_mb(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    return Took(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, process.returncode, text, read_mb)


def _read_mb(pid: int) -> float:
    """Wait for the end of a process, and return the MB that it read."""
    if not hasattr(os, "waitid") or not Path(f"/proc/{pid}/io").exists():
        return 0.0
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(counts["rchar"]) / 2**20


def judge_eval(*arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Took:
    """Measure a `judge-eval` command; it must succeed."""
    took = measured(sys.executable, "-m", "judge_eval", *arguments, cwd=cwd, env=env)
    if took.code:
        raise SystemExit(f"judge-eval {' '.join(arguments)} ended with {took.code}:\n{took.out}")
    return took


def dataset(path: Path, traces: int, chunks: int = 10, characters: int = 800, seed: int = 1) -> Path:
    """Write a synthetic dataset of distinct texts."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(3000)]

    def text(length: int) -> str:
        return " ".join(rng.choices(words, k=length // 5))[:length]

    with path.open("w", encoding="utf-8") as file:
        for place in range(traces):
            chunk_rows = [{"id": f"c{rank}", "text": text(characters)} for rank in range(chunks)]
            row = {"id": f"t{place}", "query": text(60), "reference": text(150), "chunks": chunk_rows}
            file.write(json.dumps(row) + "\n")
    return path


@contextmanager
def server(*arguments: str, kind: str = "chat") -> Iterator[str]:
    """Run the mock server of a kind (`chat`, `decision`) in a process of its own and yield its URL."""
    command = [sys.executable, "-m", f"tests.support.{kind}_server", "--no-keep", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield re.findall(r"http\S+", process.stdout.readline())[0]
    finally:
        process.terminate()
        process.wait(10)


def server_stats(url: str) -> dict[str, Any]:
    """Ask the mock server what it counted."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/_stats", timeout=10) as answer:
        messages: dict[str, Any] = json.load(answer)
    return messages


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with a key, a cache of its own, and nothing of the caller's settings.

    The key is as long as real ones, whose parts are looked for in what servers write. Modules are compiled once, as
    in a package that was installed, and not at each start.
    """
    ours = ("JUDGE_EVAL", "OPENAI", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    key = f"sk-proj-{''.join(random.Random(1).choices('abcdefghABCDEFGH0123456789_-', k=156))}"
    return kept | {"OPENAI_API_KEY": key, "XDG_CACHE_HOME": str(folder / "cache")}


def median(values: list[float]) -> float:
    """Return the middle value, the upper one of two."""
    return sorted(values)[len(values) // 2]
