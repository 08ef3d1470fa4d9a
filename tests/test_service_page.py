"""The page on services: its program serves, with a judge's replies and with a judge's errors."""

import json
import shutil
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.blocks import ROOT, blocks_of, environment, shell
from tests.support.canned import error
from tests.support.chat_server import ChatServer
from tests.support.ports import quiet_port
from tests.support.serving import ask

PAGE = blocks_of((ROOT / "docs" / "service.md").read_text("utf-8"))
(CODE,) = (block.code for block in PAGE if block.language == "python")
ROW = {"query": "When do you open?", "reference": "At nine.", "chunks": ["We open at nine.", "Park here."]}


@contextmanager
def serving(folder: Path, judge: str) -> Iterator[str]:
    """Start the page's program as the page says, with its judge at an address, and yield where it listens."""
    (folder / "service.py").write_text(CODE, encoding="utf-8")
    port = quiet_port()
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port), "--log-level", "warning"]
    with subprocess.Popen(command, cwd=folder, env=environment(folder, judge)) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            for _ in range(600):
                assert process.poll() is None
                try:
                    ask(f"{url}/openapi.json")
                    break
                except urllib.error.URLError:
                    time.sleep(0.05)
            yield url
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_request_of_the_page_is_answered(tmp_path: Path) -> None:
    """The page's `curl` gets scores and reasons from the page's program."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (page,) = (block.code for block in PAGE if block.language == "text")
    _, command, _ = page.splitlines()
    with ChatServer() as judge, serving(tmp_path, judge.url) as url:
        line = command.removeprefix("$ ").replace("localhost:8000", url.removeprefix("http://"))
        done = subprocess.run(line, shell=True, capture_output=True, check=True)  # as people type it
    reply = json.loads(done.stdout)
    assert list(reply) == ["scores", "failed", "reasons"], reply
    assert (list(reply["scores"]), reply["failed"], len(reply["reasons"])) == (["AP@5", "MRR", "NDCG@5"], 0, 1)


@pytest.mark.slow
def test_the_program_judges_keeps_history_and_says_what_failed(tmp_path: Path) -> None:
    """Forty requests at once are judged within the bound on calls; the history is a run that costs no call.

    A key that stops working fails its chunks, and from the fifth trace on its requests.
    """
    with ChatServer(latency=0.02) as judge, serving(tmp_path, judge.url) as url:
        rows = [ROW | {"id": f"q{n}", "query": f"When do you open on day {n}?"} for n in range(40)]
        with ThreadPoolExecutor(20) as pool:
            replies = [*pool.map(lambda row: ask(f"{url}/judge", method="POST", body=row), rows)]
        assert [status for status, *_ in replies] == [200] * 40
        assert all(body["failed"] == 0 and len(body["reasons"]) == 2 for _, body, _ in replies)
        assert judge.stats["most_in_flight"] <= 8
        status, body, _ = ask(f"{url}/judge", method="POST", body={"query": "When?", "chunks": ["At nine."]})
        assert status == 422
        assert "needs the reference" in body["detail"]
        paid = judge.stats["calls"]
        command = "judge-eval run sampled.jsonl --cache verdicts -m openai/some-model"
        done = shell(command, tmp_path, judge.url)
        assert done.returncode == 0, done.stderr
        assert "40 traces" in done.stdout
        assert judge.stats["calls"] == paid
        judge.script(*[error(401, "wrong key")] * 40)
        asked = [ask(f"{url}/judge", method="POST", body=ROW | {"query": f"Is it {n}?"}) for n in range(6)]
        answers = [(status, body.get("failed"), body.get("reasons")) for status, body, _ in asked]
        assert answers[:4] == [(200, 2, ["refused"] * 2)] * 4
        assert [status for status, *_ in answers[4:]] == [503] * 2
    assert len((tmp_path / "sampled.jsonl").read_text("utf-8").splitlines()) == 44
    assert json.loads((tmp_path / "sampled.jsonl").read_text("utf-8").splitlines()[0])["chunks"] == ROW["chunks"]
