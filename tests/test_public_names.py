import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import judge_eval
from tests.support.command import ROOT

HEAVY = (
    "openai",
    "typer",
    "rich",
    "numpy",
    "pydantic",
    "diskcache",
    "msgspec",
    "tenacity",
    "httpx",
    "asyncio",
    "sqlite3",
    "mlflow",
    "opentelemetry",
    "pandas",
    "polars",
    "pyarrow",
)


def python(script: str, folder: Path) -> str:
    """Run a script in a fresh interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


LAZY = ("judge_eval", "judge_eval.integrations", "judge_eval.stats")


def homes(package: str) -> dict[str, str]:
    """Each name that a type checker is told of, with the module that it comes from."""
    stub = ROOT.joinpath(*package.split("."), "__init__.pyi").read_text(encoding="utf-8")
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


@pytest.mark.parametrize("package", LAZY)
def test_the_public_names_are_what_is_visible(package: str, tmp_path: Path) -> None:
    """`__all__`, `dir()` and what a type checker is told are one list."""
    names = python(f"import {package} as p, json; print(json.dumps([p.__all__, dir(p)]))", tmp_path)
    assert json.loads(names) == [sorted(homes(package))] * 2


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_is_there(package: str) -> None:
    """Each name is loaded from its home."""
    for name, home in homes(package).items():
        assert getattr(import_module(package), name) is getattr(import_module(home), name)


def test_other_names_are_refused() -> None:
    """A name that is not public is an `AttributeError`."""
    with pytest.raises(AttributeError, match="no attribute 'Evaluater'"):
        judge_eval.Evaluater  # noqa: B018


def test_importing_loads_starts_and_opens_nothing(tmp_path: Path) -> None:
    """Importing the package loads no heavy module, starts no thread and opens no file but its own code."""
    script = f"""
opened = []
def watch(event, arguments):
    if event == "open" and ".py" not in str(arguments[0]):
        opened.append(str(arguments[0]))
    if event.startswith(("socket.", "subprocess.")):
        opened.append(event)
import threading, json, importlib
sys.addaudithook(watch)
import judge_eval
heavy = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps([heavy, threading.active_count(), opened]))
"""
    assert json.loads(python(script, tmp_path)) == [[], 1, []]
    assert list(tmp_path.iterdir()) == []


def test_the_records_load_no_client(tmp_path: Path) -> None:
    """Making traces and an evaluator with a fake judge loads neither openai nor typer nor rich."""
    script = """
from judge_eval import Evaluator, Trace
made = Evaluator("fake/overlap", cache=False)
made.evaluate(Trace(query="q", reference="r", chunks=["a"]))
print([name for name in ("openai", "typer", "rich", "genai_prices") if name in sys.modules])
"""
    assert python(script, tmp_path).strip() == "[]"
