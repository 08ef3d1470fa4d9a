"""How a run starts: its manifest with what made it, and its folder, a new one or that of a run to resume."""

import platform
import re
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from pydantic import JsonValue

from judge_eval.errors import ConfigError, RunError
from judge_eval.installed import own_version
from judge_eval.llm.backend import Identity
from judge_eval.runs.folder.describing import differences
from judge_eval.runs.folder.journal import Journal
from judge_eval.runs.folder.records import Dataset, Intervals, Manifest
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.judging.counting import with_paid
from judge_eval.runs.judging.session import EarlierRows, RunContext
from judge_eval.runs.keeping.lookup import newest_of
from judge_eval.runs.keeping.mirror import until_left, url_of
from judge_eval.spelling import option


def begin(dataset: Dataset, context: RunContext, intervals: Intervals) -> Manifest:
    """Return the manifest of a new run of a dataset."""
    return Manifest.parse(
        {
            "id": context.run_id or str(uuid.uuid4()),
            "created": datetime.now(UTC),
            "dataset": dataset,
            "judge": context.judge.describe(),
            "backend": backends_record(context.stack.identities()),
            "metrics": context.scorer.names,
            "intervals": intervals,
            "environment": environment(),
            "tally": context.paid,
        },
        file="the run's manifest",
    )


@dataclass(frozen=True, slots=True)
class Begun:
    """A run to resume, with its manifest, which is read once."""

    folder: Path
    manifest: Manifest


async def run_to_resume(
    dataset: Dataset, out: Path | None, resume: str | Path | bool, new_if_done: bool = False
) -> Begun | None:
    """Find the run to resume; None if a new one starts."""
    # `resume` is a run's folder; True resumes the newest unfinished run of the same data in `out`, else takes
    # the newest that is done, unless `new_if_done`. If there is none of the data, a new one starts.
    if not resume:
        return None
    if resume is not True:
        await until_left(Path(resume))
        return Begun(Path(resume), load_manifest(Path(resume)))
    if out is None:
        raise ConfigError("resume=True looks for the run in `out`; give the folder of runs")
    newest = newest_of(out, dataset.digest, dataset.shard, done=not new_if_done)
    if newest is None:
        return None
    await until_left(newest[0])
    # What stands behind a URL was brought here since.
    return Begun(newest[0], newest[1] if url_of(newest[0]) is None else load_manifest(newest[0]))


def check_goes_on(begun: Begun, manifest: Manifest, *, newest: bool) -> None:
    """Check that a run has the data, the judge and, if done, the metrics of the run that would start."""
    folder, before = begun.folder, begun.manifest
    if before.imported:
        fault = "cannot resume an imported run; import the file again (`runs import`), or judge the data in a new run"
        raise RunError(fault, file=folder)
    # A run that has all its verdicts stays as it is; of any other the metrics may be what ended it.
    if different := differences(before, manifest, metrics=before.is_whole):
        advice = ""
        if newest and before.status == "done":
            another = option("new_if_done", True)
            advice = f" (it is the newest run of these data, and done; {another} begins another)"
        raise RunError(f"cannot resume: {different}{advice}", file=folder)


def open_journal(
    manifest: Manifest, out: Path | None, begun: Begun | None, context: RunContext
) -> tuple[Journal | None, EarlierRows]:
    """Open the folder that a run is written to (no journal: a run in memory), and read its rows once."""
    if begun is None:
        rows = EarlierRows(context, manifest)
        return (None if out is None else Journal(out / folder_name(manifest), manifest)), rows
    before = begun.manifest
    manifest = before.replace(
        status="running",
        finished=None,
        intervals=manifest.intervals,
        metrics=manifest.metrics,
        baseline=manifest.baseline or before.baseline,
        aggregates=before.aggregates if before.metrics == manifest.metrics else {},
        tally=before.tally if before.status == "running" else with_paid(before.tally, context.paid),
    )
    rows = EarlierRows(context, manifest, begun.folder if before.status == "running" else None)
    return Journal(begun.folder, manifest, rows.take, rows.settle), rows


def folder_name(manifest: Manifest) -> str:
    """Return the name of a run's folder: when it was created, and the start of its id."""
    stamp = manifest.created.astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{uuid.UUID(manifest.id).hex[:8]}"


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
    """Return the versions of this package and of Python, and the git revision of the working folder.

    They are read once in a process: what is loaded does not change, and git may take long.
    """
    return dict(_environment())


@cache
def _environment() -> dict[str, JsonValue]:
    versions: dict[str, JsonValue] = {"judge_eval": own_version(), "python": platform.python_version()}
    if git := shutil.which("git"):
        with suppress(OSError, subprocess.SubprocessError):
            head = subprocess.run(  # noqa: S603  a fixed command
                [git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True
            )
            versions["git"] = head.stdout.strip()
    return versions
