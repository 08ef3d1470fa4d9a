"""Nothing in a folder of runs leads out of it: no link is followed, to read or to write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.errors import RunError
from judge_eval.eval_run import EvalRun
from judge_eval.files import open_plain, read_plain, write_atomically
from judge_eval.runs.folder.labels import Label, add_label, given_labels, people_labels
from judge_eval.runs.judging.merge import merge
from judge_eval.runs.keeping.lookup import find_run, list_runs, listing, newest_of
from judge_eval.runs.keeping.transfer import push
from tests.runs.folder.test_integrity import YES, judged, shard
from tests.support.application import CliRunner, app
from tests.support.runs import evaluator, traces

SECRET = b"nobody else's business\n"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file elsewhere, which must neither be read nor written."""
    path = tmp_path / "victim"
    path.write_bytes(SECRET)
    return path


def plant(folder: Path, name: str, victim: Path) -> None:
    """Put a link in the place of a file."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(victim)


USES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "manifest": ("manifest.json", EvalRun.load),
    "results": ("results.jsonl", lambda folder: list(EvalRun.load(folder).results)),
    "labels read": ("labels.jsonl", people_labels),
    "labels written": ("labels.jsonl", lambda f: add_label(f, Label(trace_id="q", chunk_id="c", label=1))),
    "lock taken to resume": (".lock", lambda f: evaluator(YES).evaluate(traces(12), resume=f)),
    "lock taken to push": (".lock", lambda f: push(f, f"file://{f.parent}/there")),
    "results resumed": ("results.jsonl", lambda f: evaluator(YES).evaluate(traces(12), resume=f)),
    "labels pushed": ("labels.jsonl", lambda f: push(f, f"file://{f.parent}/there")),
    "results merged": ("results.jsonl", lambda f: merge([f, shard(f.parents[1], 2)], f.parent / "merged")),
}


@pytest.mark.foreign
@pytest.mark.parametrize("use", USES)
def test_a_link_in_the_place_of_a_file_is_refused(tmp_path: Path, victim: Path, use: str) -> None:
    """The message names the file; what the link leads to is as it was, and was copied nowhere."""
    name, act = USES[use]
    if name == ".lock" and use.endswith("push"):
        pytest.importorskip("fsspec")
    folder = shard(tmp_path, 1) if use == "results merged" else judged(tmp_path / "runs")
    plant(folder, name, victim)
    with pytest.raises(RunError, match="link"):
        act(folder)
    assert victim.read_bytes() == SECRET
    copies = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in copies if path != victim and SECRET in path.read_bytes()] == []


def test_a_planted_temporary_file_is_not_written_through(tmp_path: Path, victim: Path) -> None:
    """A file that is replaced whole is written under a name that nobody can have prepared."""
    target = tmp_path / "manifest.json"
    planted = tmp_path / f".{target.name}.{os.getpid()}.tmp"
    planted.symlink_to(victim)
    write_atomically(target, b"new")
    assert (target.read_bytes(), victim.read_bytes()) == (b"new", SECRET)
    plant(tmp_path, target.name, victim)
    write_atomically(target, b"newer")  # the link itself is replaced
    assert (target.read_bytes(), victim.read_bytes()) == (b"newer", SECRET)
    assert not target.is_symlink()


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe in the place of a file would hold its reader for ever."""
    os.mkfifo(tmp_path / "pipe")
    for mode in ("rb", "ab", "ab+"):
        with pytest.raises(OSError, match=r"regular file|No such device"):
            open_plain(tmp_path / "pipe", mode)  # type: ignore[arg-type]
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_plain(tmp_path / "large", 10)


def test_a_run_that_is_a_link_is_listed_as_such(tmp_path: Path) -> None:
    """It is neither listed as a run, nor found as the newest, nor resumed; its owner names the folder."""
    elsewhere = judged(tmp_path / "elsewhere")
    root = tmp_path / "runs"
    own = judged(root)
    (root / "zz-link").symlink_to(elsewhere)
    assert [folder for folder, _ in list_runs(root)] == [own]
    assert find_run("latest", root) == own
    assert newest_of(root, EvalRun.load(elsewhere).manifest.dataset.digest, done=False) is None
    ((folder, error),) = listing(root).unreadable
    assert (folder.name, "it is a link" in str(error)) == ("zz-link", True)
    assert find_run(str(root / "zz-link"), root) == root / "zz-link"
    shutil.rmtree(own)
    with pytest.raises(RunError, match="none of 1 can be read, such as zz-link: it is a link"):
        find_run("latest", root)


def test_a_folder_of_runs_may_be_reached_through_a_link(tmp_path: Path) -> None:
    """Links on the way to the runs are of whoever named it."""
    (tmp_path / "there").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "there")
    folder = judged(tmp_path / "runs")
    assert [result for result, _ in list_runs(tmp_path / "runs")] == [folder]
    assert len(EvalRun.load(folder).results) == 12
    add_label(folder, Label(trace_id="q1", chunk_id="q1-a", label=1))
    assert len(given_labels(folder, 1)) == 1


BROKEN = {
    "torn": b'{"v": 1, "id": "',
    "deep": b"[" * 200_000,
    "deep and of a later version": b'{"v": 9, "judge": ' + b'{"a":' * 100_000,
    "no UTF-8": b"\xff\xfe",
    "naive time": b'"created"',
    "no time": b'"year 1"',
    "a number": b"1",
    "empty": b"",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_manifest_hides_nothing_else(tmp_path: Path, kind: str) -> None:
    """What is asked for is found; the broken one is listed with what is wrong."""
    root = tmp_path / "runs"
    own, other = judged(root), judged(root)
    manifest = other / "manifest.json"
    if kind == "naive time":
        text = manifest.read_text()
        start = text.index('"created": "')
        end = text.index('",', start)
        manifest.write_text(text[:start] + '"created": "2099-01-01T00:00:00' + text[end:])
    elif kind == "no time":
        text = manifest.read_text()
        start = text.index('"created": "')
        end = text.index('",', start)
        manifest.write_text(text[:start] + '"created": "0001-01-01T00:00:00+14:00' + text[end:])
    else:
        manifest.write_bytes(BROKEN[kind])
    assert [folder for folder, _ in list_runs(root)] == [own]
    assert find_run("latest", root) == own
    assert find_run(EvalRun.load(own).id[:8], root) == own
    with pytest.raises(RunError, match=r"manifest.json: "):
        find_run(other.name, root)
    result = CliRunner().invoke(app, ["runs", "list", "--out", str(root)])
    assert result.exit_code == 0, result.output
    assert "unreadable" in result.stdout
    assert f"{other.name}/manifest.json: not a run's manifest" in " ".join(result.stdout.split()) or kind.endswith(
        "version"
    )
    listed = CliRunner().invoke(app, ["runs", "list", "--out", str(root), "--json"])
    assert listed.exit_code == 0
    assert listed.stdout.count('"dataset"') == 1
    assert "unreadable: " in listed.stderr
