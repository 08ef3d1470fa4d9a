"""OpenAI's Responses: what is asked, what is read, and how a model is found that is answered by it alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import Response

from judge_eval import Chunk, EvalRun, Evaluator, Trace
from judge_eval.errors import ConfigError, DeniedError, FilteredError, RefusedError, TransientError
from judge_eval.llm.http.text_server import FORMS, TextServer
from judge_eval.llm.options import LOGPROBS, Options
from judge_eval.llm.stack import create_backend
from judge_eval.wire import Message, Request
from tests.support.canned import Canned
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.own_wires import ResponsesAlone, ResponsesServer
from tests.support.requests import SmallForm, ask, complete

KEY = "key-of-nobody-0123456789"
TRACES = [
    Trace(
        id=f"q{n}", query="When?", reference="at nine",
        chunks=[Chunk(id=f"c{k}", text=f"At nine {n}{k}.") for k in range(3)],
    )
    for n in range(4)
]  # fmt: skip


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    FORMS.clear()


def backend(server: ResponsesServer, model: str = "openai-responses/m", **options: Any) -> TextServer:
    """Make the backend of a model."""
    made = create_backend(model, Options(base_url=server.url, **options))
    assert isinstance(made, TextServer)
    return made


def judged(server: ChatServer, model: str, cache: Path | bool = False, **options: Any) -> EvalRun:
    """Judge the traces."""
    with Evaluator(model, cache=cache, options=Options(base_url=server.url, **options)) as evaluator:
        return evaluator.evaluate(TRACES)


def response(*output: dict[str, Any], **fields: Any) -> Canned:
    """Write a reply with these items, as the vendor's types have it."""
    record = {
        "id": "resp_1", "object": "response", "created_at": 1750000000, "model": "m-1", "status": "completed",
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "output": list(output),
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": None, "top_p": None, **fields,
    }  # fmt: skip
    return Canned(200, {}, json.dumps(Response.model_validate(record, strict=True).to_dict(mode="json")))


def message(*content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Write a message of the model."""
    usual = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**usual, "content": list(content), **fields}


def text(words: str) -> dict[str, Any]:
    """Write a part of text."""
    return {"type": "output_text", "text": words, "annotations": []}


class Repairing(SmallForm):
    """A form whose requests show what the model said before."""

    def render(self, request: Request) -> tuple[Message, ...]:
        """Write a conversation."""
        return (*super().render(request), Message("assistant", "maybe"), Message("user", "Answer again."))


def test_what_is_asked() -> None:
    """Parameters of chat are those of Responses in their own places; the server stores nothing."""
    with ResponsesServer() as server:
        params = {"reasoning_effort": "low", "verbosity": "low", "temperature": None, "top_p": 0.9}
        complete(backend(server, params=params), ask(form=Repairing()))
        (body,) = server.native
    assert body["instructions"] == SmallForm().system[0]
    assert [(each["role"], each["content"]) for each in body["input"]][1:] == [
        ("assistant", "maybe"), ("user", "Answer again."),
    ]  # fmt: skip
    assert (body["reasoning"], body["max_output_tokens"], body["top_p"]) == ({"effort": "low"}, 300, 0.9)
    assert body["store"] is False
    assert body["text"]["verbosity"] == "low"
    assert body["text"]["format"] == {
        "type": "json_schema", "name": "judgment", "strict": True, "schema": SmallForm().schema,
    }  # fmt: skip
    assert not body.keys() & {"temperature", "seed", "reasoning_effort", "response_format", "messages", "stream"}


@pytest.mark.parametrize("name", ["store", "text", "input", "include", "previous_response_id"])
def test_what_the_package_sets_is_no_parameter(name: str) -> None:
    """Nobody can have replies stored, or another text put before the question."""
    with pytest.raises(ConfigError, match=f"'{name}' is set by the package"):
        create_backend("openai-responses/m", Options(params={name: True}))


def test_a_reasoning_object_keeps_what_else_it_says() -> None:
    """The effort stands beside other settings of reasoning."""
    with ResponsesServer() as server:
        complete(backend(server, params={"reasoning": {"summary": "auto"}, "reasoning_effort": "high"}))
        assert server.native[0]["reasoning"] == {"summary": "auto", "effort": "high"}


def test_json_without_a_schema_is_asked_for_in_a_message() -> None:
    """OpenAI declines `json_object` if no message says JSON, whatever the instructions say."""
    with ResponsesServer() as server:
        complete(backend(server, unsupported=("strict", "json_schema")))
        (body,) = server.native
    assert body["text"]["format"] == {"type": "json_object"}
    assert "JSON schema" in body["input"][0]["content"]
    assert "JSON schema" not in body["instructions"]


def test_confidence_of_a_verdict() -> None:
    """Log-probabilities are included in the reply, and make the confidence of each verdict."""
    with ResponsesServer() as server:
        run = judged(server, "openai-responses/m", params=LOGPROBS)
        body = server.native[0]
    assert body["include"] == ["message.output_text.logprobs"]
    assert body["top_logprobs"] == 5
    assert "logprobs" not in body
    assert all(outcome.confidence is not None for each in run.results for outcome in each.outcomes)


@pytest.mark.parametrize(
    "words",
    [
        "logprobs are not supported with reasoning models.",
        "Unsupported parameter: 'top_logprobs' is not supported with this model.",
        "Unsupported value: 'include' does not support 'message.output_text.logprobs' with this model.",
    ],
)
def test_a_model_without_logprobs_is_judged_by(words: str) -> None:
    """A model that declines log-probabilities, in whatever words, gives verdicts without a confidence."""

    class Picky(ResponsesServer):
        """A server that declines log-probabilities."""

        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            """Decline what asks for them."""
            if b"logprobs" in raw:
                return Canned(400, {}, json.dumps({"error": {"message": words, "param": "include"}}))
            return super().answer(raw, headers)

    with Picky() as server:
        run = judged(server, "openai-responses/m", params=LOGPROBS)
    assert {outcome.kind for each in run.results for outcome in each.outcomes} == {"verdict"}
    assert run.manifest.tally.failed_verdicts == 0


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I think."}]}


@pytest.mark.parametrize(
    ("canned", "finish", "words"),
    [
        (response(message(text("{}"))), "stop", "{}"),
        (response(message(text("draft"), phase="commentary"), message(text("{}"), phase="final_answer")), "stop", "{}"),
        (response(message(text('{"a"'), text(": 1}"))), "stop", '{"a": 1}'),
        (response(REASONING, message(text("{}"))), "stop", "{}"),
        (response(message({"type": "refusal", "refusal": "I can't."})), "refusal", "I can't."),
        (
            response(
                message(text('{"a'), status="incomplete"),
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
            ),
            "length",
            '{"a',
        ),
        (response(REASONING, status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "length", ""),
        (response(REASONING, status="incomplete", incomplete_details=None), "length", ""),
        (response(status="incomplete", incomplete_details={"reason": "content_filter"}), "filter", ""),
        (response(), "stop", ""),
    ],
)
def test_what_is_read(canned: Canned, finish: str, words: str) -> None:
    """The answer alone is the text; why a reply has ended is told apart, and thoughts are seen."""
    with ResponsesServer() as server:
        server.script(canned)
        done = complete(backend(server))
    assert (done.finish, done.text) == (finish, words)
    assert done.reasoned == ("I think." in canned.body)


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "broken"}}, TransientError, "broken"),
        ({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}}, TransientError, "slow"),
        ({"status": "failed", "error": {"code": "invalid_prompt", "message": "flagged"}}, FilteredError, "flagged"),
        ({"status": "failed", "error": {"code": "bio_policy", "message": "no"}}, FilteredError, "no"),
        ({"status": "failed"}, RefusedError, "without an answer"),
        ({"status": "queued"}, RefusedError, "without an answer"),
        ({"status": "cancelled"}, RefusedError, "without an answer"),
    ],
)
def test_a_response_that_failed_is_no_verdict(fields: dict[str, Any], kind: type, words: str) -> None:
    """With HTTP 200 a reply may have failed: it is tried again if that may pass, and never read."""
    with ResponsesServer() as server:
        server.script(response(message(text('{"verdict": true}')), **fields))
        with pytest.raises(kind, match=words):
            complete(backend(server))


@pytest.mark.parametrize(
    "body",
    [
        "{}", '{"output": 3}', '{"output": [3]}', '{"output": [{"type": "message"}]}', '{"output": null}',
        '{"output": [{"type": "message", "content": [{"type": "output_text", "text": 3}]}]}',
        '{"output": [{"type": "message", "content": [{"type": "output_text", "text": "x", "logprobs": 3}]}]}',
        '{"output": [{"type": "reasoning", "summary": [3], "content": "x"}], "usage": 3, "model": 7}',
        '{"output": [], "status": 7, "incomplete_details": [1]}',
    ],
)  # fmt: skip
def test_odd_replies_are_failed_calls(body: str) -> None:
    """Whatever a server writes ends in a completion without a verdict, or in a failed call."""
    with ResponsesServer() as server:
        server.script(Canned(200, {}, body))
        try:
            done = complete(backend(server))
        except RefusedError:
            return
    assert done.text in ("", "x")


def test_a_stream_is_read() -> None:
    """A gateway that streams whatever it is asked is read by its last event."""
    whole = json.loads(response(message(text('{"verdict": true}'))).body)
    begun = {**whole, "status": "in_progress", "output": []}
    events = [("response.created", begun), ("response.output_text.delta", None), ("response.completed", whole)]
    lines = [
        f"event: {kind}\ndata: {json.dumps({'type': kind, **({'response': value} if value else {})})}\n\n"
        for kind, value in events
    ]
    with ResponsesServer() as server:
        server.script(Canned(200, {"content-type": "text/event-stream"}, "".join(lines)))
        assert complete(backend(server)).text == '{"verdict": true}'
        server.script(Canned(200, {"content-type": "text/event-stream"}, lines[0]))
        with pytest.raises(RefusedError):
            complete(backend(server))


ALONE = [
    (404, "This model is only supported in v1/responses and not in v1/chat/completions."),
    (404, "This is not a chat model and thus not supported in the v1/chat/completions endpoint. "
     "Did you mean to use v1/completions?"),
    (400, "The chatCompletion operation does not work with the specified model, d1. Please choose different model "
     "and try again. You can learn more about which models can be used with each operation here: https://x"),
    (400, "Unsupported legacy protocol: /v1/chat/completions is not supported. Please use /v1/responses."),
]  # fmt: skip
"""How servers say that they answer a model by Responses alone."""


@pytest.mark.parametrize(("status", "words"), ALONE)
def test_a_model_that_is_answered_by_responses_alone(tmp_path: Path, status: int, words: str) -> None:
    """It is found once for all calls, is remembered, and its verdicts are those of the other name."""
    with ResponsesAlone() as server:
        server.status, server.words = status, words
        run = judged(server, "openai/m", tmp_path / "cache", concurrency=1)
        assert run.manifest.tally.failed_verdicts == 0
        assert run.manifest.tally.dropped == ("chat_completions",)
        assert server.counts["declined"] == 2  # a call, and the package's own question
        named = judged(server, "openai-responses/m")
        with Evaluator("openai/m", cache=tmp_path / "cache", options=Options(base_url=server.url)) as evaluator:
            evaluator.evaluate(Trace(id="new", query="When?", reference="nine", chunks=["At nine, too."]))
        assert server.counts["declined"] == 2
    ours, theirs = (
        [o.model_dump(exclude={"digest"}) for r in each.results for o in r.outcomes] for each in (run, named)
    )
    assert ours == theirs
    assert named.manifest.tally.dropped == ("seed",)


def test_objections_on_the_other_route_are_negotiated_too() -> None:
    """What the model declines on Responses is found in the same negotiation."""

    class Reasoning(ResponsesAlone):
        """A server of a model that takes no temperature."""

        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            """Decline a temperature."""
            if headers[":path"].endswith("/responses") and b'"temperature"' in raw:
                words = "Unsupported parameter: 'temperature' is not supported with this model."
                return Canned(400, {}, json.dumps({"error": {"message": words, "param": "temperature"}}))
            return super().answer(raw, headers)

    with Reasoning() as server:
        run = judged(server, "openai/m")
    assert run.manifest.tally.dropped == ("chat_completions", "temperature")
    assert run.manifest.tally.failed_verdicts == 0


def test_a_server_without_either_route_is_said() -> None:
    """If Responses does not answer either, both answers are told, and nothing more is sent."""
    with ChatServer() as server:
        server.script(*[Canned(404, {}, json.dumps({"error": {"message": ALONE[0][1]}}))] * 2)
        made = create_backend("openai/m", Options(base_url=server.url))
        with pytest.raises(DeniedError, match=r"only supported in v1/responses.*Invalid URL \(POST /v1/responses\)"):
            complete(made)
        assert server.counts["calls"] == 2


def test_the_key_of_the_cache_names_the_route(tmp_path: Path) -> None:
    """Answers of one route are none of the other's where a model is answered by both."""

    class Both(ResponsesServer):
        """A server of both routes."""

        path = ""

        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            """Answer by the route that is asked."""
            if headers[":path"].endswith("/responses"):
                return super().answer(raw, headers)
            return ChatServer.answer(self, raw, headers)

    with Both() as server:
        for model, options, calls in (
            ("openai/m", {}, 12), ("openai-responses/m", {}, 12),
            ("openai/m", {"unsupported": ("chat_completions",)}, 12), ("openai/m", {}, 0),
            ("openai-responses/m", {}, 0), ("openai/m", {"unsupported": ("chat_completions",)}, 0),
        ):  # fmt: skip
            before = server.counts["calls"]
            run = judged(server, model, tmp_path / "cache", **options)
            assert run.manifest.tally.failed_verdicts == 0
            assert server.counts["calls"] - before == calls, (model, options)


def test_azure_by_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment that is answered by Responses alone is found, with Azure's address and key."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    with ResponsesAlone() as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url.removesuffix("/v1"))
        server.status, server.words = ALONE[2]
        for model in ("azure/d1", "azure-responses/d1"):
            assert complete(create_backend(model, Options())).text
            assert server.headers[-1][":path"] == "/openai/v1/responses"
            assert server.headers[-1]["api-key"] == KEY


def test_the_base_url_of_openai_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """`OPENAI_BASE_URL` is the address of this name, too."""
    with ResponsesServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert complete(create_backend("openai-responses/m", Options())).text
        assert server.headers[0][":path"] == "/v1/responses"


def test_another_wire_has_no_chat_route() -> None:
    """What does not concern a wire is not taken for granted."""
    with pytest.raises(ConfigError, match="is not asked by Chat Completions"):
        create_backend("anthropic/m", Options(unsupported=("chat_completions",)))


def test_many_calls_at_once_negotiate_once() -> None:
    """Calls in flight wait for one negotiation and all are answered."""
    with ResponsesAlone() as server:
        made = backend(server, "openai/m")

        async def go() -> list[Any]:
            try:
                return await asyncio.gather(*(made.complete(ask(f"text {n}")) for n in range(12)))
            finally:
                await made.aclose()

        done = asyncio.run(go())
        assert len({each.dropped for each in done}) == 1
        assert server.counts["declined"] <= 13
        assert made.target.endswith("/v1/responses")
        assert dict(made.facts())["sent to"].endswith("/v1/responses")


def test_doctor_shows_what_is_called(tmp_path: Path) -> None:
    """The command names route, key and batches of the model."""
    said = Shell(tmp_path)("doctor", "--model", "openai-responses/gpt-5-pro", OPENAI_API_KEY=KEY)
    assert "POST https://api.openai.com/v1/responses" in said.out
    assert "not stored" in said.out


def test_a_model_without_responses_is_not_sent_there() -> None:
    """What a server says of the Responses route itself is no advice to use it."""
    with ResponsesServer() as server:
        words = {"error": {"message": "The model `m` is not supported in v1/responses"}}
        server.script(Canned(404, {}, json.dumps(words)))
        with pytest.raises(DeniedError, match="check the model's name"):
            complete(backend(server))
