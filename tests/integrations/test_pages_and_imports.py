"""The pages' code beside the real tools, and what is said where a tool is not there."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.errors import ConfigError
from judge_eval.integrations import deepeval_metric, ragas_metric
from tests.support.blocks import ROOT, blocks_of, python
from tests.support.chat_server import ChatServer

METRICS = {"ragas": ragas_metric, "deepeval": deepeval_metric}


def unload(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget a tool for the time of a test."""
    for name in [name for name in sys.modules if name == tool or name.startswith(f"{tool}.")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.foreign
@pytest.mark.parametrize("tool", METRICS)
def test_the_pages_example_runs(tool: str, tmp_path: Path) -> None:
    """What the page shows of a tool runs beside the real one, as a reader pastes it."""
    if find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed: pip install 'context-judge[{tool}]'")
    page = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")
    (code,) = (block.code for block in blocks_of(page) if block.mark == tool)
    with ChatServer() as chat:
        done = python(code, tmp_path, chat.url)
        assert done.returncode == 0, done.stderr
        assert chat.counts["paid"] == 2


@pytest.mark.parametrize("tool", METRICS)
def test_a_tool_that_is_not_there_is_named_with_what_installs_it(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the tool the metric cannot be made, and the message says how to get it."""

    class Missing:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == tool:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    unload(tool, monkeypatch)
    monkeypatch.setattr(sys, "meta_path", [Missing, *sys.meta_path])
    with Evaluator("fake/overlap", cache=False) as evaluator, pytest.raises(ConfigError) as caught:
        METRICS[tool](evaluator)
    hint = f"pip install 'context-judge[{tool}]', or in a clone pip install '.[{tool}]'"
    assert str(caught.value).lower() == f"{tool} is not installed: {hint}"


@pytest.mark.parametrize("tool", METRICS)
def test_a_tool_whose_own_imports_fail_is_not_called_missing(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tool could not import is told, since installing it alone would change nothing."""
    (tmp_path / tool).mkdir()
    (tmp_path / tool / "__init__.py").write_text("import a_module_that_moved_away\n")
    unload(tool, monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    with Evaluator("fake/overlap", cache=False) as evaluator, pytest.raises(ConfigError) as caught:
        METRICS[tool](evaluator)
    assert "cannot be imported (No module named 'a_module_that_moved_away')" in str(caught.value)


@pytest.mark.slow
def test_importing_the_adapters_imports_no_tool() -> None:
    """The package and its adapters load neither tool; only making a metric does."""
    code = (
        "import sys, judge_eval.integrations.ragas, judge_eval.integrations.deepeval;"
        "import judge_eval.integrations.lynxius;"
        "assert not {'ragas', 'deepeval', 'fastapi', 'langchain_core'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)
