"""`judge-eval init` and what the shell offers on Tab."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from judge_eval.cli.flags.config import find_config, settings
from tests.support.forking import ROOT, call


def _run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUDGE_EVAL", "OPENAI"))}
    more = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), **variables}
    return call([*arguments], folder, kept | more, None)


def test_what_init_writes_runs_at_once(tmp_path: Path) -> None:
    """After `init` the command it advises judges the tiny dataset, without a key or a network."""
    done = _run(tmp_path, "init")
    assert done.returncode == 0, done.stderr
    advised = done.stdout.splitlines()[-1].removeprefix("try it: judge-eval ").split()
    run = _run(tmp_path, *advised)
    assert run.returncode == 0, run.stderr
    assert "AP@5" in run.stdout
    assert "3 traces" in run.stdout


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    """Where one of the two files exists, neither is written, and the message names it."""
    (tmp_path / "traces.jsonl").write_text("mine", encoding="utf-8")
    done = _run(tmp_path, "init")
    assert done.returncode == 2
    assert "traces.jsonl already exists" in done.stderr
    assert (tmp_path / "traces.jsonl").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "judge_eval.toml").exists()


def test_every_commented_setting_is_one(tmp_path: Path) -> None:
    """With the marks of its comments removed, every line of the configuration is a valid setting."""
    _run(tmp_path, "init", "new/project")
    path = tmp_path / "new" / "project" / "judge_eval.toml"
    text = path.read_text(encoding="utf-8")
    commented = re.findall(r"^# (\w+) = (.*)$", text, re.MULTILINE)
    active = tomllib.loads(text)
    assert {name for name, _ in commented} | active.keys() <= settings().keys()
    assert len(commented) > 15
    for name, value in commented:
        path.write_text(f"{name} = {value}\n", encoding="utf-8")
        _, result = find_config(path.parent)
        assert settings()[name].keys() <= result.keys()


@pytest.mark.parametrize(
    ("words", "offered", "not_offered"),
    [
        ("judge-eval run --prompt sup", "support/binary", "relevance/binary"),
        ("judge-eval run --metrics AP@5,ND", "AP@5,NDCG@5", "AP@5,MRR"),
        ("judge-eval run --model fake/ov", "fake/overlap", "fake/never"),
        ("judge-eval sho", "show", "run"),
        ("judge-eval show la", "latest", "label"),
    ],
)
def test_the_shell_is_offered_names(tmp_path: Path, words: str, offered: str, not_offered: str) -> None:
    """Tab completes verbs, prompts, models, metrics behind the last comma, and runs."""
    count = str(len(words.split()) - 1)
    done = _run(tmp_path, _JUDGE_EVAL_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=count)
    lines = done.stdout.split()
    assert offered in lines, done.stderr
    assert not_offered not in lines


def test_completion_can_be_shown(tmp_path: Path) -> None:
    """`--show-completion` prints a script that names the program."""
    # Which shell asks is found among the parents of a process; a test's parents may be none.
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = _run(tmp_path, "--show-completion", "bash", **named)
    assert done.returncode == 0, done.stderr
    assert "_JUDGE_EVAL_COMPLETE" in done.stdout
