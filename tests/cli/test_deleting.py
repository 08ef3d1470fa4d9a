from __future__ import annotations

from judge_eval.files import hold
from judge_eval.runs.keeping.lookup import run_folders
from tests.support.command import FIXTURES
from tests.support.desk import Desk


def test_a_run_is_removed_after_a_yes(desk: Desk) -> None:
    """Without --yes it is asked first, and nothing is removed without an answer; then the folder is gone."""
    for label in ("keep", "trial"):
        done = desk("run", FIXTURES / "docs_qa.jsonl", "--model", "fake/overlap", "--limit", "3", "--label", label)
        assert done.code == 0
    refused = desk("runs", "delete", "label:trial")
    assert refused.code == 130
    assert len([*run_folders(desk.folder / "runs")]) == 2
    removed = desk("runs", "delete", "label:trial", "--yes")
    assert (removed.code, removed.out.endswith(": removed\n")) == (0, True)
    assert [manifest.label for _, manifest in run_folders(desk.folder / "runs")] == ["keep"]
    again = desk("runs", "delete", "label:trial", "--yes")
    assert (again.code, "no run labelled 'trial'" in again.err) == (2, True)


def test_a_run_that_is_being_judged_stays(desk: Desk) -> None:
    """While a process holds the lock of its folder, a run is not removed, and the message says why."""
    assert desk("run", FIXTURES / "docs_qa.jsonl", "--model", "fake/overlap", "--limit", "3").code == 0
    (folder,) = (folder for folder, _ in run_folders(desk.folder / "runs"))
    with (folder / ".lock").open("ab") as lock:
        assert hold(lock)
        busy = desk("runs", "delete", "latest", "--yes")
    assert (busy.code, folder.is_dir()) == (2, True)
    assert "while a process is judging it" in busy.err
