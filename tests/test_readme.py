"""Every code block of the README is executed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from judge_eval import Trace
from tests.support.blocks import ROOT, blocks_of, needs_more, python, shell
from tests.support.chat_server import ChatServer

BLOCKS = blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))
PYTHON = [block.code for block in BLOCKS if block.language == "python"]
SHELL = [block.code for block in BLOCKS if block.language == "bash" and not block.mark]
MARKED = {block.mark: block.code for block in BLOCKS if block.language == "bash" and block.mark}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the fixtures and one run in it, as a reader has it after the first command."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "fixtures", folder / "fixtures")
    first = MARKED["setup"].split("&&")[-1].strip().replace(".venv/bin/judge-eval", "judge-eval")
    done = shell(first, folder, "http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert "AP@5" in done.stdout
    assert "runs/" in done.stdout
    return folder


def test_every_block_is_of_a_kind_that_is_executed() -> None:
    """No block escapes: each is Python, shell, a marked command, what one prints, or a data line."""
    assert {block.language for block in BLOCKS} == {"python", "bash", "json", "text"}
    assert set(MARKED) == {"setup", "tests", "uv"}
    assert len(PYTHON) >= 1
    assert len(SHELL) >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", [pytest.param(code, marks=[pytest.mark.foreign] if needs_more(code) else []) for code in PYTHON]
)
def test_python_blocks_run(code: str, tmp_path: Path) -> None:
    """A Python block runs as it stands in an empty folder."""
    with ChatServer() as server:
        done = python(code, tmp_path, server.url)
    assert done.returncode == 0, done.stderr


def test_shell_blocks_run(folder: Path) -> None:
    """The shell blocks run in their order as they stand, but for the key and address that a reader fills in.

    Comparing two retrievers prints the sentence that the first screen shows.
    """
    (shown,) = [block.code.strip() for block in BLOCKS if block.language == "text"]
    for code in SHELL:
        with ChatServer() as server:
            done = shell(code, folder, server.url)
        assert done.returncode == 0, done.stderr
        assert (shown in done.stdout.splitlines()) if "compare" in code else done.stdout.strip()


def test_every_page_that_is_linked_is_there() -> None:
    """No link of the README leads nowhere, the picture included."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(\s*([^)#\s]+)", text)
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_what_contributors_are_told_is_what_ci_does() -> None:
    """The three commands of CONTRIBUTING set up, test and check as CI does."""
    values = {block.mark: block.code for block in blocks_of((ROOT / "CONTRIBUTING.md").read_text("utf-8"))}
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert set(values) == {"setup", "test", "check"}
    assert values["setup"].rpartition("pip install")[2].strip() in ci
    assert values["test"].strip() in MARKED["tests"]
    assert [part for part in values["check"].strip().split(" && ") if part not in ci] == []


def test_the_data_line_is_a_trace() -> None:
    """The line that shows the input format reads as a trace."""
    (line,) = [block.code for block in BLOCKS if block.language == "json"]
    assert len(Trace.model_validate_json(line).chunks) == 2
