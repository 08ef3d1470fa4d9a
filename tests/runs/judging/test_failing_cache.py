import json
from pathlib import Path

import pytest

from judge_eval.errors import StoreError
from judge_eval.llm.cache.disk import DiskStore
from tests.support.application import CliRunner, app
from tests.support.runs import traces


def test_a_cache_that_fills_up_ends_the_run_and_nothing_is_paid_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to do; the answers that the cache could not take are in the run that goes on."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(trace.model_dump_json() + "\n" for trace in traces(30, 5)), encoding="utf-8")
    written = 0

    def until_full(self: DiskStore, items: list[tuple[bytes, bytes]], **_: bool) -> int:
        nonlocal written
        written += len(items)
        if written > 20:
            raise StoreError("no space left for the cache; make room, then resume the run")
        return 0

    command = ["run", str(data), "--model", "fake/overlap", "--param", "latency=0.002", "--concurrency", "8"]
    command += ["-q", "--json", "--out", str(tmp_path / "runs"), "--cache", str(tmp_path / "cache")]
    with monkeypatch.context() as patch:
        patch.setattr(DiskStore, "put_many", until_full)
        ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 3, ended.output
    assert "no space left" in ended.stderr
    assert "--resume" in ended.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["status"] == "failed"
    kept = manifest["tally"]["verdicts"]
    assert 20 < kept < 150
    done = CliRunner().invoke(app, [*command, "--resume=newest"])
    assert done.exit_code == 0, done.output
    tally = json.loads(done.stdout)["tally"]
    assert (tally["verdicts"], tally["calls"]) == (150, 150)
