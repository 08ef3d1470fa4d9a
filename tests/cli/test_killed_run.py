"""A run that was killed or stopped goes on."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.runs.scoring.counting import read_progress
from tests.support.command import Shell
from tests.support.runs import traces

FAKE = ("--model", "fake/overlap")


def big(shell: Shell, count: int = 40) -> Path:
    """Write a dataset of traces."""
    path = shell.folder / "big.jsonl"
    path.write_text("".join(trace.model_dump_json() + "\n" for trace in traces(count, 2)))
    return path


SLOW = (*FAKE, "--param", "latency=0.2", "--concurrency", "2", "-q")


def begun(shell: Shell, child: "subprocess.Popen[bytes]") -> Path:
    """Wait until a run has written some results, and return its folder."""
    while True:
        for path in (shell.folder / "runs").glob("*/results.jsonl"):
            if path.stat().st_size > 2000:
                return path.parent
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)


def paid(folder: Path) -> int:
    """Count the calls that a stopped run has paid: by its manifest, or by its progress file."""
    run = EvalRun.load(folder)
    if run.status != "running":
        return run.manifest.tally.calls
    progress, _ = read_progress(folder)
    assert progress is not None
    assert progress.taken is not None
    return progress.taken.calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "cache"), [(signal.SIGKILL, True), (signal.SIGKILL, False), (signal.SIGINT, True), (signal.SIGTERM, False)]
)
def test_a_run_that_was_stopped_goes_on(shell: Shell, how: signal.Signals, cache: bool) -> None:
    """Stopped by Ctrl-C, SIGTERM or kill -9, a run goes on to the bytes of an uninterrupted one.

    No verdict that had been written is paid for again, with a cache or without; after kill -9 the summary says
    which calls are in no figure.
    """
    path = big(shell)
    flags = () if cache else ("--cache", "none")
    child = shell.start("run", path, *SLOW, *flags)
    folder = begun(shell, child)
    child.send_signal(how)
    _, err = child.communicate(timeout=60)
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143}
    assert child.returncode == codes.get(how, -signal.SIGKILL), err
    assert b"Traceback" not in err
    results = EvalRun.load(folder).results
    assert 0 < len(results) < 40
    kept = sum(len(result.outcomes) - result.failed for result in results)
    if how in codes:
        assert EvalRun.load(folder).status == "interrupted"
    before = paid(folder)
    done = shell("run", path, *FAKE, "--json", *flags, "--resume")
    assert done.code == 0, done.err
    resumed = json.loads(done.out)
    assert resumed["status"] == "done"
    assert resumed["tally"]["calls"] - before <= 2 * 40 - kept
    assert resumed["tally"]["killed"] == (how == signal.SIGKILL)
    said = f"killed once: up to {resumed['tally']['lost']} more call"
    assert (said in shell("show", folder).out) == (how == signal.SIGKILL)
    whole = shell("run", path, *FAKE, "--cache", "none", "--out", "whole")
    assert whole.code == 0
    (other,) = (shell.folder / "whole").iterdir()
    assert (folder / "results.jsonl").read_bytes() == (other / "results.jsonl").read_bytes()
    assert resumed["aggregates"] == json.loads((other / "manifest.json").read_text())["aggregates"]
    assert len(list((shell.folder / "runs").iterdir())) == 1
