import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval.cli.printing.output import remark
from judge_eval.errors import RunError
from judge_eval.eval_run import EvalRun
from judge_eval.runs.keeping.lookup import run_folders
from judge_eval.runs.keeping.mirror import written
from judge_eval.spelling import option
from tests.support.batch_server import BatchServer
from tests.support.canned import Canned, error
from tests.support.chat_answers import judge
from tests.support.chat_server import ChatServer
from tests.support.claiming import by_words
from tests.support.command import Shell
from tests.support.runs import traces
from tests.support.waiting import until

KEY = {"OPENAI_API_KEY": "sk-test-1234567890"}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder with forty traces of two chunks."""
    (tmp_path / "data.jsonl").write_text("".join(item.model_dump_json() + "\n" for item in traces(40, 2)))
    return Shell(tmp_path)


def stopped(process: "subprocess.Popen[bytes]", when: Callable[[], bool], *, again: bool = False) -> str:
    """Send SIGTERM once something holds, and `again` until it ends; return what was told."""
    until(when, process)
    process.send_signal(signal.SIGTERM)
    while again and process.poll() is None:
        time.sleep(0.3)  # two that come before the first was seen are one
        process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, out + err
    assert b"Traceback" not in err
    return err.decode()


def slowly(body: Mapping[str, Any]) -> Any:
    """Judge after a while."""
    time.sleep(0.1)
    return judge(body)


def online(server: ChatServer, *more: str) -> tuple[str, ...]:
    """Return the flags of a judge without a cache."""
    return ("--model", "openai/m", "--base-url", server.url, "--cache", "none", *more)


@pytest.mark.slow
@pytest.mark.parametrize("part", [(), ("--shard", "1/2")], ids=["whole", "shard"])
def test_sigterm_while_waiting_for_a_retry_keeps_what_was_paid(shell: Shell, part: tuple[str, ...]) -> None:
    """Ended while it waits for a retry, a run has written status and verdicts, and pays for none twice."""
    with ChatServer() as server:
        server.script(*[Canned()] * 4, *[error(503, retry_after="3000")] * 500)
        judge = ("run", "data.jsonl", *online(server), *part, "--concurrency", "2")
        result = stopped(shell.start(*judge, **KEY), lambda: server.counts["paid"] == 4 and server.counts["calls"] > 5)
        assert "stopped by SIGTERM" in result
        ((folder, manifest),) = run_folders(shell.folder / "runs")
        assert manifest.status == "interrupted"
        assert f"the same command with --resume {folder.relative_to(shell.folder)} continues" in result
        assert manifest.tally.verdicts == 4
        server._scripted.clear()
        assert shell(*judge, "--resume", "-q", **KEY).code == 0
        run = EvalRun.load(folder)
        assert server.counts["paid"] == run.manifest.tally.verdicts == sum(len(r.outcomes) for r in run.results)


@pytest.mark.slow
def test_a_second_sigterm_ends_at_once(shell: Shell) -> None:
    """The first SIGTERM lets calls in flight finish; the second does not wait, and still says 143."""
    with ChatServer() as server:
        server.script(*[Canned(fate="hang")] * 500)
        result = stopped(
            shell.start("run", "data.jsonl", *online(server), "-q", **KEY),
            lambda: server.counts["hang"] > 2,
            again=True,
        )
    assert result == ""
    ((_, manifest),) = run_folders(shell.folder / "runs")
    assert manifest.status == "running"  # nobody had the time to write more


@pytest.mark.slow
def test_probing_ends_with_what_is_in_the_cache(shell: Shell) -> None:
    """A probe that was stopped has its answers in the cache: probing again pays for the others alone."""
    with ChatServer(latency=0.05) as server:
        flags = ("--model", "openai/m", "--base-url", server.url, "--concurrency", "2")
        result = stopped(shell.start("probe", "data.jsonl", *flags, "--json", **KEY), lambda: server.counts["paid"] > 5)
        assert "stopped by SIGTERM" in result
        shell("probe", "data.jsonl", *flags, "--json", **KEY)
        calls = [json.dumps(call, sort_keys=True) for call in server.calls]
        assert len(calls) == len(set(calls)) > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (("probe", "data.jsonl"), "the answers so far are in the cache: the same command does not ask for them again"),
        (
            ("probe", "data.jsonl", "--cache", "none"),
            "without a cache no answer is kept: the same command starts again",
        ),
        (("claims", "data.jsonl", "-o", "c.jsonl"), "what was split is in c.jsonl; the same command adds the rest"),
    ],
    ids=["probe", "without-cache", "claims"],
)
def test_verbs_without_a_run_say_what_is_kept(shell: Shell, command: tuple[str, ...], advice: str) -> None:
    """A verb that keeps no run says where its answers are and what continues it; nothing that is not true."""
    with ChatServer(latency=0.05, verdict=by_words if command[0] == "claims" else judge) as server:
        flags = ("--model", "openai/m", "--base-url", server.url, "--concurrency", "2")
        labelled = [trace.model_dump() for trace in traces(40, 2)]
        for trace in labelled:
            trace["chunks"] = [{**chunk, "label": place % 2} for place, chunk in enumerate(trace["chunks"])]
        (shell.folder / "data.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in labelled))
        result = stopped(shell.start(*command, *flags, **KEY), lambda: server.counts["paid"] > 15)
    if command[0] == "claims" and not (shell.folder / "c.jsonl").exists():  # answers that were not written yet
        advice = "the answers so far are in the cache: the same command does not ask for them again"
    assert result.endswith(f"error: stopped by SIGTERM\n{advice}\n")


@pytest.mark.slow
def test_a_fit_and_an_import_say_where_their_run_is(shell: Shell) -> None:
    """Verbs that keep a run without `--resume` name it, and the same command continues it."""
    (shell.folder / "data.jsonl").write_text("".join(item.model_dump_json() + "\n" for item in traces(80, 1)))
    with ChatServer(latency=0.1) as server:
        fit = ("cascade", "fit", "data.jsonl", "--cascade", "openai/a", "--strong-model", "openai/b")
        flags = ("--base-url", server.url, "--concurrency", "2", "--cache", "none")
        result = stopped(shell.start(*fit, *flags, **KEY), lambda: server.counts["paid"] > 5)
        (fitting,) = (shell.folder / "runs").glob("cascade-*/cheap")
        ((folder, _),) = run_folders(fitting)
        place = folder.relative_to(shell.folder)
        assert result.endswith(f"the run is kept in {place}; the same command continues where it stopped\n")
    with BatchServer(status=lambda _: "expired", verdict=slowly) as batches:
        assert (
            shell(
                *("batch", "export", "data.jsonl", "--out", "batch", "--model", "openai/m", "--base-url", batches.url),
                **KEY,
            ).code
            == 0
        )
        for step in ("submit", "fetch"):
            assert shell("batch", step, "batch", **KEY).code == 0
        bring = ("batch", "import", "batch", "--out", "imported", "--concurrency", "2")
        result = stopped(shell.start(*bring, **KEY), lambda: batches.online > 5)
        ((folder, _),) = run_folders(shell.folder / "imported")
        place = folder.relative_to(shell.folder)
        assert result.endswith(f"the run is kept in {place}; the same command continues where it stopped\n")


@pytest.mark.slow
def test_a_batch_is_stopped_while_it_waits(shell: Shell) -> None:
    """`batch fetch --wait` is ended by SIGTERM between its questions; fetching again goes on."""
    with BatchServer(polls=10_000) as server:
        export = ("batch", "export", "data.jsonl", "--out", "batch", "--model", "openai/m")
        assert shell(*export, "--base-url", server.url, **KEY).code == 0
        assert shell("batch", "submit", "batch", **KEY).code == 0
        fetch = ("batch", "fetch", "batch", "--wait")
        result = stopped(shell.start(*fetch, "--interval", "3000", **KEY), lambda: server.counts["retrieve"] > 0)
        assert result.endswith("the batch is kept in batch; the same command continues where it stopped\n")
        server.polls = 0
        assert shell(*fetch, "--interval", "0.01", **KEY).code == 0
        assert len(server.batches) == 1


@pytest.mark.slow
def test_a_run_whose_folder_was_deleted_is_said_to_be_gone(shell: Shell) -> None:
    """No message says that a run is kept, or how it goes on, whose folder is not there any more."""
    with ChatServer(latency=0.1) as server:
        judge = ("run", "data.jsonl", *online(server), "--concurrency", "2", "-q")
        process = shell.start(*judge, **KEY)
        until(lambda: server.counts["paid"] > 4, process)
        shutil.rmtree(shell.folder / "runs")
        _, result = process.communicate(timeout=60)
        assert process.returncode == 2
        assert b"it was deleted or moved while the run was judged" in result
        assert b"is kept in" not in result


def test_a_run_that_failed_and_is_not_pushed_says_so_in_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line spells the way out as its users write it, not as an argument of Python."""

    def push(*_: object) -> None:
        raise RunError(f"no way there; running again with {option('resume')} pushes it")

    monkeypatch.setattr("judge_eval.runs.keeping.mirror.push_changed", push)
    with pytest.raises(ValueError, match="the run failed"), written(tmp_path, remark):
        raise ValueError("the run failed")
    assert capsys.readouterr().err == "not pushed: no way there; running again with `resume` (`--resume`) pushes it\n"
