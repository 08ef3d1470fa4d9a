from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.errors import ConfigError, DataError, FatalCallError, UnknownNameError
from judge_eval.eval_run import EvalRun
from judge_eval.export import langfuse, langsmith
from judge_eval.export.formats import write_as
from judge_eval.export.push import push_scores
from judge_eval.export.scores import Service
from judge_eval.runs.folder.describing import judged_by
from tests.support.application import CliRunner, app
from tests.support.command import Shell
from tests.support.score_services import HEXES, Langfuse, LangSmith, ScoreService, traced_run

SERVICES = {"langfuse": (Langfuse, langfuse.SERVICE), "langsmith": (LangSmith, langsmith.SERVICE)}


@pytest.fixture(params=SERVICES)
def taken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ScoreService, Service]]:
    """A server, and what is registered for it."""
    kind, service = SERVICES[request.param]
    with kind() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server, service


def test_scores_reach_their_traces(taken: tuple[ScoreService, Service], tmp_path: Path) -> None:
    """Each score is at its trace, once, however often it is sent; what is noted as sent is not sent again."""
    server, service = taken
    run = traced_run(tmp_path)
    first = push_scores(run, service)
    assert (first.sent, first.before, first.refused) == (16, 0, [])
    kept, asked = dict(server.kept), len(server.requests)
    assert len(kept) == 16
    again = push_scores(EvalRun.load(str(run.folder)), service)
    assert (again.sent, again.before, len(server.requests)) == (0, 16, asked)
    assert again.note is not None
    again.note.unlink()
    name = "langfuse" if isinstance(server, Langfuse) else "langsmith"
    assert run.push_scores(name).sent == 16
    assert server.kept == kept


def test_exports_are_judged_and_scored_where_they_came_from() -> None:
    """From the services' own exports to their scores: each names the retrieval that was judged."""
    formats = Path(__file__).parents[2] / "fixtures" / "formats"
    with Evaluator("fake/overlap", prompt="relevance/binary", metrics=["RR"], cache=False) as evaluator:
        seen = evaluator.evaluate(formats / "langfuse_observations.jsonl")
        traced = evaluator.evaluate(formats / "langsmith_traces.jsonl")
        spans = evaluator.evaluate(formats / "openinference.jsonl")
    assert [(score["traceId"], score["observationId"]) for score in langfuse.SERVICE.scores(seen)] == [
        ("74321e3f4456fc76cf57c78ec475e7fe", "484e9f8b19f4de72"),
        ("63aa0eb1944c949aadbe6a0d06361397", "3bd2719e9e4ebc29"),
    ]
    runs = [json.loads(line) for line in (formats / "langsmith_traces.jsonl").read_text().splitlines()]
    assert [(each["run_id"], each["trace_id"]) for each in langsmith.SERVICE.scores(traced)] == [
        (run["child_runs"][0]["id"], run["id"]) for run in runs
    ]
    ids = [(score["traceId"], score["observationId"]) for score in langfuse.SERVICE.scores(spans)]
    assert [(len(trace), len(span)) for trace, span in ids] == [(32, 16)] * 2  # OpenTelemetry's, as Langfuse has them


def test_a_langfuse_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A score names trace, observation, environment, metric and value, and says what the judge said of each chunk."""
    with Langfuse() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        run = traced_run(tmp_path, 1)
        push_scores(run, langfuse.SERVICE)
    [score] = [record for record in server.kept.values() if record["name"] == "AP@2"]
    comment = score.pop("comment")
    assert comment.startswith("1. grade 0: ")
    assert "\n2. grade 1: " in comment
    score.pop("id")
    assert score == {
        "traceId": f"{HEXES[:-4]}0000",
        "observationId": "0" * 16,
        "environment": "production",
        "name": "AP@2",
        "value": 0.5,
        "dataType": "NUMERIC",
        "metadata": {"run_id": run.id, "run": "main", "judge": judged_by(run.manifest)},
        "timestamp": run.created.isoformat().replace("+00:00", "Z"),
    }


def test_what_has_no_value_is_left_out(tmp_path: Path) -> None:
    """A score that failed verdicts leave open is not sent, nor its bounds; a trace without ids is left out."""
    run = traced_run(tmp_path, 4, failed=(1, 2))
    assert all(result.bounds for result in run.results if result.trace_id in ("q1", "q2"))
    scores = langsmith.SERVICE.scores(run)
    records = list(scores)
    assert len(records) == 4
    assert {record["run_id"][-1] for record in records} == {"0", "3"}
    assert scores.left_out() == [
        "2 scores of AP@2 left out: failed verdicts leave it open",
        "2 scores of RR@2 left out: failed verdicts leave it open",
    ]
    half = run.replace(results=[run.results[0], *traced_run(tmp_path, 2, run_id="r1").results])  # no UUID
    assert langsmith.SERVICE.scores(half).left_out() == ["2 traces left out: no `run_id` of LangSmith in the metadata"]
    first, *others = run.results
    unanswerable = first.replace(trace=first.trace.replace(answerable=False), scores=dict.fromkeys(first.scores))
    lines = langsmith.SERVICE.scores(run.replace(results=[unanswerable, *others])).left_out()
    assert lines[2:] == ["1 trace left out: nothing answers the question"]
    bare = half.replace(results=half.results[1:])
    assert langsmith.SERVICE.scores(bare).left_out() == []
    with pytest.raises(UnknownNameError, match="no service 'langfuze'; did you mean 'langfuse'"):
        bare.push_scores("langfuze")
    with pytest.raises(DataError, match="no trace of this run names one of LangSmith"):
        list(langsmith.SERVICE.scores(bare))
    write_as(run, tmp_path / "scores.json", "langsmith")
    assert json.loads((tmp_path / "scores.json").read_text()) == records


def test_a_server_that_takes_no_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older Langfuse, which takes a score a request, gets them so; the list is tried once a push."""
    with Langfuse(lists=False) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        assert push_scores(traced_run(tmp_path), langfuse.SERVICE).sent == 16
    assert Counter(type(content).__name__ for content in server.requests) == {"list": 1, "dict": 16}
    assert len(server.kept) == 16


def test_one_refused_score_costs_no_other(taken: tuple[ScoreService, Service], tmp_path: Path) -> None:
    """What a service refuses is reported in its words and sent again by the next push; the others are there."""
    server, service = taken
    server.refuses = lambda record: "archived" if "0003" in json.dumps(record) else None
    run = traced_run(tmp_path)
    pushed = push_scores(run, service)
    assert pushed.sent == 14
    assert len(pushed.refused) == 2
    assert "archived" in pushed.refused[0]
    server.refuses = lambda _: None
    assert push_scores(run, service).sent == 2
    assert len(server.kept) == 16


def test_a_refusal_in_a_list_keeps_the_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the scores of the list in which one was refused are sent one by one."""
    with Langfuse() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        server.refuses = lambda record: "archived" if record["traceId"].endswith("0003") else None
        pushed = push_scores(traced_run(tmp_path), replace(langfuse.SERVICE, at_once=4))
    assert (pushed.sent, len(pushed.refused)) == (14, 2)
    assert Counter(type(content).__name__ for content in server.requests) == {"list": 4, "dict": 4}


def test_a_page_of_another_server_takes_nothing(taken: tuple[ScoreService, Service], tmp_path: Path) -> None:
    """HTTP 200 with anything but a JSON object is not noted as sent; the message names the variable to check."""
    server, service = taken
    server.script = [(200, {}, "<html>Sign in</html>")] * 20
    with pytest.raises(FatalCallError, match=f"Sign in.*check {service.base_urls[0]}"):
        push_scores(traced_run(tmp_path, 40), service)


def test_a_conflict_is_a_score_that_is_there(taken: tuple[ScoreService, Service], tmp_path: Path) -> None:
    """A service that keeps the first of an id, and says so, has the score."""
    server, service = taken
    server.script = [(409, {}, {"message": "exists"})] * 16
    assert push_scores(traced_run(tmp_path), service).sent == 16


@pytest.mark.slow
def test_a_limit_without_a_wait_ends(taken: tuple[ScoreService, Service], tmp_path: Path) -> None:
    """`Retry-After: 0` for ever does not make a loop that never waits."""
    server, service = taken
    server.script = [(429, {"retry-after": "0"}, {"message": "slow down"})] * 2
    begun = time.monotonic()
    assert push_scores(traced_run(tmp_path, 1), service).sent == 2
    assert time.monotonic() - begun > 0.001


def test_a_service_that_refuses_all_is_not_asked_for_each(taken: tuple[ScoreService, Service], tmp_path: Path) -> None:
    """Refusals from the start end the push."""
    server, service = taken
    server.refuses = lambda _: "project archived"
    with pytest.raises(FatalCallError, match=r"takes no score: HTTP 400 .*project archived"):
        push_scores(traced_run(tmp_path, 40), service)
    assert len(server.requests) < 12


@pytest.mark.slow
def test_retry_after_is_obeyed(taken: tuple[ScoreService, Service], tmp_path: Path) -> None:
    """After a 429 nothing is asked before the time that the service named."""
    server, service = taken
    times: list[float] = []
    server.hook = lambda: times.append(time.monotonic())
    server.script = [(429, {"retry-after": "1"}, {"message": "slow down"})]
    assert push_scores(traced_run(tmp_path), service).sent == 16
    limited = times[0]
    early = [moment for moment in times[1:] if limited + 0.2 < moment < limited + 0.95]
    assert not early
    assert times[-1] >= limited + 0.95
    server.script = [(503, {}, {"message": "starting"}), (500, {}, {})]
    assert push_scores(traced_run(tmp_path), service).sent == 16


def test_a_wait_that_is_too_long_ends_the_push(taken: tuple[ScoreService, Service], tmp_path: Path) -> None:
    """A service that asks for an hour is not waited for."""
    server, service = taken
    server.script = [(429, {"retry-after": "3600"}, {"message": "quota"})] * 8
    with pytest.raises(FatalCallError, match=r"quota \(1 attempt; a wait of 3600 s was asked for\)"):
        push_scores(traced_run(tmp_path, 1), service)


def test_a_wrong_key_ends_the_push(
    taken: tuple[ScoreService, Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is refused is named by its variable and never shown; a missing one is asked for."""
    server, service = taken
    monkeypatch.setenv(service.keys[-1], "wrong-key-123456789")
    with pytest.raises(FatalCallError) as caught:
        push_scores(traced_run(tmp_path), service)
    assert service.keys[-1] in str(caught.value)
    assert "wrong-key" not in str(caught.value)
    assert server.kept == {}
    monkeypatch.delenv(service.keys[-1])
    monkeypatch.setenv(service.base_urls[0], "https://traces.example.com")
    with pytest.raises(ConfigError, match=f"set the environment variable {service.keys[-1]}"):
        push_scores(traced_run(tmp_path), service)


def test_a_redirect_gets_no_key(taken: tuple[ScoreService, Service], tmp_path: Path) -> None:
    """A redirect to another host is not followed, and no key goes there."""
    server, service = taken
    with type(server)() as other:
        server.script = [(307, {"location": f"{other.url}{other.path}"}, {})] * 4
        with pytest.raises(FatalCallError, match="redirects are not followed"):
            push_scores(traced_run(tmp_path), service)
    assert other.keys == []


def test_a_key_goes_to_its_own_service_alone(
    taken: tuple[ScoreService, Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and names of OpenAI's accounts are not sent along."""
    server, service = taken
    seen: list[dict[str, str]] = []
    answer = server.answer
    monkeypatch.setattr(
        server, "answer", lambda path, headers, body: [seen.append(headers), answer(path, headers, body)][1]
    )
    for variable in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(variable, f"{variable}-value-123")
    push_scores(traced_run(tmp_path), service)
    assert "-value-123" not in json.dumps(seen)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICES)
def test_a_killed_push_goes_on(name: str, tmp_path: Path) -> None:
    """Killed in the middle, the same command sends the rest; every score is there, with its own id."""
    kind, _ = SERVICES[name]
    run = traced_run(tmp_path, 300 if name == "langfuse" else 75)
    scores = {record["id"] for record in SERVICES[name][1].scores(run)}
    shell = Shell(tmp_path)
    with kind() as server:
        reached: list[int] = []

        def hook() -> None:
            reached.append(os.getpid())
            if len(reached) == (5 if server.lists else 60):
                process.send_signal(signal.SIGKILL)

        server.hook = hook
        process = shell.start("export", "latest", "-f", name, "--push", **server.environment)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        server.hook = lambda: None
        done = shell("export", "latest", "-f", name, "--push", **server.environment)
        assert done.code == 0, done.err
        assert set(server.kept) == scores
        assert "sent before" in done.err
        sent = int(done.out.split()[1])
        assert 0 < sent < len(scores)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICES)
def test_a_push_over_a_bad_line(name: str, tmp_path: Path) -> None:
    """Cut before and within replies, and slowed down, it sends all, each score under its own id alone."""
    kind, service = SERVICES[name]
    run = traced_run(tmp_path, 150)
    shell = Shell(tmp_path)
    with kind() as server:
        server.cuts = [0, 20, 45]
        limits = iter([(429, {"retry-after": "2"}, {"message": "slow down"})])

        def hook() -> None:
            if not server.cuts:
                server.script += islice(limits, 1)

        server.hook = hook
        begun = time.monotonic()
        done = shell("export", "latest", "-f", name, "--push", **server.environment)
        assert done.code == 0, done.err
        assert time.monotonic() - begun > 2
        assert done.out == f"main: 300 scores sent to {service.name} at {server.url}\n"
        assert set(server.kept) == {record["id"] for record in service.scores(run)}
        before = len(server.requests)
        wrong = shell(
            "export", "latest", "-f", name, "--push", **server.environment | {service.keys[-1]: "wrong-key-123456789"}
        )
        assert (wrong.code, wrong.out) == (2, "")
        assert service.keys[-1] in wrong.err
        assert "wrong-key" not in wrong.err
        assert len(server.requests) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("mode", ["pointwise", "claims"])
def test_turns_claims_and_questions_without_an_answer_are_sent(name: str, mode: str, tmp_path: Path) -> None:
    """Scores of conversations and claims go to their traces; an unanswerable question has none, and that is said."""
    ids = traced_run(tmp_path / "ids", 3).results
    rows = [
        {"query": "When?", "reference": "At nine.", "history": [{"role": "user", "content": "Do you open?"}]},
        {"query": "Where?", "reference": "Behind the house."},
        {"query": "Who owns you?", "answerable": False},
    ]
    with (tmp_path / "data.jsonl").open("w", encoding="utf-8") as file:
        for row, result in zip(rows, ids, strict=True):
            chunks = ["We open at nine.", "Park behind the house."]
            file.write(json.dumps({**row, "chunks": chunks, "metadata": dict(result.trace.metadata)}) + "\n")
    shell = Shell(tmp_path)
    metrics = "AP@2,ClaimRecall@2" if mode == "claims" else "AP@2,RR@2"
    judged = shell(
        "run", "data.jsonl", "--model", "fake/overlap", "--mode", mode, "--metrics", metrics, "--out", "runs"
    )
    assert judged.code == 0, judged.err
    with SERVICES[name][0]() as server:
        done = shell("export", "latest", "-f", name, "--push", **server.environment)
    assert done.code == 0, done.err
    traces = {record.get("run_id") or record["traceId"] for record in server.kept.values()}
    assert (len(server.kept), len(traces)) == (4, 2)
    assert all("grade 1: " in record["comment"] for record in server.kept.values())
    assert done.err == "1 trace left out: nothing answers the question\n"


def test_the_command_says_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages and exit codes: what was sent and left out, 3 if some were refused, 2 if nothing can be sent."""
    traced_run(tmp_path, 3, failed=(1,))
    monkeypatch.chdir(tmp_path)
    for variable in langsmith.SERVICE.keys:
        monkeypatch.delenv(variable, raising=False)

    def export(*flags: str, **environment: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, ["export", "latest", *flags], env=environment)
        return done.exit_code, done.stdout, done.stderr

    with Langfuse() as server:
        server.refuses = lambda record: "gone" if record["traceId"].endswith("2") else None
        code, out, err = export("-f", "langfuse", "--push", "-o", "scores.json", **server.environment)
        assert code == 3
        assert out == f"main as langfuse in scores.json\nmain: 2 scores sent to Langfuse at {server.url}\n"
        assert "1 score of AP@2 left out: failed verdicts leave it open" in err
        assert "2 scores refused; the same command sends them again" in err
        code, out, err = export("-f", "langfuse", "--push", **server.environment | {"LANGFUSE_SECRET_KEY": "nope-1234"})
        assert (code, out) == (2, "")
        assert "check LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY" in err
    for flags, message in {
        ("-f", "phoenix", "--push"): "--push needs --format langfuse or langsmith",
        ("-f", "langsmith"): "no output file is named; add --output FILE, or --push",
        ("-f", "mlflow", "--push"): "export to MLflow always sends; leave out --push",
        ("-f", "langsmith", "--push"): "no key: set the environment variable LANGSMITH_API_KEY",
    }.items():
        code, out, err = export(*flags)
        assert (code, out) == (2, "")
        assert message in err
