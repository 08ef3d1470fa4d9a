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
    # On GitHub (`GITHUB_ACTIONS`) a pull request is labelled `PR #12` and linked; elsewhere the label is the
    # branch or tag (`GITHUB_REF_NAME`) and the address the job's run. On GitLab (`GITLAB_CI`) a merge request
    # is labelled `MR !12`; elsewhere the label is `CI_COMMIT_REF_NAME` and the address `CI_JOB_URL`. A run of
    # the main branch is thus found as `label:main`. An address that is not http or https is None.
    get = variables.get
    label = href = None
    if get("GITHUB_ACTIONS"):
        home = f"{get('GITHUB_SERVER_URL', 'https://github.com')}/{get('GITHUB_REPOSITORY', '')}"
        pull = re.fullmatch(r"refs/pull/([0-9]+)/(merge|head)", get("GITHUB_REF", ""))
        if pull:
            label, href = f"PR #{pull[1]}", f"{home}/pull/{pull[1]}"
        else:
            label = get("GITHUB_REF_NAME")
            href = f"{home}/actions/runs/{get('GITHUB_RUN_ID')}" if get("GITHUB_RUN_ID") else None
    elif get("GITLAB_CI"):
        number = get("CI_MERGE_REQUEST_IID", "")
        if number.isdecimal():
            project = get("CI_MERGE_REQUEST_PROJECT_URL") or get("CI_PROJECT_URL", "")
            label, href = f"MR !{number}", f"{project}/-/merge_requests/{number}"
        else:
            label, href = get("CI_COMMIT_REF_NAME"), get("CI_JOB_URL")
    if href is not None and not re.match(r"https?://[^/\s]", href):
        href = None
    return label or None, href


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
