"""The name under which this package is installed, and its namesake on PyPI."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from judge_eval.errors import ConfigError
from judge_eval.installed import check_alone
from tests.support.blocks import ROOT
from tests.support.command import judge_eval

WRONG = re.compile(
    r"""(?:\b(?:pip|pip3|pipx|uv|poetry|pdm|conda)\b[^\n|;&]*\b(?:install|add)\b[^\n|;&]*
    |\buvx\b(?![^\n|;&]*--from)|\bpipx\s+run\b(?![^\n|;&]*--spec))
    (?<!-m)(?<!from)[ \t'"=]judge[-_]eval(?=[\s'"<>=~!@,`\[]|$)
    |["']judge[-_]eval\s*[\[<>=~!@]
    |\b(?:dependencies|requires|install_requires)\b\s*=\s*\[[^\]]*["']judge[-_]eval["']""",
    re.MULTILINE | re.VERBOSE,
)
"""An install line, or a requirement, of the other project."""
BINARY = {".png", ".parquet", ".gz", ".zip", ".db", ".xlsx"}
MADE = {"runs", "dist", "build", "site", "node_modules", "mlruns"}
"""What is made in a checkout and is no part of it."""


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("pip install judge-eval", True),
        ("python -m pip install --quiet 'judge-eval[otel]'", True),
        ("    - pip install judge_eval==1.0", True),
        ("uv pip install judge-eval", True),
        ("uv add judge-eval", True),
        ('dependencies = ["judge-eval>=0.1"]', True),
        ('dependencies = ["judge-eval"]', True),
        ('dependencies = [\n    "numpy",\n    "judge_eval",\n]', True),
        ('dependencies = ["context-judge"]\n\n[tool.x]\nname = ["judge-eval"]', False),
        ("uvx judge-eval run data.jsonl", True),
        ("pip install context-judge && judge-eval init", False),
        ("uvx --from . judge-eval init", False),
        ("pip install . && .venv/bin/judge-eval run", False),
        ("pip install '.[otel]'; judge-eval run", False),
        ("pip uninstall -y judge-eval context-judge", False),
    ],
)
def test_an_install_line_of_the_other_project_is_told(line: str, wrong: bool) -> None:
    """What is looked for below is what installs the other project, and nothing else."""
    assert bool(WRONG.search(line)) == wrong


@pytest.mark.slow
def test_no_page_or_file_installs_the_other_project() -> None:
    """Whoever follows our pages, workflows and messages never installs somebody else's package."""
    result, read = [], set()
    for folder, folders, files in os.walk(ROOT):
        at_top = Path(folder) == ROOT
        kept = [name for name in folders if not name.startswith(("__", ".")) or name == ".ci"]
        folders[:] = [name for name in kept if not at_top or name not in MADE]
        for path in (Path(folder) / name for name in files if Path(name).suffix not in BINARY):
            if path == Path(__file__):
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.suffix in (".json", ".jsonl"):  # texts are escaped there
                text = text.replace("\\n", "\n")
            result += [f"{path.relative_to(ROOT)}: {match.group().strip()}" for match in WRONG.finditer(text)]
            read.add(path.relative_to(ROOT).as_posix())
    assert result == []
    assert {"README.md", "action.yml", "pyproject.toml", "docs/ci.md", ".ci/run", "judge_eval/errors.py"} <= read


def test_files_of_the_two_in_one_folder_are_told(tmp_path: Path) -> None:
    """Where the namesake is installed over this package, the message names both and the way out."""
    check_alone(tmp_path)
    (tmp_path / "context_judge-0.1.0.dist-info").mkdir()
    check_alone(tmp_path)
    (tmp_path / "judge_eval-0.0.3.dist-info").mkdir()
    with pytest.raises(ConfigError, match="pip uninstall -y judge-eval context-judge"):
        check_alone(tmp_path)


def test_the_command_refuses_to_start_over_the_other_project(tmp_path: Path) -> None:
    """`judge-eval` in an environment that holds both says so, with exit code 2, before it does anything."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "judge_eval").symlink_to(ROOT / "judge_eval")
    (site / "judge_eval-0.0.3.dist-info").mkdir()
    code = f"import sys\nsys.path.insert(0, {str(site)!r})\nfrom judge_eval.cli import main\nmain(['--version'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "another project" in done.stderr
    assert done.stdout == ""


def test_the_version_is_that_of_this_package(tmp_path: Path) -> None:
    """`--version` reads what was installed under our own name."""
    assert re.fullmatch(r"judge-eval \d+\.\d+\.\d+\S*\n", judge_eval(tmp_path, "--version").stdout)
