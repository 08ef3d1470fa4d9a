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


def test_the_public_names_are_what_is_visible(tmp_path: Path) -> None:
    """`__all__`, `dir()`, the table of homes and what a type checker is told are one list."""
    assert judge_eval.__all__ == sorted(judge_eval.__all__)
    assert set(judge_eval.__all__) == {name for names in judge_eval._MODULES.values() for name in names}
    assert json.loads(
        python("import judge_eval, json; print(json.dumps(dir(judge_eval)))", tmp_path)
    ) == list(judge_eval.__all__)
    source = (ROOT / "judge_eval" / "__init__.py").read_text()
    block = source.split("if TYPE_CHECKING:")[1].split("_MODULES")[0]
    told = {
        name.strip()
        for line in block.splitlines()
        if " import " in line
        for name in line.split(" import ")[1].split(",")
    }
    assert told == set(judge_eval.__all__)


@pytest.mark.parametrize("name", judge_eval.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Each name is loaded from its home."""
    homes = {each: module for module, names in judge_eval._MODULES.items() for each in names}
    home = import_module(f"judge_eval.{homes[name]}")
    assert getattr(judge_eval, name) is getattr(home, name)


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
