"""Asking a server of decision models: settings, keys, failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.errors import (
    CallError,
    ConfigError,
    DeniedError,
    FatalCallError,
    RefusedError,
    RequestTooLargeError,
    TransientError,
)
from judge_eval.llm.backend import Identity
from judge_eval.llm.http.decisions import Decisions
from judge_eval.llm.http.failures import MovedError
from tests.support.asking_decisions import asked_of_backend, complete_all, judged, outcomes, request, whys
from tests.support.canned import Canned, error
from tests.support.decision_server import DecisionServer

URL = "http://127.0.0.1:9/v1"
KEY = "sk-secret-0123456789abcdef"


def failure(server: DecisionServer, canned: Canned, **more: Any) -> BaseException:
    """Return what a reply is raised as."""
    server.script(canned)
    (result,) = complete_all(asked_of_backend(server, **more), [request()])
    assert isinstance(result, BaseException)
    return result


# Settings


def test_the_dialect_is_told_never_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only OpenAI's own address has one by itself; a name that does not exist is advised."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert Decisions("m").dialect.name == "openai"
    with pytest.raises(ConfigError, match=r"cannot be guessed; name it: -p dialect=NAME \(openai, vllm"):
        Decisions("m", base_url=URL)
    with pytest.raises(ConfigError, match="did you mean 'sglang'"):
        Decisions("m", base_url=URL, params={"dialect": "sglan"})
    for odd in (7, ["vllm"], True):
        with pytest.raises(ConfigError, match="no dialect"):
            Decisions("m", base_url=URL, params={"dialect": odd})


@pytest.mark.parametrize("name", ["model", "input", "state", "questions", "stream"])
def test_what_the_package_sets_is_no_parameter(name: str) -> None:
    """As for models that write."""
    with pytest.raises(ConfigError, match=f"{name!r} is set by the package"):
        Decisions("m", base_url=URL, params={"dialect": "openai", name: "x"})


def test_who_answers_is_part_of_the_key() -> None:
    """Model, address, dialect and every parameter: a change of any is another answer."""
    base: dict[str, Any] = {"model": "m", "base_url": URL, "params": {"dialect": "openai"}}
    changes: list[dict[str, Any]] = [
        {}, {"model": "n"}, {"base_url": URL + "x"}, {"params": {"dialect": "vllm"}},
        {"params": {"dialect": "openai", "prompt_cache_key": "a"}},
    ]  # fmt: skip
    identities = [Decisions(**{**base, **change}).identity for change in changes]
    assert len({identity.digest for identity in identities}) == len(changes)
    assert identities[0] == Identity("decisions", "m", URL, (("dialect", '"openai"'),))


def test_a_server_elsewhere_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="no key: set the environment variable OPENAI_API_KEY"):
        Decisions("m", base_url="https://host.example/v1", params={"dialect": "openai"}).check()


# What a failure stands for


@pytest.mark.slow
def test_failures_are_told_apart() -> None:
    """What may pass, what is too large, what is declined, and what no call can mend."""
    html = {"content-type": "text/html"}
    with DecisionServer() as server:
        for canned, kind in (
            (error(429, retry_after="3"), TransientError),
            (error(500), TransientError),
            (error(504, "late"), TransientError),
            (Canned(502, html, "<html>"), TransientError),
            (Canned(200, {}, '{"answers":'), RefusedError),
            (Canned(200, {}, {"error": {"message": "busy", "code": 503}}), TransientError),
            (Canned(504, html, "<html>Gateway Time-out</html>"), RequestTooLargeError),
            (Canned(413, html, "<html>"), RequestTooLargeError),
            (error(400, "At most 64 questions are allowed"), RequestTooLargeError),
            (error(422, "questions: List should have at most 200 items"), RequestTooLargeError),
            (error(400, "x", code="context_length_exceeded"), RequestTooLargeError),
            (Canned(200, {}, {"error": {"message": "too many questions", "code": 400}}), RequestTooLargeError),
            (error(400, "an odd field"), RefusedError),
            (error(401, "no"), DeniedError),
            (error(404, "no"), DeniedError),
            (Canned(307, {"location": "http://elsewhere.example/v1"}, ""), FatalCallError),
            (error(429, "no credit", code="insufficient_quota"), DeniedError),
        ):
            result = failure(server, canned)
            assert (MovedError if canned.status == 307 else kind) is type(result), (canned, result)
        assert getattr(failure(server, error(429, retry_after="3")), "retry_after", None) == 3
        assert isinstance(failure(server, Canned(504, html, "<html>")), CallError)


def test_a_key_is_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not in a message, an answer's detail, a model's name, the cache or a cassette, however it comes."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    messages: list[str] = []
    with DecisionServer() as server:
        for canned in (
            error(400, f"bad key {KEY}"),
            error(500, f"{KEY}"),
            Canned(504, {}, f"<html>{KEY}"),
            Canned(200, {}, f"not json {KEY}"),
            Canned(200, {}, {"error": {"message": KEY, "code": 400}}),
            Canned(302, {"location": f"http://{KEY}.example/{KEY}"}, ""),
        ):
            messages.append(str(failure(server, canned)))
        names = [f"c{n}" for n in range(1, 5)]
        rows = [{"type": "predicate", "name": name, "probability": KEY} for name in names[:3]]
        body = {"model": f"m-{KEY}", "answers": [*rows, {"type": KEY, "name": "c4"}]}
        server.script(Canned(200, {"x-request-id": f"req {KEY}"}, body), Canned(200, {}, body))
        run = judged(server, cache=tmp_path / "cache", record=tmp_path / "tape.jsonl")
        messages += [str(outcome) for outcome in outcomes(run)]
        messages.append(json.dumps(server.calls))
    messages += [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert whys(run) == ["unparsable"] * 4
    assert not [text for text in messages if KEY in text or KEY[4:14] in text]
