"""Every end of a command has its code and one message, whatever its streams are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from judge_eval.cli import exit_codes as errors
from judge_eval.cli.printing.output import complain
from judge_eval.errors import RunError
from judge_eval.eval_run import EvalRun
from tests.support.canned import Canned
from tests.support.chat_answers import completion
from tests.support.chat_server import ChatServer
from tests.support.command import FIXTURES, CommandResult, Shell
from tests.support.forking import ROOT

FAKE = ("--model", "fake/overlap")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A folder with the pizza case, and a run of it."""
    shell = Shell(tmp_path_factory.mktemp("ends"))
    (shell.folder / "pizza.jsonl").write_bytes((FIXTURES / "pizza.jsonl").read_bytes())
    assert shell("run", "pizza.jsonl", *FAKE, "--label", "whole").code == 0
    return shell


def in_bash(shell: Shell, line: str, **environment: str) -> CommandResult:
    """Run a line of bash, in which `judge-eval` is the command."""
    define = f'judge-eval() {{ "{sys.executable}" -m judge_eval "$@"; }}; '
    done = subprocess.run(
        ["bash", "-c", define + line],
        cwd=shell.folder,
        env=shell.environment(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        # Whoever read the output has left: nothing is said.
        ("judge-eval show latest | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("judge-eval convert pizza.jsonl | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("judge-eval prompts show support/binary | true; exit ${PIPESTATUS[0]}", 141, ""),
        # Nothing can be written: one message.
        ("judge-eval show latest > /dev/full", 2, "error: standard output: No space left on device\n"),
        ("judge-eval prompts show support/binary > /dev/full", 2,
         "error: standard output: No space left on device\n"),
        ("judge-eval --version > /dev/full", 2, "error: standard output: No space left on device\n"),
        ("judge-eval show latest >&-", 2,
         "error: standard output: it is closed; send it to a file or to /dev/null\n"),
        # Nobody is there to be told: the code alone speaks.
        ("judge-eval show latest 2>/dev/full >&-", 2, ""),
        ("judge-eval show latest >&- 2>&-", 2, ""),
        ("judge-eval show gone 2>&-", 2, ""),
        ("judge-eval show gone 2>/dev/full", 2, ""),
        ("judge-eval show latest > /dev/null <&- 2>&-", 0, ""),
        ("judge-eval cache clear > /dev/null <&-", 130, "stopped: the question was not answered with yes\n"),
    ],
)  # fmt: skip
def test_streams_that_fail(shell: Shell, line: str, code: int, told: str) -> None:
    """A pipe that was closed, a full disk, a closed stream: each has its code, and at most one message."""
    done = in_bash(shell, line)
    assert (done.code, done.err) == (code, told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("judge-eval run pizza.jsonl --model fake/overlap -p model=", "fake/overlap takes no option 'model'"),
        ("judge-eval run pizza.jsonl --model fake/overlap -p self=1", "fake/overlap takes no option 'self'"),
        ("judge-eval run pizza.jsonl --model fake/overlap -p keep=-1", "keep -1: write a whole number"),
        (r"judge-eval run pizza.jsonl --model fake/overlap --label $'\xff'", r"--label '\udcff' is no"),
        (r"judge-eval run pizza.jsonl --model fake/overlap --tag $'\xff'", r"--tag '\udcff' is no"),
        (r"cp pizza.jsonl $'\xe9.jsonl'; judge-eval run $'\xe9.jsonl' --model fake/overlap",
         r"data '\udce9.jsonl' is not Unicode"),
        pytest.param("judge-eval run ftp://127.0.0.1:1/x.jsonl --model fake/overlap",
                     "ftp://127.0.0.1:1/x.jsonl cannot be opened", marks=pytest.mark.foreign),
        pytest.param("judge-eval run pizza.jsonl --model fake/overlap --out ftp://127.0.0.1:1/x",
                     "ftp://127.0.0.1:1/x cannot be opened", marks=pytest.mark.foreign),
        pytest.param("judge-eval show ftp://127.0.0.1:1/x", "ftp://127.0.0.1:1 cannot be opened",
                     marks=pytest.mark.foreign),
        pytest.param("judge-eval runs pull ftp://127.0.0.1:1/x", "ftp://127.0.0.1:1/x cannot be opened",
                     marks=pytest.mark.foreign),
        ("judge-eval convert ftp://127.0.0.1:1/x", "data ftp:/127.0.0.1:1/x: this is a file"),
        ("judge-eval run pizza.jsonl --model fake/overlap -o ftp://h/x.md", "--output ftp:/h/x.md: this"),
        ("judge-eval run pizza.jsonl --model fake/overlap --cache ftp://u:secret@h/x",
         "ftp:// cannot hold the cache"),
        ("judge-eval batch export <(cat pizza.jsonl) --out b -m openai/x", "a batch reads its data again"),
        ("mkdir -p locked && touch locked/runs; judge-eval run pizza.jsonl --model fake/overlap "
         "--out locked/runs/x", "locked/runs"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_has_one_message(shell: Shell, line: str, told: str) -> None:
    """Each has the code 2 and a message of one line, without a traceback."""
    done = in_bash(shell, line)
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("error: ")
    assert told in done.err
    assert done.err.count("\n") == 1
    assert "secret" not in done.err


@pytest.mark.slow
@pytest.mark.parametrize("source", ["<(cat pizza.jsonl)", "/dev/stdin < <(cat pizza.jsonl)", "pipe"])
def test_what_can_be_read_once_is_judged(shell: Shell, source: str) -> None:
    """A shell's `<(...)` and a named pipe are copied once, and read as a file is."""
    before = "rm -f pipe; mkfifo pipe; (cat pizza.jsonl > pipe &); " if source == "pipe" else ""
    done = in_bash(shell, f"{before}judge-eval run {source} --model fake/overlap --out once --json")
    assert (done.code, done.err) == (0, "")
    manifest = json.loads(done.out)
    assert manifest["tally"]["verdicts"] == 4
    assert manifest["dataset"]["digest"] == EvalRun.load(one(shell, "runs")).manifest.dataset.digest
    for verb in ("validate", "convert"):
        assert in_bash(shell, f"judge-eval {verb} <(cat pizza.jsonl)").code == 0


def test_a_device_is_no_data(shell: Shell) -> None:
    """A device that never ends is refused at once, before anything of it is copied."""
    done = shell("run", "/dev/zero", "--model", "fake/overlap")
    assert done.code == 2
    assert "/dev/zero: a device, not a file of data" in done.err


def one(shell: Shell, root: str) -> Path:
    """Return the folder of a run there."""
    return next((shell.folder / root).iterdir())


def test_a_fault_of_the_program_is_no_failed_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What nobody foresaw ends with 70, says where its traceback is, and keeps keys out of both."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    def broken() -> None:
        raise ZeroDivisionError("with sk-very-secret\nand \x1b[2J")

    assert errors.exit_code(broken) == errors.UNEXPECTED == 70
    output = capsys.readouterr().err
    result = re.fullmatch(r"error: unexpected ZeroDivisionError: (.*); this is a fault .* in (\S+)\n", output)
    assert result, output
    assert result[1] == r"with ***\nand \x1b[2J"
    path = Path(result[2])
    text = path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    path.unlink()
    assert "ZeroDivisionError" in text
    assert "in broken" in text
    assert "sk-very-secret" not in text


def test_each_error_has_its_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An error of the package is 2, of a run that is kept 3, of the system 2, a plain end what it says."""

    def fails(error: BaseException) -> None:
        raise error

    kept = RunError("no room")
    kept.run_folder = str(tmp_path)
    for error, code in ((RunError("no"), 2), (kept, 3), (PermissionError(13, "denied", "place"), 2)):
        assert errors.exit_code(lambda error=error: fails(error)) == code
    output = capsys.readouterr().err
    assert "error: place: denied\n" in output
    assert f"--resume {tmp_path} continues where it stopped" in output
    assert errors.exit_code(lambda: 3) == 3
    assert errors.exit_code(lambda: complain("x")) == 0


@pytest.mark.parametrize(
    ("path", "begin"),
    [("docs/ci.md", "Exit codes: "), ("docs/agents/SKILL.md", "Exit codes: "), ("action.yml", "0 suc")],
)
def test_every_list_of_exit_codes_is_whole(path: str, begin: str) -> None:
    """What CI and coding agents are told of exit codes leaves none out on which they must act."""
    _, _, listed = (ROOT / path).read_text(encoding="utf-8").partition(begin)
    codes = set(re.findall(r"\b\d+\b", listed[:500].partition("\n\n")[0]))
    assert {"1", "2", "3", "4", "70", "130", "143"} <= codes


@pytest.mark.slow
def test_resume_where_the_newest_run_is_done(tmp_path: Path) -> None:
    """It says so, shows that run and makes none; --new-if-done makes one; another judge is told of."""
    shell = Shell(tmp_path)
    (tmp_path / "pizza.jsonl").write_bytes((FIXTURES / "pizza.jsonl").read_bytes())
    run: Sequence[str] = ("run", "pizza.jsonl", *FAKE)
    assert shell(*run, "--resume").code == 0  # there is none: it begins
    folder = one(shell, "runs")
    before = (folder / "manifest.json").read_bytes()
    done = shell(*run, "--resume", "--fail-under", "AP@5=0.9")
    assert done.code == 1  # the gate is checked on it
    assert f"the newest run of these data is done: {Path('runs') / folder.name}" in done.err
    assert folder.name[-8:] in done.out
    assert list((tmp_path / "runs").iterdir()) == [folder]
    assert (folder / "manifest.json").read_bytes() == before
    other = shell("run", "pizza.jsonl", "--model", "fake/never", "--resume")
    assert other.code == 2
    assert "--new-if-done" in other.err
    assert shell(*run, "--resume", "--new-if-done").code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.slow
def test_a_full_disk_for_the_cache_with_all_results_kept(tmp_path: Path) -> None:
    """The run is whole, its summary is shown and its gate is checked; that the cache is full is a remark."""
    reply = {"evidence": "", "reason": "x" * 60_000, "instruction_in_chunk": False, "verdict": False}
    small = reply | {"reason": "x"}
    shell = Shell(tmp_path)
    (tmp_path / "one.jsonl").write_text('{"query": "q", "reference": "r", "chunks": ["a"]}\n')
    (tmp_path / "more.jsonl").write_text('{"query": "q2", "reference": "r", "chunks": ["b"]}\n')
    with ChatServer() as server:
        server.script(*[Canned(body=completion({"messages": []}, json.dumps(each))) for each in (small, reply)])
        asked = ("--model", "openai/x", "--base-url", server.url)
        keys = {"OPENAI_API_KEY": "sk-x"}
        assert shell("run", "one.jsonl", *asked, **keys).code == 0
        limit = 66_000  # bytes of a file: enough for the results, too few for the pages of the database's log
        full = (
            f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
            "from judge_eval.cli import main; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", full, "run", "more.jsonl", *asked, "--fail-under", "AP@5=0.9"],
            cwd=tmp_path,
            env=shell.environment(**keys),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert "1 paid answers are not in the cache" in done.stderr, done.stderr
    assert "the run is whole" in done.stderr
    assert "--resume" not in done.stderr
    assert "(done) in" in done.stdout
    assert done.returncode == 1  # the gate, checked


def test_lone_surrogates_in_python(tmp_path: Path) -> None:
    """Python is told the same of a label no file can hold, before anything is judged."""
    from judge_eval import Evaluator
    from judge_eval.errors import ConfigError

    with Evaluator("fake/overlap", cache=False) as evaluator:
        for given in ({"label": "\udcff"}, {"href": "\udcff"}, {"tags": ["\udcff"]}):
            with pytest.raises(ConfigError, match="is not Unicode text"):
                evaluator.evaluate({"query": "q", "reference": "r", "chunks": ["a"]}, **given)
        with pytest.raises(ConfigError, match="is not Unicode text"):
            evaluator.evaluate(os.fsdecode(b"\xe9.jsonl"))
