from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval.runs.folder.run import Run
from judge_eval.server import routes as judge_routes
from judge_eval.server.models import HostedSubmission, RunAnswer
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import ServerLimits, ServerSettings
from tests.support.pizza import CONTEXT, REFUSED, SCORE, VERDICTS, body, pizza_judge
from tests.support.serving import FIXTURES, ask, judge, rows, serving


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Serve a folder with a judge."""
    limits = ServerLimits(traces=50, chunks=5)
    with serving(ServerSettings(tmp_path, limits=limits), pizza_judge()) as address:
        yield f"{address}/api/v1"


def submit(url: str, given: Any, wait: float = 20) -> tuple[int, Any]:
    """Post a body and wait for the run's end."""
    return ask(f"{url}/runs?wait={wait}", method="POST", body=given)[:2]


def test_a_hosted_evaluators_body_is_judged_and_answered(url: str, tmp_path: Path) -> None:
    """The body is taken as it is; uuid, score and booleans stand beside our own fields."""
    code, outcome = submit(url, body())
    assert code == 202
    assert outcome["uuid"] == outcome["id"] == str(uuid.UUID(outcome["id"]))
    assert (outcome["score"], outcome["verdicts"]) == (SCORE, VERDICTS)
    assert (outcome["label"], outcome["tags"], outcome["status"]) == ("PR #111", ["GPT-4", "Pizza-DB:v2"], "done")
    assert outcome["metrics"]["AP@5"]["mean"] == SCORE
    (folder,) = (path.parent for path in tmp_path.glob("*/manifest.json"))
    (result,) = Run.at(folder).results
    assert [(chunk.text, chunk.score) for chunk in result.trace.chunks] == list(CONTEXT)


def test_the_body_that_the_real_client_wrote_is_taken(url: str) -> None:
    """What the hosted evaluator's own client sends, kept as a fixture, is judged trace by trace."""
    given = json.loads((FIXTURES / "formats" / "lynxius.json").read_text(encoding="utf-8"))
    HostedSubmission.parse(given)
    code, result = submit(url, given)
    assert code == 202
    assert result["traces"] == len(given["data"])
    assert len(result["verdicts"]) == sum(len(item["contexts"]) for item in given["data"])


def test_our_own_body_is_answered_with_the_same_fields(url: str) -> None:
    """Both bodies get one answer: what differs is how the chunks are spelled."""
    hosted = body()["data"][0]  # type: ignore[index]
    chunks = [{"text": each["document"], "score": each["relevance"]} for each in hosted["contexts"]]
    trace = {"query": hosted["query"], "reference": hosted["reference"], "chunks": chunks}
    _, ours = submit(url, {"traces": [trace], "label": "PR #111"})
    _, theirs = submit(url, body())
    assert (ours["score"], ours["verdicts"]) == (theirs["score"], theirs["verdicts"]) == (SCORE, VERDICTS)
    assert ours["dataset_digest"] == theirs["dataset_digest"]


def test_without_waiting_the_answer_comes_later(url: str) -> None:
    """A run that has not ended has neither score nor verdicts; asked again it has both."""
    _, result = submit(url, body(), wait=0)
    assert result["uuid"]
    if result["status"] == "submitted":
        assert result["score"] is result["verdicts"] is None
    later = RunAnswer.parse(ask(f"{url}/runs/{result['uuid']}/answer?wait=20")[1])
    assert (later.score, later.verdicts) == (SCORE, tuple(VERDICTS))


def test_a_failed_verdict_is_null_and_never_false(url: str) -> None:
    """A chunk that was declined has null in its place, and a trace without a value no score."""
    _, result = submit(url, body(contexts=(*CONTEXT[:2], (f"The dough {REFUSED}.", 0.5))))
    assert result["verdicts"] == [False, True, None]
    assert result["score"] is None
    assert (result["status"], result["failed"]) == ("incomplete", 1)


def test_a_baseline_is_named_by_its_label(url: str) -> None:
    """The newest run of the label is the baseline; a label that no run has is refused before judging."""
    _, first = submit(url, body())
    _, result = submit(url, {**body(), "label": "PR #112", "baseline_eval_run_label": "PR #111"})
    assert result["baseline"] == first["uuid"]
    code, refused = submit(url, {**body(), "baseline_eval_run_label": "PR #1"})
    assert code == 422
    assert refused["error"]["message"] == "baseline_eval_run_label: no run is labelled 'PR #1'"
    assert ask(f"{url}/runs")[1]["total"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": []}, "data: "),
        ({"data": [{"query": "q?", "reference": "r", "context": []}]}, "data[0].contexts: this field is required"),
        ({"data": [{"query": "q?", "contexts": []}]}, "data[0].reference: "),
        ({"data": [{"query": " ", "reference": "r", "contexts": []}]}, "data[0]: the query is empty"),
        ({"data": [{"query": "q?", "reference": "r", "contexts": [{"relevance": 1}]}]}, "data[0].contexts[0]"),
        (
            {"data": [{"query": "q?", "reference": "r", "contexts": [{"document": "d"}] * 6}]},
            "data[0].contexts: 6 chunks",
        ),
        ({"data": body()["data"] * 51}, "data: more than 50"),  # type: ignore[operator]
        ({"data": "many"}, "data: must be a list"),
        ({"traces": []}, "traces: unknown field"),
        ({"name": "mine"}, "name: unknown field"),
        ({"label": "x" * 501}, "label: "),
    ],
)
def test_what_is_wrong_with_the_body_is_named(url: str, change: dict[str, Any], message: str) -> None:
    """Each fault is a 4xx that names the place, and nothing is kept."""
    code, result = submit(url, {**body(), **change})
    assert code in (413, 422)
    assert message in result["error"]["message"]
    assert ask(f"{url}/runs")[1]["total"] == 0


def test_any_ended_run_has_an_answer(tmp_path: Path) -> None:
    """A run judged elsewhere by other metrics is answered by its verdicts; one that is not there is a 404."""
    run = judge(rows()[:3], tmp_path, label="main")
    expected = [o.relevant for result in run.results for o in result.outcomes if o.kind == "verdict"]
    with serving(ServerSettings(tmp_path, limits=ServerLimits(traces=3))) as url:
        code, outcome, _ = ask(f"{url}/api/v1/runs/{run.id}/answer")
        assert (code, outcome["verdicts"]) == (200, expected)
        assert 0 < outcome["score"] <= 1
        assert ask(f"{url}/api/v1/runs/{uuid.uuid4()}/answer")[0] == 404
    with serving(ServerSettings(tmp_path, limits=ServerLimits(traces=2))) as url:
        code, outcome, _ = ask(f"{url}/api/v1/runs/{run.id}/answer")
        assert (code, "read its results in pages" in outcome["error"]["message"]) == (409, True)


def test_too_many_that_wait_are_answered_at_once(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where enough requests wait, further ones do not: their answer is the run as it stands."""
    monkeypatch.setattr(judge_routes, "WAITING", 0)
    monkeypatch.setattr(judge_routes, "LOOK", 3600.0)
    _, result = submit(url, body(), wait=30)
    assert result["status"] in ("submitted", "running", "done")


def test_the_client_reads_the_answer(url: str) -> None:
    """`Client.evaluate` returns the uuid at once, as before."""
    client = Client(url.removesuffix("/api/v1"))
    client.add_trace("q?", ["San Marzano"], reference="r")
    run = client.get_eval_run(client.evaluate(label="x").uuid)
    assert run["AP@5"] == 1.0
