from pathlib import Path

import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.runs.keeping.lookup import run_folders
from tests.support.batch_server import BatchServer
from tests.support.batching import moody
from tests.support.killing import Killer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # a dozen processes a test


def test_kill_at_every_step_pays_nothing_twice(tmp_path: Path, data: Path) -> None:
    """However often the steps are killed, each request is paid once and none is lost."""
    folder, out = tmp_path / "batch", tmp_path / "runs"
    with BatchServer(verdict=moody) as server:
        killer = Killer(server)
        export = (
            "batch", "export", data, "--out", folder, "--model", "openai/m", "--base-url", server.url,
            "--cache", tmp_path / "cache", "--max-requests", 20,
        )  # fmt: skip
        killer.when(folder.exists, *export)
        killer.when((folder / "round-1").exists, *export)
        killer.when(lambda: bool(list(folder.glob("round-1/part-0002*"))), *export)
        killer.when(lambda: bool(list(folder.glob(".batch.json*"))), *export)
        killer.to_the_end(*export)
        for round_ in range(1, 6):
            for kind in ("list", "upload", "create") if round_ < 3 else ():
                for when in ("before", "after"):
                    killer.at(when, kind, "batch", "submit", folder, "--patience", 0.1)
            killer.to_the_end("batch", "submit", folder, "--patience", 0.1)
            if round_ == 1:
                for when, kind in (("before", "retrieve"), ("before", "content"), ("after", "content")):
                    killer.at(when, kind, "batch", "fetch", folder)
            killer.to_the_end("batch", "fetch", folder)
            bring = ("batch", "import", folder, "--finish", "batch", "--out", out, "-q")
            killer.when((tmp_path / "cache" / "cache.db").exists, *bring)
            killer.when((folder / f"round-{round_ + 1}").exists, *bring)
            # A killed import may have exported the next round already: importing again tells.
            if killer.to_the_end(*bring, codes=(0, 3)) == 0:
                break
        assert killer.kills > 12
        assert set(server.paid.values()) == {1}
        assert server.online == 0
        run = EvalRun.load(next(run_folders(out))[0])
        assert run.manifest.tally.failed_verdicts == 0
        assert run.manifest.tally.traces == 12


@pytest.mark.parametrize(("registering", "listing"), [(2.0, 0.0), (0.0, 2.0), (1.0, 1.0)])
def test_killed_between_asking_and_registering_orders_once(
    tmp_path: Path, data: Path, registering: float, listing: float
) -> None:
    """Killed while the server registers or lists late, submitting again waits and finds: a batch a file."""
    folder, out = tmp_path / "batch", tmp_path / "runs"
    with BatchServer(registering=registering, listing=listing) as server:
        killer = Killer(server)
        killer.to_the_end(
            "batch", "export", data, "--out", folder, "--model", "openai/m", "--base-url", server.url,
            "--cache", tmp_path / "cache", "--max-requests", 20,
        )  # fmt: skip
        for _ in range(2):  # one file after the other
            killer.at("asked", "create", "batch", "submit", folder)
        killer.to_the_end("batch", "submit", folder)
        assert killer.kills == 2
        assert len(server.batches) == 2
        killer.to_the_end("batch", "fetch", folder, "--wait", "--interval", 0.01)
        killer.to_the_end("batch", "import", folder, "--out", out, "-q")
        assert set(server.paid.values()) == {1}
        assert EvalRun.load(next(run_folders(out))[0]).manifest.tally.traces == 12


def test_a_killed_import_leaves_one_run(tmp_path: Path, data: Path) -> None:
    """Killed while it asks what is open, an import goes on with its one run; nothing is paid twice."""
    folder, out = tmp_path / "batch", tmp_path / "runs"
    with BatchServer(status=lambda number: "expired" if number % 3 else "ok") as server:
        killer = Killer(server)
        killer.to_the_end(
            "batch", "export", data, "--out", folder, "--model", "openai/m", "--base-url", server.url,
            "--cache", tmp_path / "cache",
        )  # fmt: skip
        killer.to_the_end("batch", "submit", folder)
        killer.to_the_end("batch", "fetch", folder)
        bring = ("batch", "import", folder, "--out", out, "--concurrency", 1, "-q")
        for _ in range(3):
            killer.at("before", "chat", *bring)
        killer.to_the_end(*bring)
        killer.to_the_end(*bring)
        ((_, manifest),) = run_folders(out)
        assert manifest.status == "done"
        assert set(server.paid.values()) == {1}
        assert manifest.tally.calls == sum(server.paid.values())
