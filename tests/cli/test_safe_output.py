"""Whatever others wrote, nothing that is printed steers a terminal, forges a line or commands a CI server."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judge_eval.errors import RefusedError
from tests.support.command import ROOT, CommandResult, Shell
from tests.support.serving import scripted
from tests.test_shown import STEERING

CLI = ROOT / "judge_eval" / "cli"
EVIL = "\x1b]52;c;cHduZWQ=\x07\x1bc\x9b2J\u202egnp\u2066\u200b\u2028\x7f\x08\r\n::error::forged\n##vso[x]y"
"""OSC 52 writes the clipboard, ESC c resets; C1, overrides, isolates, no width, separators, a forged line."""
STYLE = re.compile(r"\x1b\[[\d;]*[mAKJ]|\x1b\[\?25[lh]|\r")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A folder of two runs with hostile text in every field: one whole, one with failures."""
    folder = tmp_path_factory.mktemp("evil")
    row = {
        "id": f"q{EVIL}", "query": EVIL, "reference": EVIL, "answer": EVIL, "tags": [EVIL],
        "metadata": {"cluster": EVIL},
        "chunks": [{"id": f"c{EVIL}", "text": f"{EVIL} text", "title": EVIL, "label": 0}, {"text": "b"}],
    }  # fmt: skip
    values = {"evidence": EVIL, "reason": EVIL, "verdict": True}
    how: dict[str, Any] = {"href": f"https://x/{EVIL}", "tags": [EVIL], "name": f"data{EVIL}"}
    first = scripted([row], folder / "runs", lambda _: values, label=f"a{EVIL}", **how)
    two = scripted([row], folder / "runs", lambda text: "?" if text == "b" else values, label=f"b{EVIL}", **how)
    (folder / "one").write_text(first.id)
    (folder / "two").write_text(two.id)
    (folder / "row.json").write_text(json.dumps(row))
    (folder / "bad.jsonl").write_text(json.dumps({**row, EVIL: 1, "chunks": [{"text": 3}]}) + "\n")
    return Shell(folder)


def calm(text: str) -> None:
    """See that a text neither steers nor commands."""
    left = set(text) & set(STEERING) - {"\n"}
    assert not left, (left, text)
    for line in text.split("\n"):
        assert not line.lstrip().startswith(("::", "error::")), text
        assert not re.search(r"##\w*\[", line), text


def ids(shell: Shell) -> tuple[str, str]:
    """Return the ids of the two runs."""
    return (shell.folder / "one").read_text(), (shell.folder / "two").read_text()


COMMANDS = {
    "show": ("show", "ONE"),
    "show a trace": ("show", "ONE", f"q{EVIL}"),
    "show tags": ("show", "TWO", "--tags"),
    "show a trace that is not there": ("show", "ONE", EVIL),
    "compare": ("compare", "ONE", "TWO", "--fail-under", "AP@5=1"),
    "score": ("score", "TWO", "-k", "P@1"),
    "runs list": ("runs", "list"),
    "runs list by label": ("runs", "list", "--label", EVIL),
    "agree": ("agree", "ONE"),
    "no such run": ("show", EVIL),
    "no such label": ("show", f"label:{EVIL}"),
    "no such metric": ("score", "ONE", "-k", EVIL),
    "no such prompt": ("prompts", "show", EVIL),
    "no such file": ("prompts", "show", f"file:{EVIL}"),
    "no such model": ("run", "row.json", "--model", f"fake/{EVIL}"),
    "no such provider": ("run", "row.json", "--model", f"{EVIL}/x"),
    "no such data": ("run", EVIL, "--model", "fake/overlap"),
    "data that cannot be read": ("validate", "bad.jsonl"),
    "a flag that is none": ("run", f"--{EVIL}"),
    "a number that is none": ("run", "row.json", "--limit", EVIL),
    "a choice that is none": ("run", "row.json", "--mode", EVIL),
    "a verb that is none": (EVIL,),
    "a parameter": ("run", "row.json", "--model", "fake/overlap", "-p", EVIL),
    "a baseline": ("run", "row.json", "--model", "fake/overlap", "--baseline", EVIL),
    "a shard": ("run", "row.json", "--model", "fake/overlap", "--shard", EVIL),
    "a limit": ("compare", "ONE", "TWO", "--max-drop", EVIL),
    "an output": ("score", "ONE", "-o", EVIL),
    "a plan": ("run", "row.json", "--model", "fake/overlap", "--dry-run"),
    "a judged trace": ("judge", "--model", "fake/overlap", "row.json"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_printed_steers(shell: Shell, name: str) -> None:
    """Every verb's output and every message shows hostile text as escapes, and forges no line."""
    first, two = ids(shell)
    done = shell(*(word.replace("ONE", first).replace("TWO", two) for word in COMMANDS[name]))
    assert done.code in (0, 1, 2, 3), done.err
    assert "Traceback" not in done.err
    assert done.out + done.err
    calm(done.out)
    calm(done.err)
    if name in ("show", "show a trace", "compare", "runs list", "no such run", "no such data"):
        assert "forged" in done.out + done.err


def test_json_stays_the_same_data(shell: Shell) -> None:
    """JSON on standard output is what the run holds, to the letter, and steers no terminal either."""
    first, _ = ids(shell)
    for words in (("show", first, f"q{EVIL}", "--json"), ("show", first, "--json"), ("runs", "list", "--json")):
        done = shell(*words)
        calm(done.out)
        assert any(EVIL in text for text in strings(json.loads(done.out)))
    done = shell("convert", "row.json")
    calm(done.out)
    assert json.loads(done.out)["query"] == EVIL


def strings(data: Any) -> list[str]:
    """List every text in some JSON."""
    if isinstance(data, str):
        return [data]
    if isinstance(data, dict):
        return [text for pair in data.items() for each in pair for text in strings(each)]
    return [text for each in data for text in strings(each)] if isinstance(data, list) else []


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0"}])
def test_poor_terminals(shell: Shell, environment: dict[str, str]) -> None:
    """Where the terminal takes ASCII alone other letters are escapes too; there is no traceback."""
    first, _ = ids(shell)
    for words in (("show", first), ("show", first, f"q{EVIL}"), ("show", "größe\udcff")):
        done = subprocess.run(
            [sys.executable, "-m", "judge_eval", *words],
            cwd=shell.folder,
            env=shell.environment(**environment),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (0, 2), done.stderr
        assert b"Traceback" not in done.stderr
        calm((done.stdout + done.stderr).decode())


def on_a_terminal(shell: Shell, *words: str, plain: bool = False) -> CommandResult:
    """Run a command whose output and errors are a terminal; `plain` sets NO_COLOR."""
    keeper, side = pty.openpty()
    environment = shell.environment(TERM="xterm-256color")
    if not plain:
        del environment["NO_COLOR"]
    process = subprocess.Popen(
        [sys.executable, "-m", "judge_eval", *words],
        cwd=shell.folder, env=environment, stdin=side, stdout=side, stderr=side,
    )  # fmt: skip
    os.close(side)
    parts = []
    while True:
        try:
            part = os.read(keeper, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(keeper)
    return CommandResult(process.wait(60), b"".join(parts).decode(), "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["show", "show a trace", "a verb that is none", "a choice that is none"])
def test_on_a_terminal_colours_alone_pass(shell: Shell, name: str) -> None:
    """Where somebody watches our own colours are there, and nothing else that steers."""
    first, two = ids(shell)
    done = on_a_terminal(shell, *(w.replace("ONE", first).replace("TWO", two) for w in COMMANDS[name]))
    if name.startswith("show"):
        assert "\x1b[1m" in done.out
    calm(STYLE.sub("", done.out))
    assert "\x1b[2J" not in done.out


@pytest.mark.slow
def test_the_bar_passes_too(shell: Shell) -> None:
    """The progress of a run is drawn and cleared as ever."""
    rows = [{"query": f"q{k}", "reference": "r", "chunks": ["a"]} for k in range(3)]
    (shell.folder / "three.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = on_a_terminal(shell, "run", "three.jsonl", "--model", "fake/overlap", "--out", "bar", "-p", "latency=0.2")
    assert done.code == 0
    assert "judging" in done.out
    assert "\\x1b" not in done.out
    calm(STYLE.sub("", done.out))


def test_warnings_and_logs_go_through_the_door() -> None:
    """What the standard library writes to stderr shows escapes as well: warnings, logs, tracebacks."""
    code = (
        "import logging, warnings, threading\n"
        "from judge_eval.cli.exit_codes import exit_code\n"
        f"evil = {EVIL!r}\n"
        "def work():\n"
        "    warnings.warn('w' + evil)\n"
        "    logging.getLogger('judge_eval.server').error('l %s', evil)\n"
        "    thread = threading.Thread(target=lambda: int('t' + evil))\n"
        "    thread.start(); thread.join()\n"
        "    print('p' + evil)\n"
        "exit_code(work)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, cwd=ROOT, check=False)
    output = done.stderr.decode()
    calm(output)
    calm(done.stdout.decode())
    assert output.count("forged") >= 3
    assert output.startswith("warning: w\\x1b]52")


def test_nothing_is_printed_past_the_safe_output() -> None:
    """In the command line `print`, the streams and rich's consoles stand in the rooms of printing alone."""
    allowed = {"print": {"output.py"}, "Console": {"output.py"}, "echo": set()}
    collected = []
    for path in CLI.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                own = isinstance(node.func, ast.Name)
                if name in allowed and (own or name == "echo") and path.name not in allowed[name]:
                    collected.append(f"{path.name}:{node.lineno} {name}")
            stream = isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr")
            if stream and path.name not in ("safe_output.py", "output.py"):
                collected.append(f"{path.name}:{node.lineno} {node.attr}")
    assert collected == []


def test_a_servers_message_is_shown_as_text(tmp_path: Path) -> None:
    """What a server says in an error comes as escapes, in the run's failures too."""
    from judge_eval import Evaluator, FakeBackend

    refusing = FakeBackend(lambda _: RefusedError(f"no {EVIL}"))
    with Evaluator(refusing, cache=False) as evaluator:
        run = evaluator.evaluate({"id": "q", "query": "q", "reference": "r", "chunks": ["a"]}, out=tmp_path)
    shell = Shell(tmp_path)
    done = shell("show", run.id, "q", "--out", ".")
    assert done.code == 0, done.err
    assert "forged" in done.out
    calm(done.out)
