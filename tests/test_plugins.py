"""A backend, a judge, a metric and a reader of another package, found by their entry points."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "tests" / "support" / "plugin_example"
TRACE = {
    "id": "q1",
    "query": "When does the office open?",
    "reference": "at nine",
    "chunks": [{"id": "c1", "text": "We open at nine."}, {"id": "c2", "text": "Parking is free."}],
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the example as an installer leaves it: the module and its metadata."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(EXAMPLE / "judge_eval_example.py", folder)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / "judge_eval_example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    groups = project["entry-points"]
    groups["judge_eval.metrics"] |= {"AP": "judge_eval_example:ALL_RELEVANT", "Lost": "judge_eval_example:NOWHERE"}
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _run(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JUDGE_EVAL", "OPENAI"))}
    paths = os.pathsep.join([str(ROOT), str(installed)])
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment | {"PYTHONPATH": paths, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


QUIZ = {"asks": TRACE["query"], "wants": TRACE["reference"], "hits": ["We open at nine.", "Parking is free."]}


@pytest.mark.foreign
@pytest.mark.slow
def test_the_example_is_installed_and_used(tmp_path: Path) -> None:
    """`pip install` of the example beside this package brings nothing else; its four names work on the command line."""
    project, home = tmp_path / "example", tmp_path / "home"
    shutil.copytree(EXAMPLE, project)
    home.mkdir()
    venv.create(home / "venv")
    programs = home / "venv" / ("Scripts" if os.name == "nt" else "bin")
    (packages,) = (home / "venv").glob("[Ll]ib/**/site-packages")
    # This package and what it needs are seen as if they were installed there: .ci/packages installs them in earnest.
    (packages / "beside.pth").write_text(
        "\n".join([str(ROOT), *(each for each in sys.path if each.endswith("site-packages"))])
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUDGE_EVAL", "OPENAI", "PYTHON", "VIRTUAL_ENV"))
    } | {"XDG_CACHE_HOME": str(home / "cache")}

    def call(*words: str) -> str:
        done = subprocess.run(
            [str(programs / "python"), "-m", *words],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call("pip", "install", "-q", str(project))
    assert {path.name.partition("-")[0] for path in packages.glob("*.dist-info")} == {"judge_eval_example"}
    (home / "quiz.jsonl").write_text(json.dumps(QUIZ) + "\n", encoding="utf-8")
    how = ("--model", "parrot/grey", "--judge", "quoting", "--metrics", "AllRelevant@1,AllRelevant@3,AP@5")
    for read in ((), ("--format", "quiz")):
        manifest = json.loads(call("judge_eval", "run", "quiz.jsonl", *read, *how, "--json", "-q"))
        means = {name: aggregate["mean"] for name, aggregate in manifest["aggregates"].items()}
        assert means == {"AllRelevant@1": 1.0, "AllRelevant@3": 0.0, "AP@5": 1.0}
        assert manifest["judge"]["judge"] == "quoting/1"
        assert manifest["backend"]["provider"] == "parrot"
    assert json.loads(call("judge_eval", "convert", "quiz.jsonl"))["query"] == TRACE["query"]


@pytest.mark.slow
def test_all_three_work_from_the_command_line(installed: Path, tmp_path: Path) -> None:
    """A backend by `--model`, a judge by `--judge` and a metric by name work like those of the package."""
    (tmp_path / "traces.jsonl").write_text(json.dumps(TRACE) + "\n", encoding="utf-8")
    command = ["-m", "judge_eval", "run", "traces.jsonl", "-m", "parrot/grey", "--judge", "quoting"]
    done = _run(installed, tmp_path, *command, "-k", "AllRelevant@1,AllRelevant(rel=1)@2,AP@5", "--json", "-q")
    assert done.returncode == 0, done.stderr
    manifest = json.loads(done.stdout)
    means = {name: result["mean"] for name, result in manifest["aggregates"].items()}
    assert means == {"AllRelevant@1": 1.0, "AllRelevant(rel=1)@2": 0.0, "AP@5": 1.0}
    assert manifest["judge"]["judge"] == "quoting/1"
    assert manifest["backend"]["provider"] == "parrot"
    assert "every chunk within the top K" in manifest["aggregates"]["AllRelevant@1"]["definition"]


def test_names_parse_back_and_nobody_redefines_ours(installed: Path, tmp_path: Path) -> None:
    """A plug-in metric's text parses back to it; a package that declares `AP` does not change AP."""
    code = (
        "from judge_eval import parse_metric\n"
        "from judge_eval.metrics import metric_names\n"
        "m = parse_metric('AllRelevant(rel=2)@3')\n"
        "assert str(m) == 'AllRelevant(rel=2)@3' and parse_metric(str(m)) == m\n"
        "assert 'sum over ranks' in parse_metric('AP@5').definition\n"
        "names = metric_names(); assert 'AllRelevant@K' in names and 'sum over' in names['AP@K']\n"
    )
    done = _run(installed, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("parse_metric('AllRelevnt@3')", "did you mean 'AllRelevant@3'"),
        ("parse_metric('Lost@3')", "metric 'Lost' cannot be used"),
        ("Evaluator('fake/overlap', judge='quotin')", "did you mean 'quoting'"),
        ("evaluate({'query': 'a?', 'reference': 'b', 'chunks': ['b']}, 'parot/x')", "did you mean 'parrot'"),
    ],
)
def test_a_wrong_name_is_advised(installed: Path, tmp_path: Path, code: str, told: str) -> None:
    """The names of installed packages are offered where one was nearly meant."""
    done = _run(installed, tmp_path, "-c", f"from judge_eval import Evaluator, evaluate, parse_metric\n{code}")
    assert done.returncode == 1
    assert told in done.stderr


@pytest.mark.slow
def test_nothing_is_loaded_before_it_is_named(installed: Path, tmp_path: Path) -> None:
    """Importing and using the package imports no plug-in that nobody named."""
    code = (
        "import sys; from judge_eval import Trace, evaluate\n"
        "trace = Trace.parse({'id': 't', 'query': 'a?', 'reference': 'b', 'chunks': ['b']})\n"
        "evaluate(trace, 'fake/overlap', cache=False)\n"
        "assert 'judge_eval_example' not in sys.modules\n"
    )
    done = _run(installed, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
