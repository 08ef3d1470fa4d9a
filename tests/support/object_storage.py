"""A server that speaks S3 on loopback, and machines that judge into it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.support.command import CommandResult, Shell


def storage(port: int) -> subprocess.Popen[bytes]:
    """Start a server that speaks S3, with an empty bucket."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
            urllib.request.urlopen(request, timeout=60).close()
            return server
        except OSError:
            assert server.poll() is None, "the S3 server did not start: pip install --group dev"
            time.sleep(0.1)


class Stalling:
    """A way to a server on loopback that lets nothing through while `stalled` is set, and cuts nothing."""

    def __init__(self, port: int) -> None:
        self._there, self.stalled = port, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._there))
            for first, other in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(first, other), daemon=True).start()

    def _pass_on(self, first: socket.socket, other: socket.socket) -> None:
        with first, other, suppress(OSError):
            while block := first.recv(1 << 16):
                while self.stalled.is_set():
                    time.sleep(0.05)
                other.sendall(block)


class Machine:
    """A machine that judges into S3: a folder, a cache and a staging place of its own."""

    def __init__(self, folder: Path, s3: str) -> None:
        folder.mkdir()
        self.shell = Shell(folder)
        self.settings = {
            "AWS_ENDPOINT_URL": s3,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "topsecret99",
            "AWS_DEFAULT_REGION": "us-east-1",
            "OPENAI_API_KEY": "sk-test-1234567890",
            "JUDGE_EVAL_STAGING": str(folder / "staging"),
        }

    def __call__(self, *arguments: object, code: int = 0) -> CommandResult:
        """Run `judge-eval` to its end and check its exit code."""
        result = self.shell(*map(str, arguments), **self.settings)
        assert result.code == code, result.out + result.err
        assert "topsecret99" not in result.out + result.err
        return result

    def start(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Start `judge-eval`."""
        return self.shell.start(*map(str, arguments), **self.settings)


def there(url: str) -> list[str]:
    """List what lies behind a URL."""
    import fsspec

    system, base = fsspec.core.url_to_fs(url)
    return sorted(name.rpartition("runs/")[2] for name in system.find(base))
