from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import typer

from judge_eval import EvalRun
from judge_eval.runs.folder.records import Manifest
from judge_eval.server.server_settings import ServerSettings
from tests.support.application import CliRunner
from tests.support.serving import ask, ids, judge, rows, serving

# Two servers made at once in threads of one process: a warning that FastAPI silences while it builds its
# routes can slip through, since `warnings.catch_warnings` is not made for threads.
pytestmark = pytest.mark.filterwarnings("ignore:The .* attribute with value .* was provided:UserWarning")


def test_runs_are_listed_and_filtered(url: str) -> None:
    """Label, tags and status narrow the list; a threshold says pass or fail from the mean."""
    status, result, _ = ask(f"{url}/runs")
    assert (status, result["total"]) == (200, 2)
    for run in result["runs"]:
        assert run["passed"] == {"AP@5": run["metrics"]["AP@5"]["mean"] >= 0.55}
    for query, labels in (
        ("label=MAI", ["main"]),
        ("tag=prod&tag=nightly", ["main"]),
        ("tag=prod&tag=pr", []),
        ("status=failed", []),
        ("offset=1", ["main"]),
        ("limit=1", ["PR #1"]),
    ):
        assert [run["label"] for run in ask(f"{url}/runs?{query}")[1]["runs"]] == labels, query


def test_a_run_comes_whole(url: str) -> None:
    """Manifest and pages of results are the records of the folder; pages join to all of them."""
    run_id = ids(url)[0]
    manifest = Manifest.parse(ask(f"{url}/runs/{run_id}")[1])
    assert manifest.label == "PR #1"
    got = []
    while len(got) < 38:
        page = ask(f"{url}/runs/{run_id}/results?offset={len(got)}&limit=15")[1]
        assert page["total"] == 38
        got += page["results"]
    assert [result["position"] for result in got] == list(range(38))


@pytest.mark.parametrize("filter", ["", "ap<0.5", "tag:easy", "disagree", "invoices", "-invoices ap>=0.5"])
def test_rows_page_by_page_are_the_rows_at_once(url: str, filter: str) -> None:
    """Paging through a filtered and sorted list gives each row once, in the order of the whole."""
    base = f"{url}/runs/{ids(url)[0]}/rows?" + urlencode({"filter": filter, "sort": "score"})
    whole = ask(f"{base}&limit=1000")[1]
    parts = [row for at in range(0, 50, 7) for row in ask(f"{base}&limit=7&offset={at}")[1]["rows"]]
    assert [row["id"] for row in parts] == [row["id"] for row in whole["rows"]]
    assert whole["total"] == len(parts)
    if parts:
        target = parts[len(parts) // 2]["id"]
        result = ask(f"{base}&locate={quote(target)}")[1]
        assert result["at"] == len(parts) // 2


def test_a_trace_comes_with_prompt_and_reply(url: str) -> None:
    """A trace's page shows what the judge was asked and what it said, from the cache."""
    trace = ask(f"{url}/runs/{ids(url)[0]}/trace?trace_id=docs-002")[1]
    call = trace["trace"]["chunks"][0]["calls"][0]
    assert json.loads(call["reply"])["reason"] == trace["trace"]["chunks"][0]["reason"]
    assert trace["systems"][call["prompt"][0][1]]


def test_compare_tells_changes_page_by_page(url: str) -> None:
    """The comparison's counts are those of the list of changed traces, which can be narrowed by id."""
    b, a = ids(url)
    result = ask(f"{url}/compare?baseline={a}&candidate={b}")[1]
    listed = ask(f"{url}/compare/changed?baseline={a}&candidate={b}&limit=100")[1]
    assert listed["total"] == sum(n for name, n in result["changes"].items() if name != "same") > 5
    first = listed["rows"][3]["id"]
    assert ask(f"{url}/compare/changed?baseline={a}&candidate={b}&trace_id={first}")[1]["total"] == 1
    assert result["metrics"][0]["n"] == 38


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("runs/00000000-0000-0000-0000-000000000000", 404),
        ("runs/..%2f..%2fetc", 404),
        ("runs/not-a-uuid", 422),
        ("runs?limit=0", 422),
        ("runs?offset=-1", 422),
        ("nothing", 404),
    ],
)
def test_what_is_not_there_is_a_clear_4xx(url: str, path: str, status: int) -> None:
    """An unknown id, a path in place of an id, a bad number: an error in JSON, never a 5xx."""
    code, result, _ = ask(f"{url}/{path}")
    assert code == status
    assert result["error"]["message"]


@pytest.mark.parametrize(("method", "names"), [("GET", "its whole id or by label:NAME"), ("DELETE", "its whole id")])
def test_what_names_no_run_gets_one_sentence(url: str, method: str, names: str) -> None:
    """A name that is neither an id nor a label is answered in plain words, without those of the validator."""
    code, result, _ = ask(f"{url}/runs/nope", method=method)
    assert code == 422
    assert result["error"]["message"] == f"a run is named here by {names}"


@pytest.mark.slow
def test_no_path_of_a_request_leaves_the_folder(tmp_path: Path) -> None:
    """A link to a run elsewhere is not listed, read or deleted; static files are a closed list."""
    elsewhere = judge(rows()[:1], tmp_path / "elsewhere").folder
    assert elsewhere is not None
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(elsewhere)
    run_id = EvalRun.load(elsewhere).id
    with serving(ServerSettings(root)) as url:
        assert ask(f"{url}/api/v1/runs")[1]["total"] == 0
        assert ask(f"{url}/api/v1/runs/{run_id}")[0] == 404
        assert ask(f"{url}/api/v1/runs/{run_id}", method="DELETE")[0] == 404
        for name in ("..%2f..%2freport.py", "../report.py", "%2e%2e/report.py", "report.py"):
            assert ask(f"{url}/static/{name}")[0] == 404
    assert (elsewhere / "manifest.json").exists()


def test_a_run_without_results_and_an_empty_folder_have_pages(tmp_path: Path) -> None:
    """A run that nobody has begun to judge, and a folder of no runs, are shown, not errors."""
    with serving(ServerSettings(tmp_path)) as url:
        assert ask(f"{url}/api/v1/runs")[1]["runs"] == []
        run = judge(rows()[:2], tmp_path)
        assert run.folder is not None
        waiting = run.manifest.under_way("submitted").replace(aggregates={}, finished=None)
        (run.folder / "manifest.json").write_bytes(waiting.model_dump_json(indent=2).encode())
        (run.folder / "results.jsonl").unlink()
        base = f"{url}/api/v1/runs/{run.id}"
        page = ask(f"{base}/page")
        assert page[0] == 200
        assert [metric["mean"] for metric in page[1]["metrics"]] == [None, None, None]
        assert ask(f"{base}/rows?filter=x")[1]["total"] == 0
        assert ask(f"{base}/results")[1]["total"] == 0
        assert ask(f"{url}/api/v1/compare?baseline={run.id}&candidate={run.id}")[1]["metrics"] == []


def test_a_damaged_run_is_told_and_the_others_are_served(tmp_path: Path) -> None:
    """A run whose files were damaged answers with a 4xx that says so; the list goes on without the worst."""
    good, bad, worst = (judge(rows()[i : i + 1], tmp_path) for i in range(3))
    assert bad.folder is not None
    assert worst.folder is not None
    (bad.folder / "results.jsonl").write_text('{"position": 0, "what": 1}\n')
    (worst.folder / "manifest.json").write_text("{")
    with serving(ServerSettings(tmp_path)) as url:
        listed = ask(f"{url}/api/v1/runs")[1]
        assert {run["id"] for run in listed["runs"]} == {good.id, bad.id}
        (unreadable,) = listed["unreadable"]
        assert unreadable["folder"] == worst.folder.name
        assert unreadable["error"].startswith(f"{worst.folder.name}/manifest.json: not a run's manifest")
        code, result, _ = ask(f"{url}/api/v1/runs/{bad.id}/page")
        assert code == 409
        assert "damaged" in result["error"]["message"]
        assert str(tmp_path) not in result["error"]["message"]
        assert ask(f"{url}/api/v1/runs/{worst.id}")[0] == 404
        assert ask(f"{url}/api/v1/runs/{good.id}/page")[0] == 200


def test_serve_takes_limits_as_a_gate_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--fail-under` says which runs are shown as failing; the configuration sets the sizes that a request may have."""
    from judge_eval.cli.serve import serve

    seen: list[ServerSettings] = []
    monkeypatch.setattr("judge_eval.server.process.serve", lambda settings, judge, ready: seen.append(settings))
    app = typer.Typer()
    app.command()(serve)
    flags = ["--out", str(tmp_path), "--fail-under", "AP@5=0.8", "--fail-under", "Conflict@5=0.1"]
    done = CliRunner().invoke(app, flags, env={"JUDGE_EVAL_MAX_BODY": "2"})
    assert done.exit_code == 0, done.output
    assert [settings.thresholds for settings in seen] == [{"AP@5": 0.8, "Conflict@5": 0.1}]
    assert seen[0].limits.body == 2 * 2**20
