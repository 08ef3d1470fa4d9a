"""The Hugging Face Hub's API of files on loopback: models that lie in folders, sent whole or cut."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Hub(BaseHTTPRequestHandler):
    root: Path
    cut: tuple[str, ...] = ()
    sent: list[str]

    def do_HEAD(self) -> None:
        """Answer as to a GET, without a body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Tell of a model, list its files, or send one."""
        content, kind = self._content(unquote(self.path.partition("?")[0]))
        if content is None:
            self.send_response(404)
            self.send_header("X-Error-Code", kind)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        for name, value in {
            "X-Repo-Commit": COMMIT,
            "Content-Type": kind,
            "ETag": f'"{hashlib.sha1(content).hexdigest()}"',
            "Content-Length": str(len(content)),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            if kind == "application/octet-stream":
                self.sent.append(self.path)
            is_cut = self.path.endswith(self.cut) if self.cut else False
            self.wfile.write(content[: len(content) // 2] if is_cut else content)

    def _content(self, path: str) -> tuple[bytes | None, str]:
        parts = path.removeprefix("/api/models").strip("/").split("/")
        folder = self.root.joinpath(*parts[:2])
        if not folder.is_dir():
            return None, "RepoNotFound"
        files = sorted(each for each in folder.rglob("*") if each.is_file())
        names = [each.relative_to(folder).as_posix() for each in files]
        if path.startswith("/api/models/") and parts[2] == "revision":
            told: Any = {"id": "/".join(parts[:2]), "sha": COMMIT, "siblings": [{"rfilename": each} for each in names]}
        elif path.startswith("/api/models/") and parts[2] == "tree":
            told = [
                {"type": "file", "path": name, "size": file.stat().st_size,
                 "oid": hashlib.sha1(file.read_bytes()).hexdigest()}
                for name, file in zip(names, files, strict=True)
            ]  # fmt: skip
        elif parts[2:4] == ["resolve", COMMIT] and (name := "/".join(parts[4:])) in names:
            return (folder / name).read_bytes(), "application/octet-stream"
        else:
            return None, "EntryNotFound"
        return json.dumps(told).encode(), "application/json"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving_models(root: Path, cut: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Serve the models `ORG/NAME` in a folder; yields the endpoint and the paths of the files that were sent.

    Of files whose paths end with one of `cut`, half is sent.
    """
    sent = list[str]()
    handler = type("Hub", (_Hub,), {"root": root, "cut": cut, "sent": sent})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", sent
        finally:
            server.shutdown()
