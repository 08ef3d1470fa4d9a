"""The machines that a CI job runs on, and the server between jobs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.blocks import ROOT, environment
from tests.support.forking import programs

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"] if "run" in step}


class Job:
    """One job's machine: a folder that is kept between jobs, programs on its path, a server's variables."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder, folder / "programs"
        self.programs.mkdir(parents=True)
        self._program("judge-eval", f'exec {programs()}/judge-eval "$@"')
        self._program(
            "gh",
            'printf "%s\\n" "$*" >> gh.log; for last; do :; done; case "$*" in '
            '*graphql*) cat viewer ;; *--jq*) jq -r "$last" comments.json ;; esac',
        )
        self._program(
            "python", 'printf "%s\\n" "$@" >> python.log; case "$*" in *import*) test ! -f other-project ;; esac'
        )
        self.variables: dict[str, str] = {}
        """What the server tells the job besides."""
        (folder / "comments.json").write_text("[]", encoding="utf-8")
        (folder / "viewer").write_text("github-actions[bot]", encoding="utf-8")

    def _program(self, name: str, line: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(0o755)

    def bash(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script as GitHub does: a file, under bash with -e and pipefail."""
        known = environment(self.folder, "http://127.0.0.1:9/v1")
        known["PATH"] = f"{self.programs}:{known['PATH']}"
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env=known | self.variables | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def step(
        self, name: str, context: dict[str, str], **inputs: str
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
        """Run one step of the action; return what came of it and its outputs."""
        given = {key: str(result.get("default", "")) for key, result in ACTION["inputs"].items()}
        given |= {key.replace("_", "-"): value for key, value in inputs.items()}
        values = context | {f"inputs.{key}": value for key, value in given.items()}
        step = STEPS[name]
        env = {key: _fill(value, values) for key, value in step.get("env", {}).items()}
        out, summary = self.folder / f"{name}.out", self.folder / "summary.md"
        out.write_text("", encoding="utf-8")
        done = self.bash(
            step["run"],
            GITHUB_OUTPUT=str(out),
            GITHUB_STEP_SUMMARY=str(summary),
            GITHUB_ACTION_PATH=str(self.folder / "action"),
            RUNNER_TEMP=str(self.folder),
            **env,
        )
        pairs = (line.partition("=") for line in out.read_text(encoding="utf-8").splitlines())
        return done, {f"steps.{name}.outputs.{key}": value for key, _, value in pairs}

    def data(self, *traces: dict[str, Any]) -> None:
        """Write the dataset."""
        lines = [json.dumps(trace) + "\n" for trace in traces]
        (self.folder / "traces.jsonl").write_text("".join(lines), encoding="utf-8")


class Server:
    """What stands between jobs: a Git repository, and the caches that jobs have saved."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.saved, self.jobs = folder, dict[str, Path](), 0
        self.origin = folder / "origin"
        self.origin.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> None:
        """Run Git in the repository."""
        who = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *arguments], cwd=self.origin, check=True, capture_output=True)

    def commit(self, branch: str, *traces: dict[str, Any]) -> None:
        """Commit a dataset on a branch."""
        if branch != "main":
            self.git("checkout", "-q", "-b", branch)
        lines = [json.dumps(trace) + "\n" for trace in traces]
        (self.origin / "traces.jsonl").write_text("".join(lines), encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", branch)

    def run(self, context: dict[str, str], **inputs: str) -> tuple[Job, dict[str, str], list[str]]:
        """Run every step of the action, in order, on a fresh machine with a clone of the repository.

        Returns:
            The machine, what the expressions of the action know at the end, and the names of the steps run.
        """
        self.jobs += 1
        home = self.folder / f"job{self.jobs}"
        self.git("clone", "-q", str(self.origin), str(home))
        job, taken = Job(home), []
        known = context | {"github.run_id": str(self.jobs), "github.run_attempt": "1"}
        for step in ACTION["runs"]["steps"]:
            given = {f"inputs.{key}": str(result.get("default", "")) for key, result in ACTION["inputs"].items()}
            given |= {f"inputs.{key.replace('_', '-')}": value for key, value in inputs.items()}
            if not _holds(step.get("if", "always()"), known | given):
                continue
            taken.append(step["name"])
            uses = step.get("uses", "")
            if "run" in step:
                done, outputs = job.step(step["id"], known, **inputs)
                known |= outputs
                if done.returncode and not step.get("continue-on-error"):
                    known["job"] = str(done.returncode)
            elif "/restore@" in uses:
                keys = [step["with"]["key"], *step["with"]["restore-keys"].split()]
                self._restore(home / step["with"]["path"], [_fill(key, known) for key in keys])
            elif "/save@" in uses:
                self.saved[_fill(step["with"]["key"], known)] = kept = self.folder / f"cache{len(self.saved)}"
                shutil.copytree(home / step["with"]["path"], kept)
            elif "/upload-artifact@" in uses:
                pages = Path(_fill(step["with"]["path"], known))
                assert (pages.parent / "report.html").is_file()
        return job, known, taken

    def _restore(self, path: Path, keys: list[str]) -> None:
        """Bring back the newest cache under the first key that one begins with, as actions/cache does."""
        for key in keys:
            values = [kept for name, kept in self.saved.items() if name.startswith(key)]
            if values:
                shutil.copytree(values[-1], path)
                return


def _holds(condition: str, values: dict[str, str]) -> bool:
    """Tell whether a step's condition holds."""
    parts = (part.strip() for part in condition.split("&&"))
    for part in parts:
        if part == "always()":
            continue
        name, operator, wanted = part.split(" ", 2)
        if (values.get(name, "") == wanted.strip("'")) != (operator == "=="):
            return False
    return True


def _fill(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda match: values[match[1]], str(text))
