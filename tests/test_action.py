"""The GitHub Action and the GitLab job: their shell steps, run here as the servers run them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.action import ACTION, STEPS, Job, Server
from tests.support.blocks import ROOT, blocks_of
from tests.support.blocks_of_pages import data_of

GITLAB = yaml.safe_load(
    next(
        block.code
        for block in reversed(blocks_of((ROOT / "docs" / "ci.md").read_text(encoding="utf-8")))
        if block.language == "yaml"
    )
)
GOOD = {
    "id": "q1",
    "query": "When does the office open?",
    "reference": "We open at nine.",
    "chunks": ["We open at nine.", "Parking is free."],
}
BAD = {**GOOD, "chunks": list(reversed(GOOD["chunks"]))}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A machine with a dataset whose retrieval is perfect."""
    job = Job(tmp_path)
    job.data(GOOD, {**GOOD, "id": "q2"})
    return job


PUSH = {"github.event_name": "push"}
PULL = {
    "github.event_name": "pull_request",
    "github.repository": "owner/name",
    "github.event.pull_request.number": "12",
    "github.token": "t",
}
PULL_ONLY = ("Restore the base branch's run", "Comment")
RUN = {"data": "traces.jsonl", "model": "fake/overlap", "metrics": "AP@5"}


def test_inputs_never_reach_the_text_of_a_script() -> None:
    """No expression stands inside a script: what a pull request names cannot become code."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert "uses" in step or step["shell"] == "bash"


def test_every_script_is_run_here() -> None:
    """No shell step of the action escapes these tests: a push and a pull request run them all."""
    scripts = [step for step in ACTION["runs"]["steps"] if "run" in step]
    assert {step.get("id") for step in scripts} == {"install", "run", "baseline", "comment", "gate"}


def test_the_package_is_installed_as_one_argument(job: Job) -> None:
    """What is to be installed reaches pip whole, whatever characters are in it."""
    hostile = "context-judge @ git+https://host/x; touch broken $(touch broken)"
    done, _ = job.step("install", PUSH, package=hostile)
    assert done.returncode == 0, done.stderr
    output = (job.folder / "python.log").read_text(encoding="utf-8").splitlines()
    assert output == ["-m", "pip", "install", "--quiet", hostile, "-c", "from judge_eval import Evaluator"]
    assert not (job.folder / "broken").exists()


def test_the_action_installs_its_own_checkout(job: Job) -> None:
    """Unless told otherwise the action installs what it was checked out with, from no registry."""
    done, _ = job.step("install", PUSH)
    assert done.returncode == 0, done.stderr
    output = (job.folder / "python.log").read_text(encoding="utf-8").splitlines()
    assert output[:5] == ["-m", "pip", "install", "--quiet", str(job.folder / "action")]


def test_another_project_of_the_same_import_name_is_told(job: Job) -> None:
    """Where what was installed is not this package, the job ends with a message that names both."""
    (job.folder / "other-project").touch()
    done, _ = job.step("install", PUSH, package="judge.whl")
    assert done.returncode == 2
    assert "::error title=judge_eval::the installed package is another project" in done.stdout
    assert "context-judge" in done.stdout


@pytest.mark.slow
def test_a_repository_from_push_to_pull_request(tmp_path: Path) -> None:
    """Jobs on fresh clones share replies and the base branch's run: nothing is paid twice."""
    server = Server(tmp_path)
    server.commit("main", GOOD, {**GOOD, "id": "q2"})
    # Two traces decide nothing about a drop, which warns; the limit on the mean is about themselves.
    inputs = RUN | {"max_drop": "AP@5=0.03", "fail_under": "AP@5=0.9", "undecided": "warn"}
    push = PUSH | {"github.ref_name": "main"}
    job, known, taken = server.run(push, **inputs)
    assert known["steps.run.outputs.code"] == "0"
    assert taken == [step["name"] for step in ACTION["runs"]["steps"] if step["name"] not in PULL_ONLY]
    first = _manifest(known)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=job.folder, capture_output=True, text=True)
    assert first["environment"]["git"].startswith(head.stdout.strip())
    assert first["tally"]["calls"] > 0

    server.commit("same", GOOD, {**GOOD, "id": "q2"}, {**GOOD, "id": "q3"})
    pull = PULL | {"github.base_ref": "main", "github.ref_name": "12/merge"}
    job, known, taken = server.run(pull, **inputs)
    assert (known["steps.run.outputs.code"], known.get("job")) == ("0", None)
    assert _manifest(known)["tally"]["calls"] == 0, "the replies of the push were not restored"
    assert "Make this run the base branch's" not in taken
    assert "all the same" in (job.folder / "summary.md").read_text(encoding="utf-8")

    server.commit("worse", BAD, {**BAD, "id": "q2"})
    _, known, taken = server.run(pull, **inputs)
    assert (known["steps.run.outputs.code"], known["job"]) == ("1", "1")
    assert "Keep replies" in taken
    assert len([name for name in server.saved if name.startswith("judge-eval-baseline-main-")]) == 1


def _manifest(known: dict[str, str]) -> dict[str, Any]:
    path = Path(known["steps.run.outputs.run"]) / "manifest.json"
    messages: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return messages


def test_a_push_judges_reports_and_becomes_the_baseline(job: Job) -> None:
    """On the base branch the run ends with 0, its report is in the summary, its folder is kept."""
    done, outputs = job.step("run", PUSH, **RUN)
    assert done.returncode == 0, done.stderr
    assert outputs["steps.run.outputs.code"] == "0"
    assert "AP@5" in (job.folder / "summary.md").read_text(encoding="utf-8")
    pages = Path(outputs["steps.run.outputs.pages"])
    assert {path.name for path in pages.parent.glob(pages.name)} == {"report.html", "report.md"}
    assert (job.folder / ".judge_eval" / "cache").is_dir()
    done, _ = job.step("baseline", PUSH | outputs)
    assert done.returncode == 0, done.stderr
    assert (job.folder / ".judge_eval" / "baseline" / "manifest.json").is_file()
    done, _ = job.step("gate", PUSH | outputs)
    assert done.returncode == 0


@pytest.mark.slow
def test_a_pull_request_is_compared_and_gated(job: Job) -> None:
    """Against the base branch's run a worse retrieval breaks the limit, and the gate ends with 1."""
    # What GitHub tells each job; the comment names branches, with a link to the pull request, and no ids.
    job.variables = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "owner/name", "GITHUB_REF_NAME": "main"}
    _, outputs = job.step("run", PUSH, **RUN)
    job.variables |= {"GITHUB_REF": "refs/pull/12/merge", "GITHUB_REF_NAME": "12/merge", "GITHUB_HEAD_REF": "feature-x"}
    job.step("baseline", PUSH | outputs)
    limits = {"max_drop": "AP@5=0.03", "fail_under": "AP@5=0.9", "undecided": "warn"}
    done, outputs = job.step("run", PULL, **RUN, **limits)
    assert outputs["steps.run.outputs.code"] == "0", done.stderr
    job.data(BAD, {**BAD, "id": "q2"})
    done, outputs = job.step("run", PULL, **RUN, **limits)
    assert done.returncode == 0, done.stderr
    assert outputs["steps.run.outputs.code"] == "1", done.stderr
    report = Path(outputs["steps.run.outputs.report"]).read_text(encoding="utf-8")
    assert "AP@5" in report
    page = data_of((Path(outputs["steps.run.outputs.report"]).parent / "report.html").read_text(encoding="utf-8"))
    assert page["gate"]["title"] == "Gate failed: 1 of 2, 1 of 2 undecided"
    assert page["gate"]["limits"][0][0] in report.replace("\\", "")
    assert report.partition("\n\n")[2].startswith("**Gate failed: 1 of 2, 1 of 2 undecided**")
    assert page["baseline"]["label"] == "main"
    heading = next(line for line in report.splitlines() if line.startswith("### "))
    assert heading.startswith("### [feature-x (")
    assert heading.endswith("](<https://github.com/owner/name/pull/12>) against main (baseline)")
    assert page["baseline"]["id"] == json.loads((job.folder / ".judge_eval/baseline/manifest.json").read_text())["id"]
    assert "AP@5 -0" in page["opening"]["sentence"]
    done, _ = job.step("gate", PULL | outputs)
    assert done.returncode == 1


def test_the_action_takes_every_limit() -> None:
    """Whatever limits the command line has are inputs, and handed over under their names."""
    for kind in ("fail-under", "max-drop", "non-inferior"):
        assert kind in ACTION["inputs"]
        assert STEPS["run"]["env"][kind.upper().replace("-", "_")] == f"${{{{ inputs.{kind} }}}}"
        assert f'--{kind} "$limit"' in STEPS["run"]["run"]


def test_without_a_baseline_a_pull_request_is_not_compared(job: Job) -> None:
    """Before the base branch has a run, limits on drops are left out, and the log says so."""
    done, outputs = job.step("run", PULL, **RUN, max_drop="AP@5=0.03")
    assert outputs["steps.run.outputs.code"] == "0", done.stderr
    assert "the base branch has no run yet" in done.stdout


def test_failed_verdicts_fail_the_job(job: Job) -> None:
    """A judge that refuses ends the job with 3, unless failures are borne."""
    refused = RUN | {"model": "fake/refused"}
    _, outputs = job.step("run", PUSH, **refused)
    assert outputs["steps.run.outputs.code"] == "3"
    _, outputs = job.step("run", PUSH, **refused, max_failures="9")
    assert outputs["steps.run.outputs.code"] == "0"


def test_a_usage_error_has_a_report_too(job: Job) -> None:
    """Where nothing could be judged, the summary says so and the gate ends with 2."""
    _, outputs = job.step("run", PUSH, **RUN | {"data": "nowhere.jsonl"})
    assert outputs["steps.run.outputs.code"] == "2"
    assert "error: nowhere.jsonl: cannot be read" in (job.folder / "summary.md").read_text(encoding="utf-8")


def test_hostile_inputs_stay_arguments(job: Job) -> None:
    """Shell text in an input is an argument, not a command."""
    done, outputs = job.step("run", PUSH, **RUN | {"model": '$(touch broken)"; touch broken #'})
    assert outputs["steps.run.outputs.code"] == "2", done.stderr
    done, _ = job.step("run", PUSH, **RUN, arguments="--label\n`touch broken`; touch broken")
    assert done.returncode == 0
    assert not (job.folder / "broken").exists()


@pytest.mark.parametrize(
    "inputs",
    [
        {"data": "--help"},
        {"data": "--version"},
        {"arguments": "--help"},
        {"arguments": "--out=elsewhere"},
        {"arguments": "--dry-run"},
    ],
)
def test_success_without_a_run_is_a_failure(job: Job, inputs: dict[str, str]) -> None:
    """Whatever ends with 0 without judging fails the job, and the former baseline stays."""
    kept = job.folder / ".judge_eval" / "baseline"
    kept.mkdir(parents=True)
    (kept / "manifest.json").write_text("{}", encoding="utf-8")
    done, outputs = job.step("run", PUSH, **RUN | inputs)
    assert done.returncode == 0
    assert outputs["steps.run.outputs.code"] == "2", done.stdout
    assert outputs["steps.run.outputs.run"] == ""
    done, _ = job.step("gate", PUSH | outputs)
    assert done.returncode == 2
    done, _ = job.step("baseline", PUSH | outputs)
    assert done.returncode != 0
    assert (kept / "manifest.json").is_file()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("jq") is None, reason="jq stands in for that of gh")
def test_one_comment_is_kept_up_to_date(job: Job) -> None:
    """The first report is a new comment; where ours is there already, that one is changed."""
    _, outputs = job.step("run", PULL, **RUN)
    done, _ = job.step("comment", PULL | outputs)
    assert done.returncode == 0, done.stderr
    mark = "<!-- judge_eval: comment -->"
    comments = [
        {"id": 1, "body": "hello", "user": {"login": "github-actions[bot]"}},
        {"id": 66, "body": f"{mark} mine", "user": {"login": "stranger"}},
        {"id": 77, "body": f"{mark} ours", "user": {"login": "github-actions[bot]"}},
        {"id": 88, "body": f"{mark} ours", "user": {"login": "owner"}},
    ]
    (job.folder / "comments.json").write_text(json.dumps(comments), encoding="utf-8")
    job.step("comment", PULL | outputs)
    for viewer in ("owner", '" or true or "'):  # of a token of one's own; of none that can be read
        (job.folder / "viewer").write_text(viewer, encoding="utf-8")
        job.step("comment", PULL | outputs)
    log = (job.folder / "gh.log").read_text(encoding="utf-8").splitlines()
    calls = [line for line in log if "--method" in line]
    assert [call.split()[2:4] for call in calls] == [
        ["POST", "repos/owner/name/issues/12/comments"],
        ["PATCH", "repos/owner/name/issues/comments/77"],
        ["PATCH", "repos/owner/name/issues/comments/88"],
        ["PATCH", "repos/owner/name/issues/comments/77"],
    ]
    (body,) = job.folder.rglob("*.comment")
    assert body.read_text(encoding="utf-8").startswith("<!-- judge_eval: comment -->")


@pytest.mark.slow
def test_the_gitlab_job_compares_with_the_default_branch(job: Job) -> None:
    """The job's script keeps the default branch's run, and a merge request is held against it."""
    script = "\n".join(GITLAB["retrieval"]["script"])
    variables = {"JUDGE_EVAL_MODEL": "fake/overlap", "JUDGE_EVAL_CACHE": ".judge_eval/cache"}
    variables["CI_DEFAULT_BRANCH"] = "main"
    branch = variables | {"CI_COMMIT_BRANCH": "main", "CI_MERGE_REQUEST_IID": ""}
    request = variables | {"CI_COMMIT_BRANCH": "", "CI_MERGE_REQUEST_IID": "7"}
    assert job.bash(script, **branch).returncode == 0
    assert (job.folder / ".judge_eval" / "baseline" / "manifest.json").is_file()
    assert job.bash(script, **request).returncode == 0
    job.data(*({**BAD, "id": f"q{n}", "chunks": ["Parking is free."]} for n in range(1, 9)))
    done = job.bash(script, **request)
    assert done.returncode == 1, done.stderr
    assert "AP@5" in (job.folder / "report.md").read_text(encoding="utf-8")
