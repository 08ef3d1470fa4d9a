"""What a server will not take is left out, once, for all calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from judge_eval.errors import DeniedError, RefusedError
from judge_eval.llm.http.capabilities import Capabilities, Objection
from judge_eval.llm.http.openai import OpenAI, create
from judge_eval.wire import Completion
from tests.support.canned import Canned, error, reply
from tests.support.chat_server import ChatServer
from tests.support.requests import SmallForm, ask


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A server and no key, which loopback does not need."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with ChatServer(latency=0.01) as server:
        yield server


def complete(backend: OpenAI, count: int = 1) -> list[Completion]:
    """Make calls at once."""

    async def go() -> list[Completion]:
        try:
            return list(await asyncio.gather(*(backend.complete(ask(f"text {n}")) for n in range(count))))
        finally:
            await backend.aclose()

    return asyncio.run(go())


FLAVOURS = {
    "openai": ((), 0),
    "vllm": ((), 0),
    "reasoning": (("temperature",), 0),
    "ollama": (("strict",), 0),
    "openrouter": (("max_completion_tokens",), 0),
    "llamacpp": (("json_schema", "max_completion_tokens", "strict"), 2),
    "gateway": (("json_object", "json_schema", "max_completion_tokens", "strict"), 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_flavours(chat: ChatServer, flavour: str) -> None:
    """64 first calls to each kind of server all succeed, record what was left out, and share the search."""
    chat.flavour = flavour
    backend = create("m", base_url=chat.url)
    dropped, more = FLAVOURS[flavour]
    assert {completion.dropped for completion in complete(backend, 64)} == {dropped}
    # Each call may hear one objection; the steps are walked by the package's own question alone.
    assert chat.counts["400"] <= (65 if dropped else 0) + more
    assert chat.counts["paid"] == 64 + bool(dropped)
    chat.reset()
    assert complete(backend)[0].dropped == dropped
    assert chat.counts["400"] == 0


OBJECTIONS = {
    "400_temperature": "temperature",
    "400_max_completion_tokens": "max_completion_tokens",
    "422_max_completion_tokens": "max_completion_tokens",
    "400_strict": "strict",
    "400_json_schema": "strict",
    "400_json_object": "strict",
    "400_grammar": "strict",
    "400_vague": "temperature",
}


@pytest.mark.parametrize("name", OBJECTIONS)
def test_one_objection_one_thing_less(chat: ChatServer, name: str) -> None:
    """An objection costs two questions of the package's own and one more request, without what was objected to."""
    chat.script(reply(name), reply(name))
    assert complete(create("m", base_url=chat.url))[0].dropped == (OBJECTIONS[name],)
    assert len(chat.calls) == 4


def test_logprobs_dropped_on_403(chat: ChatServer) -> None:
    """A model that does not permit log-probabilities is asked without."""
    chat.script(reply("403_logprobs"), reply("403_logprobs"))
    backend = create("m", base_url=chat.url, params={"logprobs": True})
    assert complete(backend)[0].dropped == ("logprobs",)
    assert ["logprobs" in body for body in chat.calls] == [True, True, False, False]


def test_a_cap_is_always_sent(chat: ChatServer) -> None:
    """A server that takes neither cap is not asked without one: no call can succeed."""
    declined = [reply("400_max_completion_tokens"), error(400, "Unknown parameter: 'max_tokens'.", param="max_tokens")]
    chat.script(*declined, *declined[1:] * 20)
    with pytest.raises(DeniedError, match="no form of a request is taken"):
        complete(create("m", base_url=chat.url))
    assert all({"max_completion_tokens", "max_tokens"} & body.keys() for body in chat.calls)


def test_body_as_sent(chat: ChatServer) -> None:
    """The first request asks for everything: strict schema, cap, temperature 0, one system message."""
    complete(create("some-model", base_url=chat.url, params={"top_p": 0.5}))
    body = chat.calls[0]
    assert body["model"] == "some-model"
    assert body["temperature"] == 0
    assert body["top_p"] == 0.5
    assert body["max_completion_tokens"] == 300
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["response_format"]["json_schema"]["schema"] == ask().form.schema
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


def test_contract_in_words(chat: ChatServer) -> None:
    """Without a schema the contract is told in the one system message, the same way every time."""
    chat.flavour = "gateway"
    backend = create("m", base_url=chat.url)
    complete(backend, 2)
    first, second = chat.calls[-2]["messages"], chat.calls[-1]["messages"]
    assert first[0] == second[0]
    assert '"additionalProperties":false' in first[0]["content"]


def test_one_system_message(chat: ChatServer) -> None:
    """Several system texts become one message, and none stays none unless a contract is needed."""
    backend = create("m", base_url=chat.url)

    async def go() -> None:
        await backend.complete(ask(form=SmallForm(system=("One.", "Two."))))
        await backend.complete(ask(form=SmallForm(system=())))
        await backend.aclose()

    asyncio.run(go())
    assert chat.calls[0]["messages"][0] == {"role": "system", "content": "One.\n\nTwo."}
    assert [message["role"] for message in chat.calls[1]["messages"]] == ["user"]


def test_vague_objection_after_success(chat: ChatServer) -> None:
    """A server that has taken such requests objects to this one: nothing is left out from then on."""
    backend = create("m", base_url=chat.url)
    complete(backend)
    chat.script(reply("400_vague"))
    with pytest.raises(RefusedError):
        complete(backend)
    assert backend.capabilities == Capabilities()


def test_always_vague(chat: ChatServer) -> None:
    """A server that declines everything without a reason is tried in all forms once, not at every call."""
    chat.script(*[reply("400_vague")] * 99)
    backend = create("m", base_url=chat.url)
    for _ in range(3):
        with pytest.raises(DeniedError, match="no form of a request is taken: 7 were tried"):
            complete(backend)
    assert len(chat.calls) == 1 + 7 + 2
    assert backend.capabilities == Capabilities()


@pytest.mark.parametrize(
    ("message", "param", "dropped"),
    [
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature", "temperature"),
        ("temperature: Extra inputs are not permitted", "", "temperature"),
        ("This model does not support logprobs.", "", "logprobs"),
        ("unknown field `seed`", "", "seed"),
        ('json: unknown field "strict"', "", "strict"),
        ("Invalid 'temperature': must be at most 2", "temperature", None),
        ("max_tokens is too large: 100000", "max_tokens", None),
        ("messages: at least one is needed", "messages", None),
    ],
)
def test_whom_an_objection_blames(message: str, param: str, dropped: str | None) -> None:
    """Only what the server does not know or take is left out; a value out of range is the caller's affair."""
    after = Capabilities().after(Objection(message, "", param), ("temperature", "logprobs", "seed"))
    assert (after.dropped if after else None) == ((dropped,) if dropped else None)


ONE_CHUNK = (
    error(400, "response_format json_schema is not supported", param="response_format"),
    error(400, "Unsupported parameter: 'temperature' is not supported with this model.", param="temperature"),
)


@pytest.mark.parametrize("objection", ONE_CHUNK)
def test_an_accepted_form_is_not_to_blame(chat: ChatServer, objection: Canned) -> None:
    """Once a form was answered, a request that is declined in it is refused for itself, in one request."""
    backend = create("m", base_url=chat.url)
    complete(backend)
    chat.script(objection)
    with pytest.raises(RefusedError, match="not supported"):
        complete(backend)
    assert complete(backend)[0].dropped == ()
    assert backend.capabilities == Capabilities()
    assert len(chat.calls) == 3


def test_another_form_is_learned_after_a_success(chat: ChatServer) -> None:
    """Acceptance concerns the form of reply that was accepted: one of another schema is still learned."""
    backend = create("m", base_url=chat.url)
    complete(backend)
    other = ask(form=SmallForm(listwise=True))
    chat.script(*[error(400, "response_format strict is not supported", param="response_format")] * 2)

    async def go() -> list[Completion]:
        try:
            return [await backend.complete(other), await backend.complete(other)]
        finally:
            await backend.aclose()

    assert [completion.dropped for completion in asyncio.run(go())] == [("strict",)] * 2
    assert len(chat.calls) == 1 + 5
