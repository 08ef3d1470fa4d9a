"""The documentation: every block is executed or checked, every number recomputed, the site built."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge_eval import GradeTable, Trace, parse_metric
from judge_eval.cli.flags.config import settings
from judge_eval.data.claimfiles import read_claims
from judge_eval.server.models import HostedSubmission
from judge_eval.study.agree_claims import read_claim_labels
from tests.support.blocks import ROOT, Block, blocks_of, environment, needs_more, python, shell
from tests.support.chat_server import ChatServer
from tests.support.decision_server import DecisionServer
from tests.support.decision_shapes import DIALECT_NAMES

DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS)): blocks_of(path.read_text(encoding="utf-8")) for path in DOCS.rglob("*.md")}
EXAMPLE = ROOT / "tests" / "support" / "plugin_example"


ELSEWHERE = {"ragas", "deepeval", "local", "real"}
"""Blocks that need these run beside the real tools (tests/integrations), tests of local models, and real models."""
OUTPUT = "output"
"""The mark of what the commands above it print."""


def _of(language: str) -> dict[str, list[Block]]:
    values = {
        name: [block for block in blocks if block.language == language and block.mark not in {*ELSEWHERE, OUTPUT}]
        for name, blocks in PAGES.items()
    }
    return {name: blocks for name, blocks in values.items() if blocks}


SERVED = "http://127.0.0.1:8642"
"""Where pages expect a server."""


@contextmanager
def _deciding(page: str, code: str) -> Iterator[tuple[str, str]]:
    """Start the servers that a page expects; yields the code that asks them, and the address by default."""
    if page != "decisions.md":
        with ChatServer() as server:
            yield code, server.url
        return
    with ExitStack() as stack:
        urls = [stack.enter_context(DecisionServer(dialect)).url for dialect in DIALECT_NAMES]
        for port, url in enumerate(urls[1:], 8001):
            code = code.replace(f"http://localhost:{port}/v1", url)
        yield code, urls[0]


@contextmanager
def _serving(page: str, folder: Path, line: str = "judge-eval serve --model fake/overlap") -> Iterator[str]:
    """Start what a page about the server has its reader start, and yield where it listens."""
    if page != "server.md":
        yield SERVED
        return
    command = f"exec {line.replace('judge-eval', f'{sys.executable} -m judge_eval')} --port 0"
    with subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment(folder, ""), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield re.findall(r"http://[\w.]+:\d+", process.stdout.readline())[0]
        finally:
            process.terminate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A reader's folder: the fixtures, and files of other tools under the names that pages use."""
    shutil.copytree(ROOT / "fixtures", tmp_path / "fixtures")
    formats = ROOT / "fixtures" / "formats"
    shutil.copy(formats / "ragas.csv", tmp_path)
    shutil.copy(formats / "deepeval.json", tmp_path)
    shutil.copy(formats / "langchain.jsonl", tmp_path / "retrieved.jsonl")
    shutil.copytree(formats / "beir", tmp_path / "scifact")
    return tmp_path


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    """No block escapes: code of other tools is `text`, everything else is executed or parsed."""
    languages = {block.language for blocks in PAGES.values() for block in blocks}
    assert languages == {"python", "bash", "json", "toml", "yaml", "text"}
    assert set(_of("text")) == {"agents.md", "chunking.md", "migrating.md", "server.md", "service.md", "tutorial.md"}
    assert sum(len(blocks) for blocks in _of("python").values()) > 15
    assert {block.mark for blocks in PAGES.values() for block in blocks} >= ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.foreign] if any(needs_more(b.code) for b in blocks) else [])
        for page, blocks in sorted(_of("python").items())
    ],
)
def test_python_blocks_run(page: str, folder: Path) -> None:
    """The Python blocks of a page run one after the other, as a reader pastes them."""
    code = "\n\n".join(block.code for block in _of("python")[page])
    (folder / "judge_eval.toml").write_text('model = "openai/some-model"\n')  # what code cannot name
    with _deciding(page, code) as (code, url), _serving(page, folder) as place:
        done = python(code.replace(SERVED, place), folder, url)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(_of("bash")))
def test_shell_blocks_run(page: str, folder: Path) -> None:
    """The shell blocks of a page run one after the other, but for keys and installations, and print what is shown."""
    code = "\n".join(block.code for block in _of("bash")[page])
    with _deciding(page, code) as (code, url), _serving(page, folder) as place:
        done = shell(code.replace(SERVED, place), folder, url)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = " ".join((done.stdout + done.stderr).split())
    assert printed
    for block in PAGES[page]:
        if block.mark == OUTPUT:  # pages break long lines, and leave out others
            assert [line for line in block.code.splitlines() if " ".join(line.split()) not in printed] == []


@pytest.mark.slow
def test_the_formats_shown_are_there_in_a_clone(tmp_path: Path) -> None:
    """What the page on formats begins with runs in a clone as it is: with its files, and no model."""
    shutil.copytree(ROOT / "fixtures", tmp_path / "fixtures")
    code = _of("bash")["formats.md"][0].code
    assert "openai/" not in code
    done = shell(code, tmp_path, "")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("2 traces, judged by fake/overlap") == 4


@pytest.mark.slow
@pytest.mark.parametrize("page", ["testing.md", "migrating.md"])
def test_shown_tests_pass(page: str, folder: Path) -> None:
    """The tests shown are tests: pytest runs them, here with the offline judge."""
    shown = [block.code for block in _of("python")[page] if "def test_" in block.code]
    assert shown
    (folder / "test_shown.py").write_text("\n".join(shown), encoding="utf-8")
    done = shell("pytest -q --judge-eval-mode=fake test_shown.py", folder, "")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{sum(code.count('def test_') for code in shown)} passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("line", re.findall(r"^\$ (.*)$", (DOCS / "server.md").read_text("utf-8"), re.MULTILINE))
def test_shown_servers_start(line: str, folder: Path) -> None:
    """Each command that starts a server does, and says where it listens."""
    setting, _, command = line.rpartition(" judge-eval ")
    command = f"judge-eval {command}" if setting else line
    with _serving("server.md", folder, command if not setting else f"env {setting} {command}") as place:
        assert re.fullmatch(r"http://[\d.]+:\d+", place)


def test_data_lines_are_traces(tmp_path: Path) -> None:
    """Lines that show the input format read as traces, of claims as such, and requests as taken."""
    for blocks in _of("json").values():
        for block in blocks:
            if "data" in json.loads(block.code):
                assert HostedSubmission.parse(json.loads(block.code)).data[0].trace().chunks
            elif "together" in json.loads(block.code):
                (tmp_path / "cells.jsonl").write_text(block.code, encoding="utf-8")
                assert read_claim_labels(tmp_path / "cells.jsonl")
            elif "claims" in json.loads(block.code):
                (tmp_path / "claims.jsonl").write_text(block.code, encoding="utf-8")
                assert read_claims(tmp_path / "claims.jsonl").entries[0].claims
            else:
                assert Trace.model_validate_json(block.code).chunks


def test_settings_shown_exist() -> None:
    """Settings shown as TOML are settings of the plugin, of the package, or of the example."""
    from judge_eval.pytest_plugin import _INI

    known = {*_INI, "judge_eval_metrics", "judge_eval_params"}
    for page, blocks in _of("toml").items():
        for block in blocks:
            data = tomllib.loads(block.code)
            assert data
            tool = data.get("tool", {})
            if page == "testing.md":
                assert set(tool["pytest"]["ini_options"]) <= known
            assert set(tool.get("judge_eval", {})) <= settings().keys()


def test_workflows_shown_are_workflows() -> None:
    """The GitHub workflow gives the action inputs that it has; the GitLab job is one job."""
    github, hooks, gitlab = (yaml.safe_load(block.code) for block in _of("yaml")["ci.md"])
    inputs = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    used = github["jobs"]["judge"]["steps"][-1]["with"]
    assert set(used) <= set(inputs)
    assert {name for name, result in inputs.items() if result.get("required")} <= set(used)
    assert list(gitlab) == ["retrieval"]
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [each["id"] for each in hooks["repos"][0]["hooks"]] == [hook["id"]]


def test_the_plugin_page_shows_the_tested_package() -> None:
    """What the page on plug-ins shows is, piece by piece, the package that the tests install."""
    (toml,) = [block.code for block in PAGES["plugins.md"] if block.language == "toml"]
    assert toml == (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    pieces = [block.code.strip() for block in _of("python")["plugins.md"]]
    module = (EXAMPLE / "judge_eval_example.py").read_text(encoding="utf-8").strip()
    assert "\n\n\n".join(pieces) == module


def test_tables_of_definitions_hold() -> None:
    """Every number in the tables is what the metric beside it computes on the list above the table."""
    text = (DOCS / "definitions.md").read_text(encoding="utf-8")
    many = text[text.index("## One list, many numbers") : text.index("## Lists shorter than K")]
    short = text[text.index("## Lists shorter than K") : text.index("## What a failed verdict does")]
    checked = 0
    for part, row, total in ((many, [1, 0, 1, 1, 0], 8), (short, [1], 5)):
        table = GradeTable.from_rows([row], totals=[total], maximum=1)
        for number, name in re.findall(r"\| (\d\.\d{4}) \| `([^`]+)` \|", part):
            (value,) = parse_metric(name).compute(table).tolist()
            assert f"{value:.4f}" == number, name
            checked += 1
    assert checked == 10


def test_an_extra_in_the_divisor_spoils_perfection() -> None:
    """What the page says of 1e-10 in the divisor is so, and ours is exactly 1."""
    assert 1 / (1 + 1e-10) != 1.0
    assert f"{1 / (1 + 1e-10):.10f}" == "0.9999999999"
    assert parse_metric("AP@5").compute(GradeTable.from_rows([[1]])).tolist() == [1.0]


@pytest.mark.slow
def test_the_shown_failure_is_what_pytest_shows(folder: Path) -> None:
    """The missing verdict on the page is told in the words that the plugin uses."""
    (folder / "test_retriever.py").write_text(_of("python")["testing.md"][0].code, encoding="utf-8")
    done = shell("pytest -q test_retriever.py || true", folder, "")
    page = " ".join((DOCS / "testing.md").read_text(encoding="utf-8").split())
    output = re.findall(r"MissError: (no answer in .*test_opening_hours --judge-eval-mode=record)", done.stdout)
    # Pytest tells it again in its summary, where that is not cut to a terminal's width.
    (result,) = set(output)
    assert " ".join(result.split()) in page


def _hook(name: str) -> Any:
    """Load one of the programs that write pages."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "hooks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_line_page_names_every_verb() -> None:
    """The page is made from the program: it holds every verb and the flags of `run`."""
    page = _hook("cli_page").page()
    from tests.support.application import app

    for command in app.registered_commands:
        assert f"## `judge-eval {command.name}`" in page
    assert "--max-failures" in page
    assert str(ROOT) not in page


def test_the_list_for_language_models_holds_every_page() -> None:
    """`llms.txt` names each page with what it begins with; no page is missing in the navigation."""
    module = _hook("llms")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    text = "\n".join(module.lines(config["nav"]))
    assert {name for name in PAGES if f"({name})" not in text} == set()
    assert "- [For coding agents](agents.md): What an agent needs to set up judging" in text
    assert "## Reference" in text


def test_the_texts_for_language_models_hold_every_page() -> None:
    """`llms-full.txt` has the whole text of each page that a person wrote."""
    whole = _hook("llms").texts(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    for name in PAGES:
        assert (DOCS / name).read_text(encoding="utf-8").strip() in whole, name
