"""Starting `judge-eval` quickly: a process that has imported all, of which each command is a fork.

Hundreds of commands are run by the tests, each in a process, a folder and an environment of its own. Most of
what such a process takes is importing the same modules; here one server has done so, and forks. What a
command is given and leaves behind is the same: arguments, standard streams, working folder, environment, exit
code. Tests of what starting itself does run an interpreter of their own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import random
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import NoReturn

import judge_eval
from judge_eval.record import Record

ROOT = Path(__file__).parent.parent.parent
CLIENT = r"""
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
asked = {"arguments": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}
asked = json.dumps(asked).encode()
socket.send_fds(line, [len(asked).to_bytes(4, "big")], [0, 1, 2])
line.sendall(asked)
line.recv(4)
told = line.recv(4)
sys.exit(int.from_bytes(told, "big") if told else 70)
"""
"""A program that has a command run with its own streams, folder and environment."""
FOREIGN = ("numpy", "openai", "typer.testing", "rich.progress", "asyncio", "sqlite3", "aiohttp", "tomllib")
"""What every second command imports, beside the package's own modules."""
OPTIONAL = ("distributed", "integrations", "pytest_plugin", "server", "__main__")
"""The rooms whose modules few commands import."""


@cache
def programs() -> Path:
    """Make a folder with the program `judge-eval`, for the front of a search path."""
    server = _server()
    folder = Path(server).parent
    (folder / "client.py").write_text(CLIENT, encoding="utf-8")
    program = folder / "judge-eval"
    line = shlex.join([sys.executable, "-I", "-S", str(folder / "client.py"), server])
    program.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return folder


def call(
    arguments: list[str], folder: Path, environment: Mapping[str, str], stdin: str | None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run `judge-eval` in a folder and wait for it; without `stdin` there is nothing to read."""
    if not _forkable(environment):
        return subprocess.run(
            [sys.executable, "-m", "judge_eval", *arguments],
            cwd=folder,
            env=dict(environment),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        socket.socket(socket.AF_UNIX) as line,
    ):
        given.write((stdin or "").encode("utf-8", "surrogateescape"))
        given.seek(0)
        line.settimeout(timeout)
        _ask(line, arguments, folder, environment, [each.fileno() for each in (given, out, err)])
        line.recv(4)
        result = line.recv(4)
        texts = []
        for each in (out, err):
            each.seek(0)
            texts.append(each.read().decode().replace("\r\n", "\n").replace("\r", "\n"))
        code = int.from_bytes(result, "big", signed=True) if result else 70
        return subprocess.CompletedProcess(arguments, code, *texts)


def _ask(
    line: socket.socket, arguments: list[str], folder: Path, environment: Mapping[str, str], streams: list[int]
) -> None:
    """Have a command run; its number as a process comes back at once, its exit code when it has ended."""
    line.connect(_server())
    asked = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
    data = json.dumps(asked).encode()
    socket.send_fds(line, [len(data).to_bytes(4, "big")], streams)
    line.sendall(data)


class Forked:
    """A command that runs in a fork, to be killed or waited for; what it says goes into a file."""

    def __init__(self, arguments: list[str], folder: Path, environment: Mapping[str, str], said: Path) -> None:
        self._line = socket.socket(socket.AF_UNIX)
        with said.open("wb") as out, Path(os.devnull).open("rb") as nothing:
            _ask(self._line, arguments, folder, environment, [each.fileno() for each in (nothing, out, out)])
        self._pid = int.from_bytes(self._line.recv(4), "big")

    def kill(self) -> None:
        """Kill it with SIGKILL, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def ended(self) -> bool:
        """Tell whether it has ended."""
        return bool(select.select([self._line], [], [], 0)[0])

    def wait(self, timeout: float = 60) -> int:
        """Wait until it has ended, and return its exit code."""
        self._line.settimeout(timeout)
        with self._line:
            return int.from_bytes(self._line.recv(4), "big", signed=True)


def _forkable(environment: Mapping[str, str]) -> bool:
    """Tell whether the interpreter itself would start as the server did."""
    own = {name for name in environment if name.startswith(("PYTHON", "LC_", "LANG"))} - {"PYTHONPATH"}
    here = environment.get("PYTHONPATH", str(ROOT)) == str(ROOT)
    return here and all(environment[name] == os.environ.get(name) for name in own)


@cache
def _server() -> str:
    """Start the server of this process, and return where it listens."""
    folder = tempfile.mkdtemp(prefix="judge-eval-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = str(Path(folder) / "fork")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUDGE_EVAL", "OPENAI"))}
    more = {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, path], env=kept | more, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    atexit.register(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return path


def serve(path: str) -> NoReturn:
    """Listen, and run each command that is asked for in a fork."""
    _warm()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(64)
        os.write(1, b"ready\n")
        while True:
            line, _ = door.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                door.close()
                _watch(line)
            line.close()


def _warm() -> None:
    """Import what commands import, and compile the records, which a command does when it needs one."""
    for name in FOREIGN:
        with contextlib.suppress(ImportError):
            import_module(name)
    for match in walk_packages(judge_eval.__path__, "judge_eval."):
        if not any(part in OPTIONAL for part in match.name.split(".")):
            with contextlib.suppress(ImportError):
                import_module(match.name)
    waiting = [Record]
    while waiting:
        record = waiting.pop()
        waiting += record.__subclasses__()
        record.model_rebuild()
    gc.freeze()


def _watch(line: socket.socket) -> NoReturn:
    """Run one command in a fork, and tell its exit code."""
    size, streams, _, _ = socket.recv_fds(line, 4, 3)
    data = b""
    while len(data) < int.from_bytes(size, "big"):
        data += line.recv(1 << 16)
    child = os.fork()
    if child == 0:
        line.close()
        _run(json.loads(data), streams)
    line.sendall(child.to_bytes(4, "big"))
    _, status = os.waitpid(child, 0)
    line.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
    os._exit(0)


def _run(asked: dict[str, object], streams: list[int]) -> NoReturn:
    code = 70
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
        os.chdir(str(asked["folder"]))
        os.environ.clear()
        os.environ.update(dict(asked["environment"]))  # type: ignore[call-overload]
        random.seed()
        sys.argv = ["judge-eval", *asked["arguments"]]  # type: ignore[misc]
        from judge_eval.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
