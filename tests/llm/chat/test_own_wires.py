"""Anthropic's Messages, Gemini's `generateContent` and OpenAI's Responses, held against the vendors' SDKs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Chunk, EvalRun, Evaluator, Trace
from judge_eval.engine import Plan
from judge_eval.errors import DeniedError, RefusedError, RequestTooLargeError, TransientError
from judge_eval.llm.backend import Identity
from judge_eval.llm.budget import price_of
from judge_eval.llm.http import anthropic_messages
from judge_eval.llm.http.failures import rate_signal
from judge_eval.llm.http.text_server import TextServer
from judge_eval.llm.options import Options
from judge_eval.llm.stack import build_stack, create_backend
from judge_eval.providers import built_in
from judge_eval.views.plan import plan_lines
from judge_eval.wire import Completion, Usage
from tests.support.canned import Canned
from tests.support.chat_faults import Faults
from tests.support.chat_server import ChatServer
from tests.support.decision_server import DecisionServer
from tests.support.own_wires import ContentServer, MessagesServer, NativeServer, ResponsesServer
from tests.support.requests import SmallForm, ask

SERVERS: dict[str, type[NativeServer]] = {
    "anthropic": MessagesServer, "gemini": ContentServer, "openai-responses": ResponsesServer,
}  # fmt: skip
KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "x-api-key"),
    "gemini": ("GEMINI_API_KEY", "x-goog-api-key"),
    "openai-responses": ("OPENAI_API_KEY", "authorization"),
}
KEY = "key-of-nobody-0123456789"
TRACES = [
    Trace(
        id=f"q{n}", query=f"When does gate {n} open?", reference=f"Gate {n} opens at nine.",
        chunks=[Chunk(id=f"c{k}", text=f"Gate {n} opens at nine, says sign {k}.") for k in range(3)],
    )
    for n in range(12)
]  # fmt: skip


@pytest.fixture(params=SERVERS)
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A provider with a wire of its own, whose key is set."""
    name: str = request.param
    monkeypatch.setenv(KEYS[name][0], KEY)
    return name


@pytest.fixture
def server(name: str) -> Iterator[NativeServer]:
    """Its server."""
    with SERVERS[name]() as server:
        yield server


def judged(model: str, url: str, **settings: Any) -> EvalRun:
    """Judge the traces."""
    options = Options(
        base_url=url, params=settings.pop("params", {}), attempts=settings.pop("attempts", 5),
        timeout=settings.pop("timeout", 60.0),
    )  # fmt: skip
    with Evaluator(model, cache=settings.pop("cache", False), options=options, **settings) as evaluator:
        return evaluator.evaluate(TRACES)


def verdicts(run: EvalRun) -> list[Any]:
    """Return what was judged."""
    return [outcome.model_dump(exclude={"digest"}) for each in run.results for outcome in each.outcomes]


def complete(backend: Any, **changes: Any) -> Completion:
    """Make one call."""

    async def go() -> Completion:
        try:
            done: Completion = await backend.complete(ask(**changes))
            return done
        finally:
            await backend.aclose()

    return asyncio.run(go())


@pytest.mark.parametrize("mode", ["pointwise", "listwise"])
def test_verdicts_are_those_of_chat_completions(name: str, server: NativeServer, mode: str) -> None:
    """The same questions bring the same verdicts over each wire; the key goes in its own header."""
    run = judged(f"{name}/m", server.url, mode=mode)
    with ChatServer() as chat:
        plain = judged("openai/m", chat.url, mode=mode)
    assert verdicts(run) == verdicts(plain)
    assert run.manifest.backend["provider"] == name
    assert set(run.manifest.tally.dropped) == set(built_in()[name].unsupported)
    assert {each[KEYS[name][1]].removeprefix("Bearer ") for each in server.headers} == {KEY}
    assert all(("authorization" in each) == (KEYS[name][1] == "authorization") for each in server.headers)


def test_usage_is_whole(name: str, server: NativeServer) -> None:
    """Cached and reasoning tokens are counted among those that are billed."""
    done = complete(create_backend(f"{name}/m", Options(base_url=server.url)))
    body = server.calls[0]
    prompt = sum(len(str(each["content"])) for each in body["messages"]) // 4 + 8
    assert done.usage.input_tokens == prompt + (8 if name == "anthropic" else 0)
    assert (done.usage.cached_tokens, done.usage.reasoning_tokens) == (5, 2)
    assert done.usage.written_tokens == (0 if name == "gemini" else 3)
    assert Completion.decode(done.encode()).usage == done.usage
    assert done.usage.output_tokens == len(done.text) // 4 + 1 + 2 or name == "anthropic"
    assert done.model == "m-2026-01-01"


def test_a_declined_form_is_negotiated(name: str, server: NativeServer) -> None:
    """Without structured output a tool is forced, then the prompt alone asks; verdicts stay the same."""
    plain = verdicts(judged(f"{name}/m", server.url))

    class Picky(SERVERS[name]):  # type: ignore[name-defined, misc]
        """A server that takes no schema."""

        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            """Decline a schema."""
            declined = any(field in raw for field in (b'"output_config"', b'"responseJsonSchema"', b'"json_schema"'))
            words = "Structured output (json_schema) is not supported for this model"
            if declined:
                return Canned(400, {}, self.failed(Canned(400, {}, {"error": {"message": words}})))
            return super().answer(raw, headers)  # type: ignore[no-any-return]

    with Picky() as picky:
        run = judged(f"{name}/m", picky.url)
        forms = [*picky.native]
    assert verdicts(run) == plain
    assert {"strict", "json_schema"} <= set(run.manifest.tally.dropped)
    least = ('"tools"', "application/json", '"json_object"')
    assert all(any(words in json.dumps(body) for words in least) for body in forms)


@pytest.mark.slow
def test_faults_cost_nothing_twice(name: str) -> None:
    """Through all faults each verdict comes once, right or missing, and no body is answered twice."""
    # Draws in which no malformed reply, about which the same body asks once more, is followed by a whole one.
    faults = Faults(
        rate_429=0.1, rate_500=0.1, rate_503=0.05, rate_reset=0.1, rate_hang=0.03, rate_malformed=0.05,
        rate_broken_body=0.05, rate_refusal=0.05, rate_length=0.05, retry_after=0.01,
        seed=4 if name == "openai-responses" else 3,
    )  # fmt: skip
    with SERVERS[name](faults=faults) as server:
        run = judged(f"{name}/m", server.url, attempts=9, timeout=1.0)
    assert set(server.paid.values()) == {1}
    with ChatServer() as chat:
        plain = judged("openai/m", chat.url)
    right = 0
    for ours, theirs in zip(run.results, plain.results, strict=True):
        for outcome, other in zip(ours.outcomes, theirs.outcomes, strict=True):
            if outcome.kind == "verdict":
                assert outcome.relevant == other.relevant
                right += 1
            else:
                assert outcome.why in ("refused", "truncated", "unparsable")
    assert right >= 25


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "Your credit balance is too low to access the Anthropic API.", DeniedError),
        (400, "API key not valid. Please pass a valid API key.", DeniedError),
        (400, "User location is not supported for the API use.", DeniedError),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", RequestTooLargeError),
        (401, "invalid x-api-key", DeniedError),
        (404, "model: claude-nothing", DeniedError),
        (429, "Resource has been exhausted (e.g. check quota).", TransientError),
        (529, "Overloaded", TransientError),
    ],
)
def test_published_errors(name: str, server: NativeServer, status: int, words: str, kind: type) -> None:
    """What their servers write ends a run, is tried again, or concerns one request."""
    server.script(Canned(status, {}, {"error": {"message": words}}))
    with pytest.raises(kind, match=words[:20]):
        complete(create_backend(f"{name}/m", Options(base_url=server.url)))


def test_googles_delay_is_heeded(server: NativeServer, name: str) -> None:
    """The delay of the error's details is what a retry waits."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]
    body = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}}
    server.script(Canned(429, {}, json.dumps(body)))
    with pytest.raises(TransientError) as caught:
        complete(create_backend(f"{name}/m", Options(base_url=server.url)))
    assert caught.value.retry_after == 7


def test_a_blocked_prompt_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply without candidates whose feedback names a reason is a refusal by the filter."""
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with ContentServer() as server:
        server.script(Canned(200, {}, json.dumps({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})))
        done = complete(create_backend("gemini/m", Options(base_url=server.url)))
        assert (done.finish, done.text) == ("filter", "blocked: PROHIBITED_CONTENT")
        server.script(Canned(200, {}, json.dumps({"candidates": []})))
        with pytest.raises(RefusedError, match="without an answer"):
            complete(create_backend("gemini/m", Options(base_url=server.url)))


def test_gemini_tells_token_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log-probabilities are asked for under Gemini's names and read as a verdict's probability."""
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with ContentServer() as server:
        run = judged("gemini/m", server.url, params={"logprobs": True, "top_logprobs": 5})
        settings = server.native[0]["generationConfig"]
    assert settings["responseLogprobs"] is True
    assert settings["logprobs"] >= 1
    assert all(outcome.confidence is not None for each in run.results for outcome in each.outcomes)


def test_long_fixed_texts_are_marked_for_the_prompt_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A breakpoint stands after the fixed part if some model caches so much; a short one has none."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with MessagesServer() as server:
        backend = create_backend("anthropic/m", Options(base_url=server.url))
        assert isinstance(backend, TextServer)
        long = "A rule. " * (anthropic_messages.CACHED_FROM[0] * anthropic_messages.CHARACTERS // 8 + 1)
        complete(backend)
        complete(backend, form=SmallForm(system=(long,)))
    assert "cache_control" not in server.native[0]["system"][0]
    assert server.native[1]["system"][0]["cache_control"] == {"type": "ephemeral"}


def test_what_the_prompt_cache_takes_in_has_its_price() -> None:
    """Tokens written into Anthropic's cache cost more than others, those read from it less."""
    who = Identity("anthropic", "claude-sonnet-4-5")
    written, plain, read = (price_of(who, Usage(1000, *more)) for more in ((0, 0, 0, 1000), (), (0, 1000)))
    assert written is not None
    assert plain is not None
    assert read is not None
    assert written == pytest.approx(1.25 * plain)
    assert read == pytest.approx(0.1 * plain)


def test_a_failure_names_the_request(name: str, server: NativeServer) -> None:
    """The server's id of the request, under the header of either vendor, stands beside its words."""
    header = "request-id" if name == "anthropic" else "x-request-id"
    server.script(Canned(500, {header: "req_7"}, {"error": {"message": "broken"}}))
    with pytest.raises(TransientError, match=r"broken \(req_7\)"):
        complete(create_backend(f"{name}/m", Options(base_url=server.url)))


@pytest.mark.parametrize(("length", "words"), [(0, "is not used"), (700, "may not be used"), (4200, "")])
def test_a_dry_run_says_if_the_prompt_is_too_short(length: int, words: str) -> None:
    """Below what some model caches it is not used, below what every model caches it may not be."""
    plan = Plan(calls=1, input_tokens=5000, output_tokens=100, fixed_tokens=length)
    stack = build_stack("anthropic/m", None, Options(base_url="http://127.0.0.1:9/v1"))
    values = [line for line in plan_lines(stack, plan) if "prompt cache" in line]
    assert (len(values), words in "".join(values)) == (bool(words), True)


def test_anthropics_limits_are_read() -> None:
    """The advertised quota: a limit, what is left and the seconds until it is whole again."""
    soon = (datetime.now(UTC) + timedelta(seconds=30)).isoformat().replace("+00:00", "Z")
    headers = {
        f"anthropic-ratelimit-{what}-{field}": value
        for what, limit in (("requests", "50"), ("input-tokens", "30000"))
        for field, value in (("limit", limit), ("remaining", "7"), ("reset", soon))
    }
    signal = rate_signal(headers)
    assert signal is not None
    assert signal.requests is not None
    assert signal.tokens is not None
    assert (signal.requests.limit, signal.requests.remaining, signal.tokens.limit) == (50, 7, 30000)
    assert 25 < (signal.requests.reset or 0) <= 30
    odd = rate_signal({**headers, "anthropic-ratelimit-requests-reset": "never"})
    assert odd is not None


@pytest.mark.foreign
def test_the_vendors_sdks_read_the_servers(name: str, server: NativeServer) -> None:
    """What the servers of these tests write is accepted by the vendors' own clients."""
    schema = dict(SmallForm().schema)
    if name == "anthropic":
        from anthropic import Anthropic

        client = Anthropic(api_key=KEY, base_url=server.url.removesuffix("/v1"), max_retries=0)
        message = client.messages.create(
            model="m", max_tokens=50, system="Judge.", messages=[{"role": "user", "content": "A passage."}],
            output_config={"format": {"type": "json_schema", "schema": schema}},
        )  # fmt: skip
        assert "verdict" in message.content[-1].text  # type: ignore[union-attr]
        assert message.usage.cache_read_input_tokens == 5
        return
    if name == "openai-responses":
        from openai import OpenAI

        text: Any = {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": schema}}
        asked: Any = [{"type": "message", "role": "user", "content": "A passage."}]
        with OpenAI(api_key=KEY, base_url=server.url, max_retries=0) as ours:
            response = ours.responses.create(model="m", input=asked, instructions="Judge.", text=text, store=False)
        assert "verdict" in response.output_text
        assert response.usage is not None
        assert response.usage.output_tokens_details.reasoning_tokens == 2
        return
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=server.url.removesuffix("/v1"), api_version="v1")
    config = types.GenerateContentConfig(
        system_instruction="Judge.", response_mime_type="application/json", response_json_schema=schema,
        max_output_tokens=50,
    )  # fmt: skip
    with genai.Client(api_key=KEY, http_options=options) as google:
        answer = google.models.generate_content(model="m", contents="A passage.", config=config)
    assert "verdict" in (answer.text or "")
    assert answer.usage_metadata is not None
    assert answer.usage_metadata.thoughts_token_count == 2


@pytest.mark.foreign
def test_what_the_vendors_sdks_send_is_what_is_sent(name: str, server: NativeServer) -> None:
    """A body of ours and one of the SDK with the same content are equal."""
    form = SmallForm()
    backend = create_backend(f"{name}/m", Options(base_url=server.url))
    complete(backend, form=form)
    ours = server.native[0]
    request = ask(form=form)
    system, user = (message.content for message in form.render(request))
    if name == "anthropic":
        from anthropic import Anthropic

        client = Anthropic(api_key=KEY, base_url=server.url.removesuffix("/v1"), max_retries=0)
        client.messages.create(
            model="m", max_tokens=request.max_tokens, system=[{"type": "text", "text": system}],
            messages=[{"role": "user", "content": user}],
            output_config={"format": {"type": "json_schema", "schema": dict(form.schema)}},
        )  # fmt: skip
    elif name == "openai-responses":
        from openai import OpenAI

        named = {"type": "json_schema", "name": form.schema_name, "strict": True, "schema": dict(form.schema)}
        asked: Any = [{"type": "message", "role": "user", "content": user}]
        with OpenAI(api_key=KEY, base_url=server.url, max_retries=0) as vendors:
            vendors.responses.create(
                model="m", max_output_tokens=request.max_tokens, instructions=system, input=asked, temperature=0,
                text={"format": named}, store=False,  # type: ignore[typeddict-item]
            )  # fmt: skip
    else:
        from google import genai
        from google.genai import types

        config = types.GenerateContentConfig(
            system_instruction=system, response_mime_type="application/json", temperature=0,
            response_json_schema=dict(form.schema), max_output_tokens=request.max_tokens,
        )  # fmt: skip
        options = types.HttpOptions(base_url=server.url.removesuffix("/v1"), api_version="v1")
        with genai.Client(api_key=KEY, http_options=options) as google:
            google.models.generate_content(model="m", contents=user, config=config)
    theirs = server.native[1]
    for body in (ours, theirs):
        body.get("systemInstruction", {}).pop("role", None)
    assert ours == theirs


def test_no_error_of_a_call_is_a_stranger(name: str, server: NativeServer) -> None:
    """A body of the other wires is a failed call, not a traceback."""
    odd: list[dict[str, Any]] = [{}, {"content": {}}, {"candidates": [3]}, {"candidates": []}]
    for body in odd:
        server.script(Canned(200, {}, json.dumps(body)))
        with pytest.raises(RefusedError, match="without an answer"):
            complete(create_backend(f"{name}/m", Options(base_url=server.url)))
    for content in (
        {"content": [5], "candidates": [{"content": 4}], "output": [5]},
        {"content": [], "candidates": [{}], "output": []},
    ):
        server.script(Canned(200, {}, json.dumps(content)))
        assert complete(create_backend(f"{name}/m", Options(base_url=server.url))).text == ""


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini", "decisions"])
def test_a_verdict_names_its_request(wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server calls a request stands in its call's record; an answer from the cache has no such name."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    kinds: dict[str, type[ChatServer]] = {**SERVERS, "openai": ChatServer, "decisions": DecisionServer}
    with kinds[wire]() as server:
        more: Any = {"mode": "decision"} if wire == "decisions" else {}
        options = Options(base_url=server.url, params={"dialect": "vllm"} if more else {})
        names = []
        for cache in (tmp_path / "c", tmp_path / "c", tmp_path / "d"):
            with Evaluator(f"{wire}/m", cache=cache, options=options, **more) as evaluator:
                run = evaluator.evaluate(TRACES[0], out=tmp_path / "runs")
            names.append({call.request_id for each in run.results for call in each.judgment.calls})
        assert names[1] == {""}
        assert all(number.startswith("req_") for number in names[0] | names[2])
        assert not names[0] & names[2]
        assert b"request_id" not in b"".join(path.read_bytes() for path in (tmp_path / "c").glob("cache.db*"))
