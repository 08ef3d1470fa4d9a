"""What a release needs: workflows, the container of the server, the citation."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.blocks import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def workflow(name: str) -> dict[str, Any]:
    """Return a workflow; YAML reads the key `on` as true."""
    content = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in content.items()}


def test_a_release_is_published_without_a_password() -> None:
    """Only the job that publishes may sign; it names its environment, and no workflow holds a secret."""
    release = workflow("release.yml")
    assert release["on"] == {"push": {"tags": ["v*"]}}
    assert release["permissions"] == {}
    jobs = release["jobs"]
    signing = [name for name, job in jobs.items() if "id-token" in job["permissions"]]
    assert signing == ["publish"]
    assert jobs["publish"]["environment"]["name"] == "pypi"
    used = [step.get("uses", "").split("@")[0] for step in jobs["publish"]["steps"]]
    assert {"actions/attest-build-provenance", "actions/attest-sbom", "pypa/gh-action-pypi-publish"} <= set(used)
    for path in WORKFLOWS.iterdir():
        assert "secrets." not in path.read_text(encoding="utf-8"), path.name


def test_the_tests_run_where_users_are() -> None:
    """Linux, Windows and macOS, with every Python that the package says it supports."""
    matrix = workflow("tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "windows", "macos"}
    versions = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert matrix["python"] == versions


def test_the_citation_names_this_version() -> None:
    """The citation file has what its format requires, and the version and licence of the project."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])


@pytest.mark.foreign
def test_the_linters_of_workflows_and_containers_find_nothing() -> None:
    """No workflow gives away a right or runs text from a pull request, and the container's file is clean."""
    tools = Path(sys.executable).parent
    for command in (["zizmor", "--offline", "--no-progress", str(WORKFLOWS)], ["hadolint", str(ROOT / "Dockerfile")]):
        program = shutil.which(command[0], path=f"{tools}{os.pathsep}{os.environ['PATH']}")
        assert program is not None, f"{command[0]} is not installed"
        done = subprocess.run([program, *command[1:]], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_hook_checks_every_changed_file(tmp_path: Path) -> None:
    """pre-commit gives the hook all changed files: each is checked, and one that is invalid fails."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    good = '{"id": "a", "query": "q", "reference": "r", "chunks": ["We open at nine."]}\n'
    for name, text in (("a.jsonl", good), ("b c.jsonl", '{"query": 1}\n'), ("d.jsonl", good)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for names, code in ((["a.jsonl", "d.jsonl"], 0), (["a.jsonl", "b c.jsonl", "d.jsonl"], 2)):
        command = [*shlex.split(hook["entry"]), *names]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        assert done.stdout.count("valid traces") == len(names)


def test_the_container_runs_as_anybody() -> None:
    """The documented command runs it as the owner of the mounted folder, who is unknown in the container."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "HOME=/tmp" in lines
    assert '--user "$(id -u):$(id -g)"' in (ROOT / "docs" / "server.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_container_serves_as_its_file_says(tmp_path: Path) -> None:
    """Its user is nobody in particular; its settings start a server that its own health check finds healthy."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER 10001$", lines, re.MULTILINE)
    settings = dict(re.findall(r"(JUDGE_EVAL_\w+)=(\S+)", lines[lines.index("\nENV ") : lines.index("\nUSER ")]))
    check = re.search(r'CMD \["python", "-c", "(.+)"\]', lines)
    assert check is not None
    folder = str(tmp_path)
    env = {
        **{name: value.replace("/runs", folder) for name, value in settings.items()},
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "JUDGE_EVAL_SERVER_TOKEN": "a-token-that-is-long-enough",
    }
    command = [sys.executable, "-m", "judge_eval", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = re.findall(r":(\d+)", server.stdout.readline())[0]
            code = check.group(1).replace("8642", port)
            until = time.monotonic() + 30
            while (done := subprocess.run([sys.executable, "-c", code], env=env, check=False)).returncode:
                assert time.monotonic() < until
            assert done.returncode == 0
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/health", timeout=5) as answer:
                assert answer.status == 200
        finally:
            server.terminate()


def test_the_container_refuses_to_be_open_without_a_token(tmp_path: Path) -> None:
    """Listening on every address without a token is an error that says what to set."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "JUDGE_EVAL_HOST": "0.0.0.0"}
    command = [sys.executable, "-m", "judge_eval", "serve", "--port", "0"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "JUDGE_EVAL_SERVER_TOKEN" in done.stderr
