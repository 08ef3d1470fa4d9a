from datetime import UTC, datetime
from pathlib import Path

import pytest

from judge_eval.errors import RunError
from judge_eval.runs.folder.journal import Journal
from judge_eval.runs.folder.records import Dataset, Manifest, Status
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.keeping.lookup import find_run, list_runs, newest_of


def make(root: Path, run_id: str, day: int, status: Status = "done", **more: object) -> Path:
    """Write a run without results."""
    manifest = Manifest.parse(
        {
            "id": run_id,
            "created": datetime(2026, 1, day, tzinfo=UTC),
            "dataset": Dataset(name="data", digest=str(more.pop("digest", "d"))),
            "judge": {},
            "backend": {},
            "metrics": ("MRR",),
            "status": status,
            **more,
        }
    )
    folder = root / f"folder-{run_id}"
    journal = Journal(folder, manifest)
    journal.finish(manifest)
    journal.close()
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Lay down three runs and what is no run."""
    whole = {"tally": {"traces": 1, "verdicts": 2}}
    make(tmp_path, "aaaa1111", 1, label="main", tags=("prod", "nightly"), **whole)
    make(tmp_path, "aaaa2222", 3, label="main", tags=("prod",), status="failed")
    make(tmp_path, "bbbb3333", 2, label="PR #111", **whole)
    (tmp_path / "no run").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text("{")
    return tmp_path


def test_runs_are_listed_newest_first(root: Path) -> None:
    """What is no run is passed over; label and tags filter."""

    def ids(**wanted: object) -> list[str]:
        return [manifest.id for _, manifest in list_runs(root, **wanted)]  # type: ignore[arg-type]

    assert ids() == ["aaaa2222", "bbbb3333", "aaaa1111"]
    assert ids(label="main") == ["aaaa2222", "aaaa1111"]
    assert ids(tags=["prod", "nightly"]) == ["aaaa1111"]
    assert ids(label="main", tags=["absent"]) == []
    assert list_runs(root / "absent") == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("bbbb3333", "bbbb3333"),
        ("bbbb", "bbbb3333"),
        ("aaaa1", "aaaa1111"),
        ("label:main", "aaaa1111"),
        ("label:PR #111", "bbbb3333"),
        ("latest", "bbbb3333"),
        ("folder-aaaa1111", "aaaa1111"),
    ],
)
def test_a_run_is_found_by_its_names(root: Path, name: str, found: str) -> None:
    """Id, start of an id, folder name, and of a label or of all the newest that did not fail find a run."""
    assert find_run(name, root) == root / f"folder-{found}"
    assert find_run(str(root / f"folder-{found}"), root) == root / f"folder-{found}"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("aaaa", "'aaaa' is the start of 2 run ids"),
        ("bbb", "no run 'bbb'"),
        ("lastest", "did you mean 'latest'"),
        ("x" * 300, "no run 'xxx"),
        ("a\0b", "no run 'a"),
        ("bbbb3334", "did you mean 'bbbb3333'"),
        ("label:mian", "no run labelled 'mian' .* did you mean 'main'"),
    ],
)
def test_what_is_not_found_is_advised(root: Path, name: str, told: str) -> None:
    """A wrong name says what was looked for and what is near."""
    with pytest.raises(RunError, match=told):
        find_run(name, root)


def test_a_folder_without_a_run_is_no_run(root: Path) -> None:
    """A folder that holds no run is not searched for one."""
    with pytest.raises(RunError, match="it has no manifest"):
        find_run(str(root / "no run"), root)
    with pytest.raises(RunError, match="no run 'latest'"):
        find_run("latest", root / "no run")


def test_the_newest_unfinished_run_of_the_same_data(root: Path) -> None:
    """Runs of the same data that did not finish come first, each with its manifest; then whole ones."""
    assert newest_of(root, "d") == (root / "folder-aaaa2222", load_manifest(root / "folder-aaaa2222"))
    assert newest_of(root, "other", done=False) is None
    make(root, "cccc4444", 9, status="interrupted", digest="other")
    folder, _ = newest_of(root, "other", done=False) or (None, None)
    assert folder == root / "folder-cccc4444"
