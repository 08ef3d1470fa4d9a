from __future__ import annotations

import io
import json
import re
import subprocess
import sys

import pytest

from tests.cli.test_safe_output import on_a_terminal
from tests.support.command import FIXTURES, Shell
from tests.support.desk import Desk
from tests.support.runs import leave_failed

RED, GREEN = "\x1b[1;31m", "\x1b[32m"
COLOUR = re.compile(r"\x1b\[(?:1;)?3[0-7]m")
DATA = str(FIXTURES / "docs_qa.jsonl")
SHOWN = (
    (("runs", "list"), (GREEN + "done", RED + "failed")),
    (("show", "label:good", "--limit", "20"), (GREEN + "+", GREEN + "done")),
    (("agree", "label:good"), (GREEN + "The judge agrees with people",)),
    (("agree", "label:odd"), (RED + "The judge is no better than chance",)),
    (("validate", DATA), (GREEN + "38 valid traces",)),
    (("validate", "bad.jsonl"), (RED + "bad.jsonl:1: not JSON", RED + "0 valid traces")),
    (("runs", "verify", "label:good"), (GREEN + "whole: ",)),
    (("compare", "label:good", "label:odd", "--fail-under", "P@1=0.9"), (RED + "error:",)),
    (("compare", "label:good", "label:odd", "--fail-under", "MRR=0.1"), (GREEN + "gate passed",)),
    (("doctor", "--model", "fake/overlap"), (GREEN + "no problems",)),
    (("doctor", "--model", "fake/overlp"), (RED + "problem: ",)),
    (("show", "label:none"), (RED + "error:",)),
)


class Watched(io.StringIO):
    """What takes text for a terminal."""

    def isatty(self) -> bool:
        """Say that somebody watches."""
        return True


def watched(desk: Desk, *words: str, **environment: str) -> str:
    """Run a command before a terminal, in this process, and return what is on it."""
    screen = Watched()
    with desk.patch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        patch.setattr(sys, "stderr", screen)
        desk(*words, TERM="xterm-256color", **environment)
    return screen.getvalue()


@pytest.mark.slow
def test_good_and_bad_have_colours_on_a_terminal(desk: Desk) -> None:
    """What is good is green, what is bad red, where somebody watches; under NO_COLOR nothing is."""
    for label, model in (("good", "fake/overlap"), ("odd", "fake/hash")):
        assert desk("run", DATA, "--model", model, "-q", "--label", label).code == 0
    leave_failed(FIXTURES / "pizza.jsonl")
    (desk.folder / "bad.jsonl").write_text("{bad\n")
    for words, shown in SHOWN:
        result = watched(desk, *words, NO_COLOR="")
        assert all(each in result for each in shown), result
        assert not COLOUR.search(watched(desk, *words, NO_COLOR="1")), words


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A folder with a run."""
    shell = Shell(tmp_path_factory.mktemp("colours"))
    assert shell("run", DATA, "--model", "fake/overlap", "-q", "--label", "good").code == 0
    return shell


@pytest.mark.slow
def test_colours_on_a_real_terminal(shell: Shell) -> None:
    """A terminal of the system's own shows them, and none under NO_COLOR."""
    assert GREEN + "done" in on_a_terminal(shell, "runs", "list").out
    assert not COLOUR.search(on_a_terminal(shell, "runs", "list", plain=True).out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "variable"), [(("agree", "label:good"), "FORCE_COLOR"), (("show", "--help"), "GITHUB_ACTIONS")]
)
def test_no_colour_reaches_a_file(shell: Shell, words: tuple[str, ...], variable: str) -> None:
    """Into a pipe goes plain text, neither colours nor their escapes spelled out, whatever is asked for."""
    environment = {k: v for k, v in shell.environment().items() if k not in ("NO_COLOR", "TERM")}
    done = subprocess.run(
        [sys.executable, "-m", "judge_eval", *words],
        cwd=shell.folder,
        env=environment | {variable: "1", "TERM": "xterm-256color"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b" not in done.stdout + done.stderr


def test_json_has_no_colour_on_a_terminal(desk: Desk) -> None:
    """JSON stays JSON where somebody watches."""
    result = watched(desk, "doctor", "--json", "--model", "fake/overlap", NO_COLOR="")
    assert json.loads(result)["usable"]
