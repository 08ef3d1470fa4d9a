"""The folder of a batch from someone else: nothing outside it is read, sent or written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.batch_server import BatchServer
from tests.support.batching import call, export

SECRET = "a file of this machine that is nobody's business"


def edit(folder: Path, **changes: Any) -> None:
    """Edit the first part, or with `given` the round, as somebody who writes a `batch.json`."""
    state = json.loads((folder / "batch.json").read_text())
    round_ = state["rounds"][0]
    (round_ if "given" in changes or "number" in changes else round_["parts"][0]).update(changes)
    (folder / "batch.json").write_text(json.dumps(state))


def describes(path: Path) -> dict[str, Any]:
    """Return what `batch.json` would say of a file."""
    data = path.read_bytes()
    return {"digest": hashlib.sha256(data).hexdigest(), "bytes": len(data), "requests": data.count(b"\n")}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside the batch's folder."""
    path = tmp_path / "secret.txt"
    path.write_text(SECRET)
    return path


@pytest.mark.parametrize("name", ["../../secret.txt", "/etc/passwd", "part-1/../../../secret.txt", "", "."])
def test_a_part_has_the_name_that_an_export_writes(name: str, data: Path, tmp_path: Path, secret: Path) -> None:
    """No other name in `batch.json` is joined to the folder: not to upload, not to fetch."""
    with BatchServer() as server:
        export(server, data, tmp_path / "b")
        edit(tmp_path / "b", name=name, **describes(secret))
        for verb in ("submit", "fetch", "status"):
            assert "batch.json" in call("batch", verb, tmp_path / "b", code=2).output
        assert not server.files


@pytest.mark.parametrize("name", ["../../secret.txt", "given-0123456789abcdef.jsonl/../../../secret.txt"])
def test_replies_have_the_names_that_an_import_writes(name: str, data: Path, tmp_path: Path) -> None:
    """No other name among `given` is read."""
    with BatchServer() as server:
        export(server, data, tmp_path / "b")
        edit(tmp_path / "b", given=[name])
        assert "batch.json" in call("batch", "import", tmp_path / "b", "-q", code=2).output


@pytest.mark.slow
def test_no_link_in_the_folder_is_followed(data: Path, tmp_path: Path, secret: Path) -> None:
    """A link in the place of a part, of replies, of a round or of `batch.json` is refused."""
    with BatchServer() as server:
        folder = tmp_path / "b"
        export(server, data, folder)
        part = folder / "round-1" / "part-0001.jsonl"
        kept = part.read_bytes()
        part.unlink()
        part.symlink_to(secret)
        edit(folder, **describes(secret))
        assert "link" in call("batch", "submit", folder, code=2).output
        assert SECRET.encode() not in server.files.values()
        part.unlink()
        part.write_bytes(kept)
        edit(folder, **describes(part))
        call("batch", "submit", folder)
        (folder / "round-1").rename(tmp_path / "elsewhere")
        (folder / "round-1").symlink_to(tmp_path / "elsewhere")
        before = sorted((tmp_path / "elsewhere").iterdir())
        assert "link" in call("batch", "fetch", folder, code=2).output
        assert sorted((tmp_path / "elsewhere").iterdir()) == before
        (folder / "round-1").unlink()
        (tmp_path / "elsewhere").rename(folder / "round-1")
        call("batch", "fetch", folder)
        output = folder / "round-1" / "part-0001.jsonl.output"
        output.rename(tmp_path / "replies")
        output.symlink_to(tmp_path / "replies")
        assert "link" in call("batch", "import", folder, "-q", code=2).output
        output.unlink()
        (folder / "batch.json").rename(tmp_path / "state")
        (folder / "batch.json").symlink_to(tmp_path / "state")
        assert "link" in call("batch", "status", folder, code=2).output


@pytest.mark.slow
def test_a_changed_part_is_not_ordered(data: Path, tmp_path: Path) -> None:
    """A part that was cut, or got other lines, differs from what was recorded: it is not uploaded."""
    with BatchServer() as server:
        folder = tmp_path / "b"
        export(server, data, folder)
        part = folder / "round-1" / "part-0001.jsonl"
        lines = part.read_bytes().splitlines(keepends=True)
        for changed in (b"".join(lines[:3]) + b"garbage", b"".join(reversed(lines)), b""):
            part.write_bytes(changed)
            output = call("batch", "submit", folder, code=2).output
            assert "part-0001.jsonl" in output
            assert "export" in output
            assert not server.files
            assert not server.batches
        part.unlink()
        assert "part-0001.jsonl" in call("batch", "submit", folder, code=2).output
        part.write_bytes(b"".join(lines))
        call("batch", "submit", folder)
        assert next(iter(server.files.values())) == b"".join(lines)
