"""A form that the server takes is found with a question of the package's own, whatever the server's words."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, Trace
from judge_eval.errors import DeniedError, RefusedError, RequestTooLargeError
from judge_eval.llm.http.openai import OpenAI, create
from judge_eval.llm.http.text_server import FILE, FORMS, QUESTION
from judge_eval.llm.options import LOGPROBS, Options
from judge_eval.llm.retry import Retried
from judge_eval.wire import Completion
from tests.support.canned import Canned, error
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.requests import SmallForm, ask
from tests.support.requests import complete as complete_one

Takes = Callable[[Mapping[str, Any]], bool]


class Stubborn(ChatServer):
    """A server that declines, with its own words, each body that one of its conditions does not take."""

    def __init__(self, *conditions: tuple[Takes, Callable[[], str]]) -> None:
        super().__init__()
        self.conditions = conditions

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decline by the first condition that is not met."""
        canned = super().answer(raw, headers)
        for takes, words in self.conditions:
            if not takes(self.calls[-1]):
                return error(400, words())
        return canned


def form(body: Mapping[str, Any]) -> str:
    """Return how a body asks for the form of the reply."""
    asked = body.get("response_format", {})
    return "strict" if asked.get("json_schema", {}).get("strict") else asked.get("type", "prompt")


CONDITIONS: dict[str, Takes] = {
    "no temperature": lambda body: "temperature" not in body,
    "temperature 1 or none": lambda body: body.get("temperature", 1) == 1,
    "temperature 1": lambda body: body.get("temperature") == 1,
    "max_tokens": lambda body: "max_completion_tokens" not in body,
    "no logprobs": lambda body: not {"logprobs", "top_logprobs"} & body.keys(),
    "json_schema": lambda body: form(body) not in ("strict",),
    "json_object": lambda body: form(body) not in ("strict", "json_schema"),
    "prompt": lambda body: form(body) == "prompt",
}
FACTS = [
    ("no temperature", "Unsupported value: 'temperature' does not support 0 with this model. "
     "Only the default (1) value is supported."),
    ("no temperature", "`temperature` is deprecated for this model."),
    ("no temperature", 'litellm.BadRequestError: BedrockException - {"message":"The model returned '
     'the following errors: {\\"type\\":\\"error\\",\\"error\\":{\\"type\\":\\"invalid_request_error\\",'
     '\\"message\\":\\"`temperature` is deprecated for this model.\\"}}"}'),
    ("temperature 1 or none", "`temperature` may only be set to 1 when thinking is enabled or in "
     "adaptive mode."),
    ("temperature 1", "invalid temperature: only 1 is allowed for this model"),
    ("json_object", "This response_format type is unavailable now"),
    ("max_tokens", 'Invalid JSON payload received. Unknown name "max_completion_tokens": Cannot find field.'),
    ("no logprobs", "Logprobs is not enabled for models/gemini-2.5-pro."),
    ("no temperature", "temperature: Extra inputs are not permitted"),
    ("json_object", "Unrecognized request argument supplied: json_schema"),
    ("json_object", "response_format value as json_schema is enabled only for api versions "
     "2024-08-01-preview and later"),
]  # fmt: skip
"""What a server took, and the published text with which it declined the rest."""


@pytest.fixture(autouse=True)
def _without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def complete(backend: OpenAI, count: int = 12) -> list[Completion | BaseException]:
    """Make calls at once."""

    async def go() -> list[Completion | BaseException]:
        try:
            calls = (backend.complete(ask(f"text {n}")) for n in range(count))
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            await backend.aclose()

    return asyncio.run(go())


def asks_own(body: Mapping[str, Any]) -> bool:
    """Whether a body asks the package's own question."""
    return QUESTION in json.dumps(body["messages"])


def judged(server: Stubborn, count: int = 12, **options: Any) -> tuple[str, ...]:
    """Make calls, all of which must be answered after one negotiation; return what was left out."""
    with server:
        backend = create("m", base_url=server.url, **options)
        completions = complete(backend, count)
        assert not [each for each in completions if isinstance(each, BaseException)]
        assert sum(map(asks_own, server.calls)) <= 8
        assert len(server.calls) <= 8 + 2 * count
        assert server.counts["paid"] == count + any(map(asks_own, server.calls))
        assert all({"max_completion_tokens", "max_tokens"} & body.keys() for body in server.calls)
        (dropped,) = {each.dropped for each in completions if isinstance(each, Completion)}
        return dropped


@pytest.mark.parametrize(("takes", "words"), FACTS)
def test_published_objections(takes: str, words: str) -> None:
    """Each ends in a form that the server takes, with nothing else left out."""
    dropped = judged(Stubborn((CONDITIONS[takes], lambda: words)), params=LOGPROBS)
    wanted = {
        "no temperature": ("temperature",),
        "temperature 1 or none": ("temperature_except_1",),
        "temperature 1": ("temperature_except_1",),
        "max_tokens": ("max_completion_tokens",),
        "no logprobs": ("logprobs",),
        "json_object": ("json_schema", "strict"),
    }
    assert dropped == wanted[takes]


def test_a_server_that_takes_the_full_form_gets_no_more() -> None:
    """Its answers cost one request each, and nothing is asked but what the user asks."""
    with Stubborn() as server:
        complete(create("m", base_url=server.url))
        assert [len(server.calls), sum(map(asks_own, server.calls))] == [12, 0]


def test_no_text_of_the_user_is_in_the_question() -> None:
    """Neither chunk, question nor prompt is sent while a form is sought, and the schema is that of the request."""
    with Stubborn((CONDITIONS["json_object"], lambda: "florb")) as server:
        complete(create("m", base_url=server.url), 1)
        asked = [json.dumps(body) for body in server.calls if asks_own(body)]
        assert asked
        for text in (ask().query, "text 0", ask().form.render(ask())[0].content[:40]):
            assert not any(text in body for body in asked)


def test_the_question_is_counted() -> None:
    """The tokens of the package's own question stand among those of the next answer, once."""
    with Stubborn() as plain:
        (usual, _) = complete(create("m", base_url=plain.url), 2)
    with Stubborn((CONDITIONS["no temperature"], lambda: "florb")) as server:
        completions = complete(create("m", base_url=server.url), 2)
    assert isinstance(usual, Completion)
    usages = sorted(each.usage.input_tokens for each in completions if isinstance(each, Completion))
    assert usages[0] == usual.usage.input_tokens < usages[1]


def nonsense(seed: int) -> tuple[list[str], Callable[[], str]]:
    """Draw what a server does not take, and what it says: words of no language, always the same or not."""
    draw = random.Random(seed)
    missing = draw.sample([name for name in CONDITIONS if name != "temperature 1"], draw.choice([1, 1, 2, 3]))
    steady = draw.random() < 0.6

    def words() -> str:
        letters = random.Random(seed) if steady else draw
        return " ".join("".join(letters.choices("bcdfglmnoprstuvaei", k=6)) for _ in range(7))

    return missing, words


@pytest.mark.parametrize("seed", range(20))
def test_unknown_wordings(seed: int) -> None:
    """Whatever the server says, and whatever it does not take, a working form is found in at most 8 questions."""
    missing, words = nonsense(seed)
    server = Stubborn(*((CONDITIONS[name], words) for name in missing))
    judged(server, params=LOGPROBS if seed % 2 else {})


@pytest.mark.parametrize("takes", CONDITIONS)
def test_one_unknown_wording_costs_little(takes: str) -> None:
    """A single thing that a server does not take is found by order, and most of the rest is still sent."""
    if takes == "temperature 1":
        return  # a temperature is left out before it is sent as 1, which this server does not take
    dropped = judged(Stubborn((CONDITIONS[takes], lambda: "florb")), params=LOGPROBS)
    assert not {"temperature", "max_completion_tokens"} <= set(dropped)


@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize(
    "words", ["I do not like Mondays", "`temperature` is deprecated", ""], ids=["odd", "known", "new"]
)
def test_a_server_that_takes_nothing_gets_eight_questions(count: int, words: str) -> None:
    """However many callers there are; every call fails with the server's own words."""
    draw = random.Random(1)
    with Stubborn((lambda _: False, lambda: words or f"florb {draw.random()}")) as server:
        backend = create("m", base_url=server.url)
        failures = complete(backend, count) + complete(backend, 3)
        assert all(isinstance(each, DeniedError) for each in failures)
        assert all(words in str(each) for each in failures)
        assert sum(map(asks_own, server.calls)) <= 8


def policy(status: int, words: str) -> type[Stubborn]:
    """Make a server that declines each text of the trace q0."""

    class Declining(Stubborn):
        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            canned = super().answer(raw, headers)
            return error(status, words) if b"At nine 0." in raw or b"Rain 0." in raw else canned

    return Declining


@pytest.mark.parametrize("concurrency", [1, 8, 256])
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "This request was blocked by our policy."),
        (422, "json_schema response_format is not supported for this content"),
    ],
)
def test_a_text_that_is_declined_stops_no_run(tmp_path: Path, concurrency: int, status: int, words: str) -> None:
    """20 traces of 2 chunks whose first trace is declined: 38 verdicts, the server's words, and one question more."""
    with policy(status, words)() as server:
        options = Options(base_url=server.url, concurrency=concurrency)
        asked = [
            Trace(id=f"q{n}", query="When?", reference="nine", chunks=[f"At nine {n}.", f"Rain {n}."])
            for n in range(20)
        ]
        with Evaluator("openai/m", cache=tmp_path, options=options) as evaluator:
            run = evaluator.evaluate(asked)
        assert [run.manifest.tally.failed_verdicts, run.manifest.tally.calls] == [2, 38]
        assert all(words in str(each.detail) for each in run.results[0].outcomes)  # type: ignore[union-attr]
        assert sum(map(asks_own, server.calls)) <= 1
        assert not [call.dropped for result in run.results for call in result.calls if call.dropped]


TOO_LONG = [
    (400, "the request exceeds the available context size, try increasing it"),
    (400, "This model's maximum context length is 4096 tokens. However, your prompt contains 5000 tokens."),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (400, "the input length exceeds the context length"),
    (500, "prompt too long; exceeded max context length by 904 tokens"),
    (400, "Trying to keep the first 5000 tokens when context overflows. However, the model is loaded with context "
     "length of only 4096 tokens, which is not enough."),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"),
    (422, "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"),
    (400, "The input token count (5000) exceeds the maximum number of tokens allowed (4096)."),
]  # fmt: skip
"""What llama.cpp, vLLM, Ollama, LM Studio, TGI and Gemini say of a prompt that is too long."""


@pytest.mark.parametrize(("status", "words"), TOO_LONG)
def test_a_text_that_is_too_long_is_no_objection_to_the_form(status: int, words: str) -> None:
    """One request, a reason that names the length, and nothing is left out for others."""
    with Stubborn() as server:
        server.script(error(status, words))
        backend = create("m", base_url=server.url)
        (failure,) = complete(backend, 1)
        assert isinstance(failure, RequestTooLargeError)
        assert "too long" in failure.detail
        assert words[:20] in failure.detail
        assert len(server.calls) == 1
        assert backend.capabilities.dropped == ()


def test_the_type_of_llama_cpp_says_that_a_text_is_too_long() -> None:
    """The server's type of error is enough, whatever its message."""
    with Stubborn() as server:
        server.script(Canned(400, {}, {"error": {"code": 400, "message": "no", "type": "exceed_context_size_error"}}))
        (failure,) = complete(create("m", base_url=server.url), 1)
        assert isinstance(failure, RequestTooLargeError)
        assert len(server.calls) == 1


def test_not_implemented_is_final() -> None:
    """HTTP 501 is not repeated, and ends a run that has no answer."""
    with Stubborn() as server:
        server.script(*[error(501, "chat is not implemented here")] * 9)
        with pytest.raises(
            DeniedError, match=r"501.*not implemented here .the server does not do this, or not with this model"
        ):
            complete_one(Retried(create("m", base_url=server.url)))
        assert len(server.calls) == 1


def test_forms_are_learned_side_by_side() -> None:
    """Two forms of reply that are declined at once end in a form that the server takes for both."""
    requests = [ask(f"text {n}", form=SmallForm(listwise=bool(n % 2))) for n in range(12)]

    async def go(backend: OpenAI) -> list[Completion]:
        try:
            return list(await asyncio.gather(*map(backend.complete, requests)))
        finally:
            await backend.aclose()

    one: Takes = lambda body: "verdicts" in json.dumps(body) or form(body) != "strict"  # noqa: E731
    many: Takes = lambda body: "verdicts" not in json.dumps(body) or form(body) == "json_object"  # noqa: E731
    with Stubborn((one, lambda: "response_format"), (many, lambda: "response_format is not supported")) as server:
        backend = create("m", base_url=server.url)
        assert len(asyncio.run(go(backend))) == 12
        assert backend.capabilities.mode == "json_object"


def test_a_value_out_of_range_is_the_callers() -> None:
    """What the user set is not left out because it is too great: the error says so at once."""
    words = "Invalid 'seed': must be at most 2"
    with Stubborn((lambda body: body.get("seed", 0) <= 2, lambda: words)) as server:
        (failure,) = complete(create("m", base_url=server.url, params={"seed": 3}), 1)
        assert isinstance(failure, RefusedError)
        assert server.counts["400"] == 1


def test_what_was_negotiated_is_remembered(tmp_path: Path) -> None:
    """Another backend of the process starts with it, and another process with the file beside the cache."""
    with Stubborn((CONDITIONS["no temperature"], lambda: "florb")) as server:
        first = create("m", base_url=server.url)
        first.remember_in(tmp_path)
        complete(first, 2)
        declined = server.counts["400"]
        assert declined <= 3
        complete(create("m", base_url=server.url), 2)
        assert server.counts["400"] == declined
        FORMS.clear()
        later = create("m", base_url=server.url)
        later.remember_in(tmp_path)
        complete(later, 2)
        assert server.counts["400"] == declined
        ((name, entry),) = json.loads((tmp_path / FILE).read_text()).items()
        assert entry["unsupported"] == ["temperature"]
        FORMS.clear()
        entry["date"] = "2020-01-01"
        (tmp_path / FILE).write_text(json.dumps({name: entry}))
        old = create("m", base_url=server.url)
        old.remember_in(tmp_path)
        assert old.capabilities.dropped == ()


def test_what_was_left_out_tells_answers_apart(tmp_path: Path) -> None:
    """An answer without the temperature is one to the same request until the server is known to take it."""
    options = Options(attempts=1)

    def calls(*numbers: int, **more: Any) -> int | None:
        FORMS.clear()
        (tmp_path / FILE).unlink(missing_ok=True)
        asked = [Trace(id=f"q{n}", query="When?", reference="nine", chunks=[f"At nine {n}."]) for n in numbers]
        settings = replace(options, base_url=server.url, **more)
        with Evaluator("openai/m", cache=tmp_path, options=settings) as evaluator:
            run = evaluator.evaluate(asked)
        assert run.manifest.tally.failed_verdicts == 0
        return run.manifest.tally.calls

    with Stubborn((CONDITIONS["no temperature"], lambda: "florb")) as server:
        assert calls(1, 2, 3) == 3
        assert calls(1, 2, 3) == 0
        assert calls(1, 2, 3, unsupported=("temperature",)) == 3  # asked for without one
        assert calls(1, 2, 3, params={"temperature": None}) == 0  # which is the same
        server.conditions = ()
        assert calls(1, 2, 3) == 0  # nothing shows that the server has learned
        assert calls(4) == 1
        first = Trace(id="q5", query="When?", reference="nine", chunks=["At nine 5."])
        with Evaluator("openai/m", cache=tmp_path, options=replace(options, base_url=server.url)) as evaluator:
            assert evaluator.evaluate(first).manifest.tally.calls == 1  # it takes a temperature
            again = Trace(id="q1", query="When?", reference="nine", chunks=["At nine 1."])
            assert evaluator.evaluate(again).manifest.tally.calls == 1
            assert evaluator.evaluate(again).manifest.tally.calls == 0


@pytest.mark.parametrize("text", ["", "[]", '{"x": 1}', "\x00", '{"URL m": {"unsupported": 7, "date": []}}'])
def test_an_odd_file_says_nothing(tmp_path: Path, text: str) -> None:
    """Whatever stands in the file, the server is asked for everything."""
    (tmp_path / FILE).write_text(text.replace("URL", "http://127.0.0.1:9/v1"))
    backend = create("m", base_url="http://127.0.0.1:9/v1")
    backend.remember_in(tmp_path)
    assert backend.capabilities.dropped == ()


def traces(folder: Path) -> Path:
    """Write twelve traces of two chunks."""
    path = folder / "t.jsonl"
    lines = [
        {"id": f"q{n}", "query": "When?", "reference": "nine", "chunks": [f"At nine {n}.", f"Rain {n}."]}
        for n in range(12)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_command_stops_with_the_servers_words(tmp_path: Path) -> None:
    """Exit code 2, the words, and not a request for every verdict."""
    with Stubborn((lambda _: False, lambda: "I do not like Mondays")) as server:
        result = Shell(tmp_path)("run", traces(tmp_path), "--model", "openai/m", "--base-url", server.url)
        assert result.code == 2
        assert "I do not like Mondays" in result.err
        assert sum(map(asks_own, server.calls)) <= 8


@pytest.mark.slow
def test_unsupported_is_stated_in_advance(tmp_path: Path) -> None:
    """By a flag or in a judge file: it is never sent, and the manifest says so."""
    with Stubborn() as server:
        run = Shell(tmp_path)
        common = ("--base-url", server.url, "--cache", "none", "--out", "runs")
        result = run("run", traces(tmp_path), "--model", "openai/m", "--unsupported", "temperature", *common)
        assert result.code == 0, result.err
        assert "temperature" not in server.calls[0]
        assert "temperature" in result.out + result.err
        (tmp_path / "j.toml").write_text('model = "openai/m"\nunsupported = ["strict", "temperature"]\n')
        server.reset()
        result = run("run", traces(tmp_path), "--judge", "j.toml", *common)
        assert result.code == 0, result.err
        assert "temperature" not in server.calls[0]
        assert form(server.calls[0]) == "json_schema"
        manifest = max((tmp_path / "runs").glob("*/manifest.json"), key=lambda path: path.stat().st_mtime)
        assert json.loads(manifest.read_text())["tally"]["dropped"] == ["strict", "temperature"]
        result = run("run", traces(tmp_path), "--model", "openai/m", "--unsupported", "temprature", *common)
        assert result.code == 2
        assert "did you mean 'temperature'" in result.err
