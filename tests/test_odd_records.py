"""One odd record in a file that we read is an error that says so, or nothing: never an internal error."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import FIXTURES
from tests.support.desk import Desk
from tests.support.every_kind import BATCH, BINARY, CASCADE, CLAIMS, FAKE, RUN, write_kinds
from tests.support.odd import mutated, odd_spelling

Spoil = Callable[[Path, random.Random], None]
ODD_TOML = (
    "nan", "-inf", "1e400", "-1", "true", '""', "[]", "{}", "[[]]", "{ a = { b = [] } }", "'''", "9" * 400,
    '"\\u0000"', '"\\u202e"', f'"{"x" * 70_000}"', '"file:/dev/zero"', '"../../etc/passwd"', '"openai/"', "0",
    '"http://[::1"', '"http://judge.example/v1"', "1979-05-27T07:32:00Z", "", "[1, 'a']",
)  # fmt: skip
"""Values that stand in the place of right ones; the server that one of them names must not be asked."""


def spoil_json(path: Path, rng: random.Random) -> None:
    """Change one record of a file: a line of several, or the whole."""
    lines = path.read_bytes().splitlines(keepends=True) if path.suffix == ".jsonl" else [path.read_bytes()]
    place = rng.randrange(len(lines))
    lines[place] = odd_spelling(mutated(json.loads(lines[place]), rng), rng) + b"\n"
    path.write_bytes(b"".join(lines))


def spoil_toml(path: Path, rng: random.Random) -> None:
    """Change one line of a file: another value, twice the same, or left out; or some bytes anywhere."""
    lines = path.read_text(encoding="utf-8").splitlines()
    place, kind = rng.randrange(len(lines)), rng.random()
    name, equals, _ = lines[place].partition(" = ")
    if equals and kind < 0.7:
        lines[place] = f"{name} = {rng.choice(ODD_TOML)}"
    elif kind < 0.8:
        lines.insert(place, lines[place])
    elif kind < 0.9:
        del lines[place]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if kind >= 0.9:
        spoil_bytes(path, rng)


def spoil_bytes(path: Path, rng: random.Random) -> None:
    """Cut a file, or write other bytes over some of it, in it, or behind it."""
    data, odd = bytearray(path.read_bytes()), rng.randbytes(rng.randrange(1, 40))
    at = rng.randrange(len(data))
    end = rng.choice((at, at + len(odd), len(data)))
    data[at:end] = odd if rng.random() < 0.8 else b""
    path.write_bytes(data)


def spoil_row(path: Path, rng: random.Random) -> None:
    """Change the value of one row of a cache, or one of its other columns."""
    with closing(sqlite3.connect(path)) as database, database:
        rows = database.execute("select rowid, value from Cache").fetchall()
        row, value = rng.choice(rows)
        column = rng.choice(("value", "value", "value", "mode", "filename", "key", "raw", "expire_time"))
        odd = rng.choice([odd_spelling(mutated(["", "stop", [1, 2, 0, 0], "m", []], rng), rng), value[:-1], b""])
        if column != "value":
            odd = rng.choice((None, 4, -1, "/etc/passwd", b"\x80\x04."))
        database.execute(f"update or ignore Cache set {column} = ? where rowid = ?", (odd, row))


@dataclass(frozen=True)
class Kind:
    """A file that a command reads, and how one record of it is spoiled."""

    file: str
    command: tuple[str, ...]
    spoil: Spoil = spoil_json
    derived: bool = False
    """Whether the file only saves work, so that the command ends as without the fault."""


SCORE = ("score", "runs/confidence", "--metrics", "SoftP@5", "--out", "new")
KINDS = {
    "manifest": Kind("runs/overlap/manifest.json", ("show", "runs/overlap")),
    "manifest, verified": Kind("runs/overlap/manifest.json", ("runs", "verify", "runs/overlap")),
    "results": Kind("runs/panel/results.jsonl", ("report", "runs/panel", "-o", "new.html")),
    "results, verified": Kind("runs/panel/results.jsonl", ("runs", "verify", "runs/panel")),
    "labels of a run": Kind("runs/overlap/labels.jsonl", ("agree", "runs/overlap")),
    "labels": Kind("labels.jsonl", ("agree", "runs/overlap", "labels.jsonl")),
    "cassette": Kind("cassette.jsonl", (*RUN, *BINARY, "--replay", "cassette.jsonl")),
    "cache row": Kind("answers/cache.db", (*RUN, *BINARY, "--cache", "answers"), spoil_row, derived=True),
    "traces": Kind("traces.jsonl", (*RUN, *BINARY)),
    "claims": Kind(
        CLAIMS, ("run", "traces.jsonl", "--mode", "claims", "--claims", CLAIMS, *RUN[2:], *FAKE)
    ),
    "batch": Kind(f"{BATCH}/batch.json", ("batch", "status", BATCH)),
    "cascade": Kind(CASCADE, ("run", "traces.jsonl", "--judge", CASCADE, "--dry-run")),
    "calibration": Kind("calibration.json", (*SCORE, "--calibration", "calibration.json")),
    "judge file": Kind("judge.toml", (*RUN, "--judge", "judge.toml"), spoil_toml),
    "judge file as JSON": Kind("judge.json", (*RUN, "--judge", "judge.json")),
    "prompt": Kind("own.toml", (*RUN, *FAKE, "--prompt", "file:own.toml"), spoil_toml),
    "configuration": Kind("own/judge_eval.toml", ("run", "../traces.jsonl"), spoil_toml),
}  # fmt: skip
JUDGE = {"model": "fake/overlap", "prompt": "support/binary", "evidence": "flag", "relevant": 1, "repeat": 1}
CONFIGURATION = """
model = "fake/overlap"
prompt = "support/binary"
metrics = ["AP@5", "NDCG@5"]
label = "configured"
tags = ["nightly"]
out = "../new"
cache = "../new/cache"
concurrency = 8
fail_under = { "AP@5" = 0.1 }
base_url = "http://127.0.0.1:9/v1"
"""
SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]


def contents(folder: Path) -> dict[Path, bytes]:
    """Read every file that is not a command's own product."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in paths if path.relative_to(folder).parts[0] not in ("new", "xdg")}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Path, bytes]]:
    """A folder with a file of every kind, and what is in it."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("kept")
    shutil.copy(FIXTURES / "prompt_de.toml", folder / "own.toml")
    lines = (FIXTURES / "docs_qa.jsonl").read_bytes().splitlines(keepends=True)[:3]
    (folder / "traces.jsonl").write_bytes(b"".join(lines))
    (folder / "judge.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in JUDGE.items()))
    (folder / "judge.json").write_text(json.dumps(JUDGE))
    (folder / "own").mkdir()
    (folder / "own" / "judge_eval.toml").write_text(CONFIGURATION)
    rows = [json.loads(line) for line in (folder / "traces.jsonl").read_text().splitlines()]
    label = {"by": "a", "blind": True, "given": "2026-01-01T00:00:00Z"}
    labels = [
        {"trace_id": row["id"], "chunk_id": chunk["id"], "label": chunk["label"], **label}
        for row in rows[:3]
        for chunk in row["chunks"]
    ]
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        Desk.at(folder, patch, None)  # type: ignore[arg-type]
        write_kinds(Desk(folder, patch, lambda: ("", "")))
    (folder / "runs/overlap/labels.jsonl").write_text("".join(json.dumps(each) + "\n" for each in labels))
    return folder, contents(folder)


@pytest.fixture
def desk(
    kept: tuple[Path, dict[Path, bytes]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Desk]:
    """That folder, in which every file stands again as it was afterwards."""
    folder, whole = kept
    yield Desk.at(folder, monkeypatch, capsys)
    shutil.rmtree(folder / "new", ignore_errors=True)
    for path, data in contents(folder).items():
        if path not in whole:
            path.unlink()
        elif data != whole[path]:
            path.write_bytes(whole[path])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", KINDS)
def test_an_odd_record_is_an_error_of_its_own(
    name: str, seed: int, desk: Desk, kept: tuple[Path, dict[Path, bytes]]
) -> None:
    """The command ends with a documented code in words that name the file, and no other file is changed."""
    kind, rng = KINDS[name], random.Random(f"{name} {seed}")
    folder, whole = kept
    path = folder / kind.file
    if path.name == "judge_eval.toml":  # it is of the folder in which a command is called
        desk.patch.chdir(path.parent)
    honest = desk(*kind.command, OPENAI_API_KEY="x") if kind.derived else None
    shutil.rmtree(folder / "new", ignore_errors=True)
    kind.spoil(path, rng)
    spoiled = path.read_bytes()
    result = desk(*kind.command, OPENAI_API_KEY="x")
    assert result.code in (0, 1, 2, 3), result
    assert "Traceback" not in result.err
    if result.code == 2:
        assert any(word in result.out + result.err for word in (path.name, path.parent.name, f"this {name}")), result
    if honest is not None:
        assert result.code == 0, result
        assert figures(result.out) == figures(honest.out)
    now = contents(folder)
    changed = {each for each, data in whole.items() if now.get(each) != data and each != path}
    assert {each.name for each in changed} <= {"cache.db"}, changed
    assert kind.derived or now[path] == spoiled


def figures(text: str) -> list[str]:
    """Return the lines of a summary that hold figures."""
    return [line for line in text.splitlines() if "@" in line or "MRR" in line]
