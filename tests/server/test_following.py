"""A run that another process judges, seen as it grows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from judge_eval.runs.folder.journal import PROGRESS, Journal, encode
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.runs.folder.records import RESULTS, TraceResult
from judge_eval.runs.scoring.counting import ProgressFile, read_progress, write_progress
from judge_eval.server import library as following
from judge_eval.server.library import Followed
from judge_eval.server.server_settings import ServerSettings
from tests.support.canned import Canned
from tests.support.chat_server import ChatServer
from tests.support.command import ROOT
from tests.support.serving import ask, judge, rows, serving


@pytest.fixture
def judged() -> EvalRun:
    """Judge some traces in memory, to be written bit by bit."""
    return judge(rows()[:12])


def started(root: Path, run: EvalRun) -> Journal:
    """Begin a run's folder as a process does that judges."""
    manifest = run.manifest.under_way("running").replace(finished=None, aggregates={})
    return Journal(root / "run", manifest)


def ids(followed: Followed) -> list[str]:
    """List the traces that are there, in the order in which they came."""
    return [row.id for row in followed.rows]


def test_traces_are_there_as_they_come(tmp_path: Path, judged: EvalRun) -> None:
    """Each look finds what was written since, with the means so far; a line that is not whole waits."""
    journal = started(tmp_path, judged)
    followed = Followed(journal.folder, journal.manifest)
    followed.look()
    assert followed.rows == []
    assert [mean["mean"] for mean in followed.means()] == [None, None, None]
    journal.append([judged.results[4], judged.results[1]])
    followed.look()
    assert ids(followed) == ["docs-005", "docs-002"]
    line = encode(judged.results[2])
    with (journal.folder / RESULTS).open("ab") as file:
        file.write(line[:50])
        file.flush()
        followed.look()
        assert len(followed.rows) == 2
        file.write(line[50:])
    followed.look()
    assert ids(followed)[2:] == ["docs-003"]
    assert followed.find("docs-003") == judged.results[2]
    assert followed.find("docs-001") is None
    for message in followed.means():
        scores = [judged.results[k].scores[message["name"]] for k in (1, 2, 4)]
        assert message["mean"] == pytest.approx(sum(scores) / 3)  # type: ignore[arg-type]
        assert message["n"] == 3
    journal.close()


def test_open_traces_count_in_the_means_so_far(tmp_path: Path, judged: EvalRun) -> None:
    """A trace that failed verdicts leave open is not left out: the bounds over all traces are told.

    Judged again, it counts with its value, and the mean is told.
    """
    names = list(judged.results[0].scores)
    open_ = judged.results[1].model_copy(
        update={"scores": dict.fromkeys(names), "bounds": dict.fromkeys(names, (0.25, 1.0))}
    )
    journal = started(tmp_path, judged)
    followed = Followed(journal.folder, journal.manifest)
    journal.append([judged.results[0], open_])
    followed.look()
    for line in followed.means():
        first = judged.results[0].scores[line["name"]]
        assert first is not None
        assert (line["mean"], line["headline"], line["n"]) == (None, "bounds", 2)
        assert line["bounds"] == pytest.approx(((first + 0.25) / 2, (first + 1) / 2))
    journal.append([judged.results[1]])
    followed.look()
    for line in followed.means():
        assert (line["headline"], line["bounds"], line["n"]) == ("mean", None, 2)
        scores = [judged.results[k].scores[line["name"]] for k in (0, 1)]
        assert line["mean"] == pytest.approx(sum(scores) / 2)  # type: ignore[arg-type]
    journal.close()


def test_no_byte_is_read_twice(tmp_path: Path, judged: EvalRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often one looks, every result is read once."""
    journal = started(tmp_path, judged)
    followed = Followed(journal.folder, journal.manifest)
    read: list[bytes] = []
    parse = following.read_result

    def counted(line: bytes, *place: Any) -> TraceResult:
        read.append(line)
        return parse(line, *place)

    monkeypatch.setattr(following, "read_result", counted)
    for result in judged.results:
        journal.append([result])
        followed.look()
        followed.look()
    assert b"".join(read) == (journal.folder / RESULTS).read_bytes()
    journal.close()


def test_a_look_reads_so_much_and_no_more(tmp_path: Path, judged: EvalRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there at once comes in parts, a long line whole; past a number of traces no more is held."""
    journal = started(tmp_path, judged)
    journal.append(judged.results)
    sizes = [len(encode(result)) for result in judged.results]
    monkeypatch.setattr(following, "LOOK", sizes[0] + sizes[1] + 5)
    followed = Followed(journal.folder, journal.manifest)
    followed.look()
    assert len(followed.rows) == 2
    monkeypatch.setattr(following, "LOOK", 10)
    followed.look()
    assert len(followed.rows) == 3
    monkeypatch.setattr(following, "LOOK", 2**20)
    monkeypatch.setattr(following, "FOLLOWED", 3)
    followed.look()
    assert len(followed.rows) == 3
    journal.close()


def test_a_trace_that_is_judged_again_counts_once(tmp_path: Path, judged: EvalRun) -> None:
    """Of two lines about one trace the later one is shown, and is all that the means count."""
    journal = started(tmp_path, judged)
    first = judged.results[0]
    journal.append([first.model_copy(update={"scores": dict.fromkeys(first.scores, 0.0)}), judged.results[1]])
    followed = Followed(journal.folder, journal.manifest)
    followed.look()
    journal.append([first])
    followed.look()
    assert ids(followed) == ["docs-001", "docs-002"]
    assert followed.rows[0].scores == first.scores
    for line in followed.means():
        both = [judged.results[k].scores[line["name"]] for k in (0, 1)]
        assert line["mean"] == pytest.approx(sum(both) / 2)  # type: ignore[arg-type]
    journal.close()


def test_labels_reach_what_is_followed(tmp_path: Path, judged: EvalRun) -> None:
    """A label given meanwhile is in the row and in the trace at the next look."""
    journal = started(tmp_path, judged)
    journal.append(judged.results[:2])
    followed = Followed(journal.folder, journal.manifest)
    followed.look()
    before = followed.rows[0]
    chunk, outcome = judged.results[0].trace.chunks[0], judged.results[0].outcomes[0]
    assert outcome.kind == "verdict"
    opposite = 0 if outcome.relevant else 1
    add_label(journal.folder, Label(trace_id="docs-001", chunk_id=chunk.id, label=opposite))
    followed.look()
    assert followed.rows[0].off[0] == "1"
    assert followed.rows[0].off[1:] == before.off[1:]
    result = followed.find("docs-001")
    assert result is not None
    assert result.trace.chunks[0].label == opposite
    journal.close()


def test_a_file_in_anothers_place_is_read_anew(tmp_path: Path, judged: EvalRun) -> None:
    """When the results are put in order at the end, nobody reads the old places in the new file."""
    journal = started(tmp_path, judged)
    journal.append([judged.results[3], judged.results[0]])
    followed = Followed(journal.folder, journal.manifest)
    followed.look()
    journal.sort()
    with pytest.raises(Exception, match="reload the page"):
        followed.find("docs-001")
    followed.look()
    assert ids(followed) == ["docs-001", "docs-004"]
    assert followed.find("docs-004") == judged.results[3]
    journal.close()


@pytest.mark.slow
def test_the_server_shows_a_run_of_another_process(tmp_path: Path, judged: EvalRun) -> None:
    """Rate, hits, failures and time left are what that process says; rows and traces what it has written."""
    journal = started(tmp_path, judged)
    base = f"/api/v1/runs/{judged.id}"
    with serving(ServerSettings(tmp_path)) as url:
        result = ask(f"{url}{base}/live")[1]
        assert (result["read"], result["run"]["progress"]) == (0, None)
        journal.append([judged.results[5], judged.results[2]])
        told_by_it = {
            "traces": 2, "total": 12, "verdicts": 9, "failed": 1, "calls": 7, "hits": 3, "retries": 2,
            "rate": 4.5, "left": 20.5,
        }  # fmt: skip
        news = ProgressFile(at=datetime.now(UTC), **told_by_it)
        write_progress(journal.folder, news)
        result = ask(f"{url}{base}/live")[1]
        assert result["read"] == 2
        assert result["run"]["progress"] == told_by_it
        assert 0 <= result["run"]["silent"] < 60
        assert ask(f"{url}/api/v1/runs")[1]["runs"][0]["progress"] == result["run"]["progress"]
        assert [mean["n"] for mean in result["means"]] == [2, 2, 2]
        page = ask(f"{url}{base}/page")[1]
        assert page["live"] is True
        assert "histograms" not in page
        newest = ask(f"{url}{base}/rows?sort=newest")[1]
        assert [row["id"] for row in newest["rows"]] == ["docs-003", "docs-006"]
        word = judged.results[5].trace.chunks[0].text.split()[0]
        fit = ask(f"{url}{base}/rows?filter={word}&sort=order")[1]["rows"]
        assert "docs-006" in [row["id"] for row in fit]
        assert ask(f"{url}{base}/trace?trace_id=docs-006")[1]["trace"]["query"] == judged.results[5].trace.query
        assert ask(f"{url}{base}/trace?trace_id=docs-001")[0] == 404
        chunk = judged.results[5].trace.chunks[0].id
        body = {"trace_id": "docs-006", "chunk_id": chunk, "label": 1}
        assert ask(f"{url}{base}/labels", method="POST", body=body)[0] == 201
        old = news.model_copy(update={"at": datetime.now(UTC) - timedelta(minutes=2)})
        write_progress(journal.folder, old)
        assert 120 <= ask(f"{url}{base}/live")[1]["run"]["silent"] < 200
    journal.close()


def test_a_run_with_a_baseline_is_shown_without_it_while_it_is_judged(tmp_path: Path) -> None:
    """Until a run has ended, neither its page nor its rows are held against the baseline it remembers."""
    before = judge(rows()[:3], tmp_path)
    run = judge(rows()[:3], baseline=before.id)
    journal = started(tmp_path, run)
    journal.append(run.results)
    with serving(ServerSettings(tmp_path)) as url:
        api = f"{url}/api/v1/runs/{run.id}"
        page = ask(f"{api}/page")[1]
        assert page["live"]
        assert page["baseline"] is None
        assert "opening" not in page
        assert [row["deltas"] for row in ask(f"{api}/rows")[1]["rows"]] == [{}] * 3
        result = ask(f"{api}/trace?trace_id=docs-001")[1]
        assert result["trace"]["id"] == "docs-001"
        assert "row" not in result
    journal.close()


@pytest.mark.slow
def test_a_blind_look_at_a_run_that_is_judged(tmp_path: Path, judged: EvalRun) -> None:
    """Who labels blind sees neither the means so far nor the verdicts of what has come."""
    bare = [{**row, "chunks": [{**chunk, "label": None} for chunk in row["chunks"]]} for row in rows()[:2]]
    run = judge(bare)
    journal = started(tmp_path, run)
    journal.append(run.results)
    base = f"/api/v1/runs/{run.id}"
    with serving(ServerSettings(tmp_path)) as url:
        assert ask(f"{url}{base}/live?blind=true")[1]["means"] == []
        row = ask(f"{url}{base}/rows?blind=true")[1]["rows"][0]
        assert set(row["strip"]) == {"?"}
        assert set(row["scores"].values()) == {None}
    journal.close()


@pytest.mark.slow
def test_a_run_from_the_terminal_is_seen_killed_and_gone_on_with(tmp_path: Path) -> None:
    """Two processes: one judges into the folder, the other shows it; a kill is silence, a resume ends it."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows()[:6]))
    chunks = sum(len(row["chunks"]) for row in rows()[:6])
    with ChatServer() as chat, serving(ServerSettings(tmp_path / "runs")) as url:
        chat.script(*[Canned()] * (chunks // 2), *[Canned(fate="hang")] * 500)
        command = [
            sys.executable, "-m", "judge_eval", "run", str(data), "--model", "openai/some-model",
            "--base-url", chat.url, "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "runs"), "-q",
        ]  # fmt: skip
        environment = {**os.environ, "OPENAI_API_KEY": "sk-x", "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
        try:
            live = _until_read(url, process)
            progress = live["run"]["progress"]
            assert progress["total"] == 6
            assert 0 < live["read"] < 6
            assert live["read"] == progress["traces"]
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        (folder,) = (tmp_path / "runs").iterdir()
        news, _ = read_progress(folder)
        assert news is not None
        write_progress(folder, news.model_copy(update={"at": news.at - timedelta(minutes=3)}))
        result = ask(f"{url}/api/v1/runs/{live['run']['id']}/live")[1]
        assert result["run"]["status"] == "running"
        assert result["run"]["silent"] >= 180
        chat.reset()
        done = subprocess.run([*command, "--resume"], capture_output=True, env=environment, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        result = ask(f"{url}/api/v1/runs/{live['run']['id']}/live")[1]
        assert (result["run"]["status"], result["run"]["progress"], result["read"]) == ("done", None, 6)
        assert not (folder / PROGRESS).exists()


def _until_read(url: str, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait until the server shows all of the run that will come."""
    end = time.monotonic() + 60
    before = -1
    while True:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "nothing came"
        runs = ask(f"{url}/api/v1/runs")[1]["runs"]
        if runs and runs[0]["progress"] is not None:
            live: dict[str, Any] = ask(f"{url}/api/v1/runs/{runs[0]['id']}/live")[1]
            if 0 < live["read"] == live["run"]["progress"]["traces"] == before:
                return live
            before = live["read"]
        time.sleep(0.3)
