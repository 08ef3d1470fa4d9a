"""How far a judge agrees with labels and whether it beats a floor, over REST and on the run's page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval import EvalRun
from judge_eval.pages.page import PageSettings, page_named
from judge_eval.server.server_settings import ServerSettings
from judge_eval.study.agree import agree
from judge_eval.trials.floor_judge import floor_of
from judge_eval.views.agreement import agreement_data
from tests.support.command import FIXTURES
from tests.support.desk import Desk
from tests.support.serving import ask, judge, rows, scripted, serving


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A folder with nothing in it."""
    return Desk.at(tmp_path, monkeypatch, capsys)


@pytest.mark.slow
def test_rest_and_reports_say_what_agree_says(desk: Desk) -> None:
    """The record is that of `agree --json`, and the page begins with its sentence: no better than the floor."""
    data = FIXTURES / "docs_qa.jsonl"
    assert desk("run", data, "-m", "fake/biased", "-p", "sensitivity=0.6", "--limit", "20", "--out", "runs").code == 0
    printed = desk("agree", "latest", "--floor", "fake/overlap", "--out", "runs", "--json")
    record = json.loads(printed.out)
    assert record["trust"].startswith("The judge is no better than the floor as far as these labels show: its AUC")
    with serving(ServerSettings(desk.folder / "runs", floor="fake/overlap")) as url:
        (run,) = ask(f"{url}/api/v1/runs")[1]["runs"]
        status, told, _ = ask(f"{url}/api/v1/runs/{run['uuid']}/agreement")
        assert (status, told) == (200, record)
    with serving(ServerSettings(desk.folder / "runs")) as url:
        told = ask(f"{url}/api/v1/runs/{run['uuid']}/agreement")[1]
        assert (told["floor"], "floor" in told["trust"]) == (None, False)
    wrote = desk("report", "latest", "--floor", "fake/overlap", "--out", "runs", "-o", "page.html")
    assert wrote.code == 0, wrote
    run = EvalRun.load(desk.folder / "runs" / next(iter((desk.folder / "runs").glob("2*"))).name)
    page = page_named("run").make([run], PageSettings(floor=floor_of("fake/overlap", run)))
    (kappa,) = (each for each in page.data["agreement"]["figures"] if each["name"] == "kappa")
    interval = record["figures"]["kappa"]["interval"]
    assert (kappa["value"], kappa["interval"]) == (record["figures"]["kappa"]["value"], interval)
    assert page.data["agreement"]["said"] == {name: record[name] for name in ("trust", "evidence", "certainty")}


def test_the_record_keeps_the_floor_s_figures(desk: Desk) -> None:
    """A judge that is better than the floor has a sentence more, under a name of its own."""
    relevant = {chunk["text"] for row in rows() for chunk in row["chunks"] if chunk["label"]}
    scripted(rows(), desk.folder / "runs", lambda text: {"verdict": text in relevant, "evidence": text[:40]})
    record = json.loads(desk("agree", "latest", "--floor", "fake/overlap", "--out", "runs", "--json").out)
    assert "is better than the floor" in record["floor_sentence"]
    assert record["floor"]["model"] == "fake/overlap-1"


@pytest.mark.slow
def test_labels_given_later_count(tmp_path: Path) -> None:
    """A run without labels has no agreement until somebody labels it; then REST and page say the same."""
    run = judge([{**row, "chunks": [{**c, "label": None} for c in row["chunks"]]} for row in rows()[:12]], tmp_path)
    with serving(ServerSettings(tmp_path, floor="fake/overlap")) as url:
        base = f"{url}/api/v1/runs/{run.id}"
        status, told, _ = ask(f"{base}/agreement")
        assert (status, "has no labels" in told["error"]["message"]) == (422, True), told
        for place, result in enumerate(run.results):
            for rank, chunk in enumerate(result.trace.chunks):
                label = {"trace_id": result.trace_id, "chunk_id": chunk.id, "label": (place + rank) % 2, "by": "Anna"}
                assert ask(f"{base}/labels", method="POST", body=label)[0] == 201
        told = ask(f"{base}/agreement")[1]
    expected = agree(run, None, floor=floor_of("fake/overlap", run))
    assert told == json.loads(json.dumps(agreement_data(expected)))


def test_a_floor_that_cannot_be_one_is_named_before_the_server_starts(desk: Desk) -> None:
    """A floor calls no server; the page of several runs has none."""
    (desk.folder / "runs").mkdir()
    for command in (("serve", "--port", "0"), ("agree", "latest"), ("report", "latest", "--page", "matrix")):
        refused = desk(*command, "--floor", "decisions/x", "--out", "runs", OPENAI_API_KEY="sk-x")
        assert refused.code == 2, refused
    refused = desk("serve", "--port", "0", "--floor", "decisions/x", "--out", "runs", OPENAI_API_KEY="sk-x")
    assert "decisions/x calls a server, which a floor must not" in refused.err
