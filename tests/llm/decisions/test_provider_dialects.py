"""Decision models by provider: each server in its own place and shape, and dialects that users add."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from judge_eval import Evaluator, Options
from judge_eval.errors import ConfigError, UnknownNameError
from judge_eval.llm.http.decisions import Decisions
from judge_eval.llm.stack import create_backend
from judge_eval.providers import begin_project, built_in, built_in_dialects
from tests.support.asking_decisions import TEXTS, confidences, row
from tests.support.canned import Canned
from tests.support.decision_server import DecisionServer
from tests.support.decision_shapes import DIALECT_NAMES

KEY = "key-of-nobody-0123456789"
SHARES = dict(zip(TEXTS, (0.99, 0.5, 0.51, 0.0), strict=True))
PLACES = {
    "perplexity": "/v1/decisions",
    "openrouter": "/api/alpha/decisions",
    "gemini": "/v1beta/decisions",
    "cloudflare": "/client/v4/accounts/me/ai/run/m",
    "ollama": "/v1/systemone",
    "llamacpp": "/v1/systemone",
    "vllm": "/v1/decisions",
    "sglang": "/v1/decisions",
}
ROOTS = {"cloudflare": "/client/v4/accounts/me/ai/v1", "gemini": "/v1beta/openai", "openrouter": "/api/v1"}


class Hosted(DecisionServer):
    """A provider's server of decision models: its path, its input and its envelope."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        super().__init__(provider if provider in ("vllm", "sglang") else "systemone", SHARES.__getitem__)
        self.path = PLACES[provider]

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Answer as System One does, in the provider's shape."""
        body = json.loads(raw)
        if self.provider == "gemini":
            rules, _, data = body.pop("input").rpartition("\n\n")
            raw = json.dumps({**body, "state": {"rules": rules, **json.loads(data)}}).encode()
        canned = super().answer(raw, headers)
        if self.provider == "cloudflare":
            canned = replace(canned, body={"result": canned.body, "success": True, "errors": []})
        return canned


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every provider has a key, and no project says anything."""
    for entry in built_in().values():
        if entry.key_env:
            monkeypatch.setenv(entry.key_env, KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    yield
    begin_project()


def judged_at(server: DecisionServer, model: str, base_url: str) -> list[float | None]:
    """Judge a trace in decision mode; return the confidences."""
    options = Options(base_url=base_url, attempts=1)
    with Evaluator(model, mode="decision", cache=False, options=options) as evaluator:
        run = evaluator.evaluate([row(*TEXTS)])
    assert server.objections == []
    return confidences(run)


@pytest.mark.parametrize("prefix", ["decisions/m@{}", "{}/m"])
@pytest.mark.parametrize("provider", PLACES)
def test_each_provider_is_asked_in_its_place_and_shape(provider: str, prefix: str) -> None:
    """Named after the model or before it, the provider says path, shape and header."""
    with Hosted(provider) as server:
        base = server.url.removesuffix("/v1") + ROOTS.get(provider, "/v1")
        assert judged_at(server, prefix.format(provider), base) == pytest.approx(list(SHARES.values()))
        header = "x-goog-api-key" if provider == "gemini" else "authorization"
        sent = server.headers[0].get(header, "").removeprefix("Bearer ")
        assert sent == (KEY if built_in()[provider].key_env else "none")
        assert ("authorization" in server.headers[0]) is (header == "authorization")


def test_at_a_providers_own_address_the_dialect_need_not_be_said() -> None:
    """The host says it; elsewhere it is never guessed."""
    for base, name in (
        ("https://api.openai.com/v1", "openai"),
        ("https://api.perplexity.ai", "perplexity"),
        ("https://openrouter.ai/api/v1", "openrouter"),
    ):
        assert Decisions("m", base_url=base).dialect.name == name
    with pytest.raises(ConfigError, match="cannot be guessed"):
        Decisions("m", base_url="https://judge.example/v1")
    with pytest.raises(ConfigError, match="cannot be guessed"):
        Decisions("m", base_url="http://127.0.0.1:8000/v1")
    backend = create_backend("decisions/m@perplexity", Options())
    assert backend.identity is not None
    assert backend.identity.base_url == "https://api.perplexity.ai"
    assert backend.identity.model == "m"


def test_the_server_of_a_provider_does_not_take_more_than_it_says() -> None:
    """The most questions of a request are the dialect's."""
    for name, most in (("perplexity", 128), ("cloudflare", 64), ("gemini", 1000), ("vllm", 200)):
        assert built_in_dialects()[name].most == most
    assert {*DIALECT_NAMES} <= set(built_in_dialects())


MINE = {
    "path": "/ask", "most": 3, "input": "state", "questions": "map", "statement": "noul",
    "levels": "criteria", "answers": "map", "probability": ["noul"], "shares": "by_grade",
}  # fmt: skip


def test_a_project_adds_a_dialect() -> None:
    """A block of the configuration is a dialect, and requests are split by its limit."""
    begin_project({"dialect": {"mine": MINE}}, "f.toml")
    with DecisionServer("systemone", SHARES.__getitem__) as server:
        server.path = "/ask"
        options = Options(base_url=server.url, params={"dialect": "mine"}, attempts=1)
        with Evaluator("decisions/m", cache=False, options=options) as evaluator:
            run = evaluator.evaluate([row(*TEXTS)])
        assert confidences(run) == pytest.approx(list(SHARES.values()))
        assert sorted(len(body["questions"]) for body in server.calls) == [2, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": "//evil.example/x"}, "path"),
        ({"path": "https://evil.example/x"}, "path"),
        ({"path": "/a\\b"}, "path"),
        ({"input": "code"}, "input"),
        ({"probability": ["a", "b"]}, "probability"),
        ({"most": 0}, "most"),
        ({"hint": "x"}, "hint"),
    ],
)
def test_what_is_no_dialect(change: dict[str, object], message: str) -> None:
    """A dialect cannot lead to another host, and an odd field is an error that names it."""
    with pytest.raises(ConfigError, match=message):
        begin_project({"dialect": {"mine": {**MINE, **change}}}, "f.toml")


def test_a_model_cannot_lead_elsewhere() -> None:
    """A model's name stays a part of the path."""
    with pytest.raises(ConfigError, match="cannot be part of an address"):
        Decisions("../../x", base_url="http://127.0.0.1:9/v1", params={"dialect": "cloudflare"})


def test_a_misspelled_provider_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`decisions/m@olama` names no model `m@olama` at OpenAI; what resembles no provider is part of the name."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(UnknownNameError, match="no provider 'olama'; did you mean 'ollama'"):
        create_backend("decisions/m@olama", Options())
    identity = create_backend("decisions/m@2026-01-01", Options()).identity
    assert identity is not None
    assert identity.model == "m@2026-01-01"
