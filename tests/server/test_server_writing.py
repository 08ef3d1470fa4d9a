"""What a client changes on a server: labels, submissions, uploads, deletions, within limits."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend
from judge_eval.errors import DataError, JudgeEvalError, RunError
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import ServerLimits, ServerSettings
from tests.support.application import CliRunner, app
from tests.support.serving import ask, judge, rows, serving

# Two servers made at once in threads of one process: a warning that FastAPI silences while it builds its
# routes can slip through, since `warnings.catch_warnings` is not made for threads.
pytestmark = pytest.mark.filterwarnings("ignore:The .* attribute with value .* was provided:UserWarning")


def test_deleting_removes_the_folder(tmp_path: Path) -> None:
    """A deleted run is gone from the list and the disk; a second delete finds nothing."""
    run = judge(rows()[:1], tmp_path)
    with serving(ServerSettings(tmp_path)) as url:
        assert ask(f"{url}/api/v1/runs/{run.id}", method="DELETE")[0] == 204
        assert ask(f"{url}/api/v1/runs/{run.id}", method="DELETE")[0] == 404
    assert not list(tmp_path.iterdir())


def test_a_run_being_judged_cannot_be_deleted(tmp_path: Path) -> None:
    """While a process writes a run, deleting it is refused with 409."""
    import fcntl

    run = judge(rows()[:1], tmp_path)
    assert run.folder is not None
    with (run.folder / ".lock").open("wb") as lock, serving(ServerSettings(tmp_path)) as url:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert ask(f"{url}/api/v1/runs/{run.id}", method="DELETE")[0] == 409
    assert run.folder.is_dir()


@pytest.mark.slow
def test_labels_given_on_the_pages_correct_the_means(tmp_path: Path) -> None:
    """`correct` takes labels that came through the server as it takes the same ones from a file."""
    data = rows()
    bare = [{**row, "chunks": [{**c, "label": None} for c in row["chunks"]]} for row in data]
    run = judge(bare, tmp_path)
    given = [(row["id"], c["id"], c["label"]) for row in data[::2] for c in row["chunks"]]
    with serving(ServerSettings(tmp_path)) as url:
        for trace_id, chunk_id, label in given:
            body = {"trace_id": trace_id, "chunk_id": chunk_id, "label": label}
            assert ask(f"{url}/api/v1/runs/{run.id}/labels", method="POST", body=body)[0] == 201
    file = tmp_path / "labels.jsonl"
    names = ("trace_id", "chunk_id", "label")
    file.write_text("".join(json.dumps(dict(zip(names, item, strict=True))) + "\n" for item in given))
    command = ["correct", run.id[:8], "--out", str(tmp_path), "--json"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    filed = CliRunner().invoke(app, [*command, "--labels", str(file)])
    assert filed.exit_code == 0, filed.output
    assert document["means"] == json.loads(filed.stdout)["means"]
    whole = [row for row in data[::2] if row["chunks"]]  # where nothing was retrieved nothing is labelled
    assert len(whole) > 2
    assert {mean["n_labelled"] for mean in document["means"].values()} == {len(whole)}


def test_labels_feed_the_figures_and_blind_hides_verdicts(tmp_path: Path) -> None:
    """A blind trace hides what the judge said until the label is there; then agreement counts it."""
    bare = [{**row, "chunks": [{**c, "label": None} for c in row["chunks"]]} for row in rows()[:3]]
    run = judge(bare, tmp_path)
    with serving(ServerSettings(tmp_path)) as url:
        base = f"{url}/api/v1/runs/{run.id}"
        assert ask(f"{base}/page")[1]["agreement"] is None
        trace_id = run.results[0].trace_id
        blind = f"{base}/trace?" + urlencode({"trace_id": trace_id, "blind": "true"})
        cards = ask(blind)[1]["trace"]["chunks"]
        assert all(card["hidden"] and "grade" not in card and "reason" not in card for card in cards)
        shown = ask(f"{base}/rows?blind=true&limit=1")[1]["rows"][0]
        assert set(shown["strip"]) == {"?"}
        body = {"trace_id": trace_id, "chunk_id": cards[0]["id"], "label": 1, "blind": True}
        assert ask(f"{base}/labels", method="POST", body=body)[0] == 201
        cards = ask(blind)[1]["trace"]["chunks"]
        assert "grade" in cards[0]
        assert cards[1]["hidden"]
        assert ask(f"{base}/page")[1]["agreement"]["pairs"] == 1
        shown = {chunk["id"]: chunk["label"] for chunk in ask(f"{base}/results")[1]["results"][0]["trace"]["chunks"]}
        assert shown[cards[0]["id"]] == 1
        for wrong, code in (({"label": 5}, 422), ({"chunk_id": "none"}, 404), ({"trace_id": "none"}, 404)):
            assert ask(f"{base}/labels", method="POST", body={**body, **wrong})[0] == code


def test_submitting_with_the_client(tmp_path: Path) -> None:
    """A client finds label, href, tags, baseline and uuid; the run comes home with its verdicts."""
    with serving(ServerSettings(tmp_path), Evaluator("fake/overlap", cache=False)) as url:
        client = Client(url)
        client.add_trace("What is a tomato?", ["A tomato is a fruit.", "Cars."], reference="A tomato is a fruit.")
        baseline = str(uuid.uuid4())
        result = client.evaluate(label="mine", href="https://x.example/1", tags=["a", "b"], baseline=baseline)
        assert (result.label, result.href, result.tags, result.baseline) == (
            "mine",
            "https://x.example/1",
            ("a", "b"),
            baseline,
        )
        assert result.status == "submitted"
        run = client.get_eval_run(result.uuid)
        assert run.status == "done"
        assert [o.relevant for o in run.results[0].outcomes] == [True, False]
        assert run["AP@5"] == 1.0
        assert [r.uuid for r in client.list_runs(tags=["a"])] == [result.uuid]
        client.add_trace("No reference", ["x"])
        with pytest.raises(DataError, match="reference"):
            client.evaluate()
        with pytest.raises(RunError, match="no run"):
            client.get_eval_run(str(uuid.uuid4()))
    with pytest.raises(RunError, match="cannot be reached"):
        client.list_runs()


@pytest.mark.slow
def test_a_submission_cannot_choose_its_judge(tmp_path: Path) -> None:
    """Model, address, prompt and paths are the server's; a submission that names one is refused."""
    body = {"traces": [{"query": "a", "reference": "b", "chunks": ["c"]}]}
    with serving(ServerSettings(tmp_path), Evaluator("fake/overlap", cache=False)) as url:
        for field in ("model", "base_url", "prompt", "cache", "out", "options"):
            assert ask(f"{url}/api/v1/runs", method="POST", body={**body, field: "x"})[0] == 422
    with serving(ServerSettings(tmp_path)) as url:
        code, result, _ = ask(f"{url}/api/v1/runs", method="POST", body=body)
        assert code == 409
        assert "without a model" in result["error"]["message"]


def test_limits_are_clear_4xx(tmp_path: Path) -> None:
    """Too many traces, chunks, bytes or waiting runs are told as such."""
    limits = ServerLimits(body=20_000, traces=2, chunks=3, queued=1)
    evaluator = Evaluator("fake/overlap", cache=False)
    values = {"query": "a", "reference": "b", "chunks": ["c"]}
    with serving(ServerSettings(tmp_path, limits=limits), evaluator) as url:
        post = f"{url}/api/v1/runs"
        many = {"traces": [{**values, "query": str(i)} for i in range(3)]}
        assert ask(post, method="POST", body=many)[0] == 413
        assert ask(post, method="POST", body={"traces": [{**values, "chunks": ["c"] * 4}]})[0] == 413
        code, result, _ = ask(post, method="POST", body={"traces": [{**values, "query": "a" * 30_000}]})
        assert code == 413
        assert "20,000 bytes" in result["error"]["message"]
        assert ask(post, method="POST", raw=b"{not json")[0] == 422
        assert ask(post, method="POST", raw=b"[" * 15_000)[0] in (400, 422)
        assert ask(post, method="POST", raw=b'{"traces": [{"query": "\\ud800", "chunks": []}]}')[0] == 422
        assert ask(post, method="POST", raw=b'{"traces": [{"query": NaN, "chunks": []}]}')[0] == 422
        run = judge(rows()[:1], tmp_path)
        assert run.folder is not None
        held = run.manifest.under_way("submitted").replace(id=str(uuid.uuid4()))
        (run.folder / "manifest.json").write_bytes(held.model_dump_json(indent=2).encode())
        (run.folder / "submission.jsonl").write_text("")
        with (run.folder / ".lock").open("wb") as lock:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
            assert ask(post, method="POST", body={"traces": [values]})[0] == 429


def test_a_client_that_still_sends_is_told_that_its_body_is_too_large(tmp_path: Path) -> None:
    """A chunked body past the limit is refused; its sender reads the answer, not a reset connection."""
    import http.client

    with serving(
        ServerSettings(tmp_path, limits=ServerLimits(body=100_000)), Evaluator("fake/overlap", cache=False)
    ) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)

        def pieces() -> Iterator[bytes]:
            yield b'{"traces": "'
            for _ in range(15):
                yield b"a" * 10_000
                time.sleep(0.01)

        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/v1/runs", pieces(), headers, encode_chunked=True)
        assert connection.getresponse().status == 413
        connection.close()


def test_an_uploaded_run_is_checked_and_scored_again(tmp_path: Path) -> None:
    """Uploaded verdicts are kept, uploaded scores are not believed, and broken runs are refused."""
    run = judge(rows()[:5])
    lying = [r.model_copy(update={"scores": {"AP@5": 0.123, "MRR": 0.1, "NDCG@5": 0.1}}) for r in run.results]
    with serving(ServerSettings(tmp_path)) as url:
        client = Client(url)
        result = client.upload(EvalRun(run.manifest, lying))
        assert result.metrics["AP@5"].mean == run["AP@5"]
        home = client.get_eval_run(run.id)
        assert [r.outcomes for r in home.results] == [r.outcomes for r in run.results]
        with pytest.raises(RunError, match="already"):
            client.upload(run)
        fresh = run.manifest.model_copy(update={"id": str(uuid.uuid4())})
        first = run.results[0]
        for name, manifest, results in (
            ("id", run.manifest.model_copy(update={"id": "../x"}), []),
            ("status", fresh.model_copy(update={"status": "running"}), []),
            ("outcomes", fresh, [first.model_copy(update={"outcomes": first.outcomes[:-1]})]),
            ("twice", fresh, [first, first]),
            ("metric", fresh.model_copy(update={"metrics": ("Nonsense@5",)}), [first]),
        ):
            with pytest.raises(JudgeEvalError) as caught:
                client.upload(EvalRun(manifest, results))
            assert "answered 5" not in str(caught.value), name
        assert len(client.list_runs()) == 1


@pytest.mark.slow
def test_two_servers_on_one_folder(tmp_path: Path) -> None:
    """What one server judges, labels or deletes, the other sees; both at once lose nothing."""
    with (
        serving(ServerSettings(tmp_path), Evaluator("fake/overlap", cache=tmp_path / ".cache")) as first,
        serving(ServerSettings(tmp_path), Evaluator("fake/overlap", cache=tmp_path / ".cache")) as two,
    ):
        done: list[str] = []

        def work(url: str, name: str) -> None:
            client = Client(url)
            for number in range(3):
                client.add_trace("What?", ["This is it."], reference="This is it.", id=f"{name}-{number}")
                done.append(client.get_eval_run(client.evaluate(label=name).uuid).id)

        threads = [threading.Thread(target=work, args=pair) for pair in ((first, "one"), (two, "two"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(set(done)) == 6
        for url in (first, two):
            assert {run.uuid for run in Client(url).list_runs()} == set(done)
        Client(first).label(done[0], Client(two).get_eval_run(done[0]).results[0].trace_id, "c1", 0)
        assert Client(two).get_eval_run(done[0]).results[0].trace.chunks[0].label == 0
        Client(two).delete(done[0])
        assert len(Client(first).list_runs()) == 5


def test_a_submission_that_the_metrics_cannot_be_computed_of_is_refused(tmp_path: Path) -> None:
    """422 names trace and metric, nobody is asked, and no run is made."""
    backend = FakeBackend.table({}, default=1)
    evaluator = Evaluator(backend, metrics=["AP@5", "bpref"], cache=False)
    traces = [{**row, "relevant_total": 3} for row in rows()[:2]]
    with serving(ServerSettings(tmp_path), evaluator) as address:
        status, result, _ = ask(f"{address}/api/v1/runs", method="POST", body={"traces": traces})
        assert (status, backend.calls) == (422, 0)
        assert "bpref" in result["error"]["message"]
        assert ask(f"{address}/api/v1/runs")[1]["total"] == 0
