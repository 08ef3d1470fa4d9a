"""Where numbers come from: what made a run, and how two runs differ in it."""

import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from pydantic import JsonValue

from judge_eval.installed import own_version
from judge_eval.llm.backend import Identity


def backends_record(identities: Mapping[str, Identity | None]) -> dict[str, JsonValue]:
    """Write down who answers, by route; a single model stands for itself, and a scripted one has no name."""
    records: dict[str, dict[str, JsonValue]] = {}
    for route, identity in identities.items():
        who = identity or Identity("custom", "")
        records[route] = {
            "provider": who.provider,
            "model": who.model,
            "base_url": who.base_url,
            "params": dict(who.params),
            **({"variant": who.variant} if who.variant else {}),
        }
    if list(records) == [""]:
        return records[""]
    models = ", ".join(f"{r['provider']}/{r['model']}" for r in records.values())
    return {"provider": "panel", "model": models, "members": dict(records)}


def place_in_ci(variables: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Read off a label and an address from what GitHub and GitLab tell their jobs."""
    # A pull request is labelled by its branch and number, `feature-x (#12)`, on GitLab `feature-x (!12)`, and linked;
    # a branch's name cannot hold a blank, so that a fork's branch is never taken for one of `label:main`. Elsewhere
    # the label is the branch or tag and the address its commit, or the job. One that is not http or https is None.
    get = variables.get
    label = href = None
    if get("GITHUB_ACTIONS"):
        home = f"{get('GITHUB_SERVER_URL', 'https://github.com')}/{get('GITHUB_REPOSITORY', '')}"
        pull = re.fullmatch(r"refs/pull/([0-9]+)/(merge|head)", get("GITHUB_REF", ""))
        if pull:
            label, href = _label(get("GITHUB_HEAD_REF"), "PR", f"#{pull[1]}"), f"{home}/pull/{pull[1]}"
        else:
            label = get("GITHUB_REF_NAME")
            job = f"{home}/actions/runs/{get('GITHUB_RUN_ID')}" if get("GITHUB_RUN_ID") else None
            href = f"{home}/commit/{get('GITHUB_SHA')}" if get("GITHUB_SHA") else job
    elif get("GITLAB_CI"):
        home, number = get("CI_PROJECT_URL", ""), get("CI_MERGE_REQUEST_IID", "")
        if number.isdecimal():
            label = _label(get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME"), "MR", f"!{number}")
            href = f"{get('CI_MERGE_REQUEST_PROJECT_URL') or home}/-/merge_requests/{number}"
        else:
            commit = f"{home}/-/commit/{get('CI_COMMIT_SHA')}" if get("CI_COMMIT_SHA") else None
            label, href = get("CI_COMMIT_REF_NAME"), commit or get("CI_JOB_URL")
    if href is not None and not re.match(r"https?://[^/\s]", href):
        href = None
    return label or None, href


def _label(branch: str | None, kind: str, number: str) -> str:
    return f"{branch} ({number})" if branch else f"{kind} {number}"


def environment() -> dict[str, JsonValue]:
    """Write down the versions of this package and of Python, and the git revision of the working folder."""
    versions: dict[str, JsonValue] = {"judge_eval": own_version(), "python": platform.python_version()}
    if git := shutil.which("git"):
        with suppress(OSError, subprocess.SubprocessError):
            head = subprocess.run(  # noqa: S603  a fixed command
                [git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True
            )
            versions["git"] = head.stdout.strip()
    return versions
