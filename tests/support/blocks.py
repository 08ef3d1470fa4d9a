"""Running the code blocks of Markdown pages as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from tests.support.forking import ROOT, programs

PLUGIN = (
    ()
    if any(point.name == "judge_eval" for point in entry_points(group="pytest11"))
    else ("-p", "judge_eval.pytest_plugin")
)
"""What loads the pytest plugin where this checkout is used without being installed."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    mark: str
    """The word of a comment right above it (`<!-- setup -->`); empty where there is none."""
    language: str
    code: str


def blocks_of(text: str) -> list[Block]:
    """Find the fenced blocks of a page, in order; an indented fence (in a tab or list) counts too."""
    result = re.findall(r"^(?:<!-- (\w+) -->\n)?([ ]*)```(\w*)[^\n]*\n(.*?)^\2```[ ]*$", text, re.DOTALL | re.MULTILINE)
    return [
        Block(mark, language, re.sub(rf"^{indent}", "", code, flags=re.MULTILINE))
        for mark, indent, language, code in result
    ]


def needs_more(code: str) -> bool:
    """Tell whether Python code needs packages that only tests marked `foreign` may need."""
    others = "pandas|polars|mlflow|datasets|dask|pyarrow"
    return bool(re.search(rf"^(?:import|from) (?:{others})\b", code, re.MULTILINE))


def environment(folder: Path, url: str) -> dict[str, str]:
    """Return the variables a reader has set: a key and an address, and a home of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUDGE_EVAL", "OPENAI"))}
    return kept | {
        "OPENAI_API_KEY": "sk-readme",
        "OPENAI_BASE_URL": url,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{programs()}:{kept['PATH']}",
    }


def shell(code: str, folder: Path, url: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a shell block in a folder; what a reader fills in is left out, the program is this one."""
    code = code.replace(".venv/bin/judge-eval", "judge-eval")
    code = re.sub(r"^export \w+=\.\.\..*$", "", code, flags=re.MULTILINE)
    code = re.sub(r"^(?:\S*python\S* -m )?pip install .*$", "", code, flags=re.MULTILINE)
    code = re.sub(r"^pytest\b", f"{sys.executable} -m pytest {' '.join(PLUGIN)}", code, flags=re.MULTILINE)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env=environment(folder, url) | variables,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def python(code: str, folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a folder, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(folder, url),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
