"""The chat server of the tests does what tests rely on."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval.llm.http.capabilities import contract, response_format
from judge_eval.schema import GRADED
from judge_eval.wire import Passage
from tests.support.canned import error
from tests.support.chat_answers import judge
from tests.support.chat_faults import Bucket, Faults
from tests.support.chat_server import ChatServer
from tests.support.requests import SmallForm, ask

ROOT = Path(__file__).parents[1]


def post(url: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send a body with the standard library's client."""
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return dict(json.load(answer))


def get(url: str, path: str) -> Any:
    """Read one of the server's own pages."""
    with urllib.request.urlopen(url.removesuffix("/v1") + path, timeout=10) as answer:
        return json.load(answer)


def body_of(form: SmallForm, mode: Any = "strict", passages: int = 1) -> dict[str, Any]:
    """Make a body as a client would."""
    request = ask(form=form, passages=tuple(Passage(f"text {n}") for n in range(passages)))
    messages = [{"role": m.role, "content": m.content} for m in request.messages]
    if mode in ("json_object", "prompt"):
        messages[0]["content"] += contract(form.schema)
    wanted = response_format(mode, form.schema_name, form.schema)
    return {"model": "m", "messages": messages} | ({"response_format": wanted} if wanted else {})


@pytest.mark.parametrize("mode", ["strict", "json_schema", "json_object", "prompt"])
def test_answers_fit_what_was_asked(mode: str) -> None:
    """Binary, graded and listwise requests get answers with the right fields, however they ask."""
    assert set(judge(body_of(SmallForm(), mode))) == {"evidence", "reason", "instruction_in_chunk", "verdict"}
    assert judge(body_of(SmallForm(scale=GRADED), mode))["grade"] in (0, 1, 2, 3)
    listed = judge(body_of(SmallForm(listwise=True), mode, 4))["verdicts"]
    assert [item["id"] for item in listed] == [1, 2, 3, 4]


def test_same_body_same_answer() -> None:
    """Two servers give one body the same answer, and count it."""
    bodies = [body_of(SmallForm()), body_of(SmallForm(scale=GRADED))]
    with ChatServer() as first, ChatServer() as other:
        assert [post(first.url, body) for body in bodies] == [post(other.url, body) for body in bodies]
        assert first.calls == bodies
        assert get(first.url, "/_stats")["paid"] == 2
        assert get(first.url, "/_calls") == bodies


def test_faults_depend_on_the_attempt() -> None:
    """A share of first attempts fails, the same ones each time; repeated, they are drawn anew."""
    faults = Faults(rate_500=0.3, seed=5)
    first = [faults.draw(b"%d" % n, 1) for n in range(1000)]
    assert first == [faults.draw(b"%d" % n, 1) for n in range(1000)]
    assert first != [faults.draw(b"%d" % n, 2) for n in range(1000)]
    assert 240 < first.count("500") < 360


def test_bucket_limits() -> None:
    """A bucket lets its size through, then declines and says for how long."""
    with ChatServer(bucket=Bucket(rpm=6, burst=2, level=2)) as server:
        for _ in range(2):
            assert post(server.url, body_of(SmallForm()))["choices"]
        with pytest.raises(urllib.error.HTTPError, match="429") as caught:
            post(server.url, body_of(SmallForm()))
        assert float(caught.value.headers["retry-after-ms"]) > 0
        assert caught.value.headers["x-ratelimit-remaining-requests"] == "0"
        caught.value.close()


def test_script_comes_first() -> None:
    """Scripted replies are given in order, then the usual ones."""
    with ChatServer() as server:
        server.script(error(418, "teapot", x_extra="1"))
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server.url, body_of(SmallForm()))
        assert caught.value.headers["x-extra"] == "1"
        caught.value.close()
        assert post(server.url, body_of(SmallForm()))["choices"]


def test_as_a_process() -> None:
    """Started as a module it prints its address first, and takes the same options."""
    command = [sys.executable, "-m", "tests.support.chat_server", "--latency", "0.01", "--fail-text", "text 0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(url, body_of(SmallForm()))
            caught.value.close()
            assert get(url, "/_stats")["500"] == 1
        finally:
            process.terminate()
