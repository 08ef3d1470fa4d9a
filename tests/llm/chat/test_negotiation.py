"""Before the first answer a form that the server takes is found, whatever its words."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from judge_eval import Evaluator, Trace
from judge_eval.errors import CallError, DeniedError, FatalCallError, RefusedError
from judge_eval.llm.http.openai import OpenAI, create
from judge_eval.llm.http.text_server import FILE, forget_forms
from judge_eval.llm.options import LOGPROBS, Options
from judge_eval.wire import Completion
from tests.support.canned import Canned, error, reply
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.requests import ask

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
    if "tools" in body:
        return "tool"
    asked = body.get("response_format", {})
    return "strict" if asked.get("json_schema", {}).get("strict") else asked.get("type", "prompt")


CONDITIONS: dict[str, Takes] = {
    "no temperature": lambda body: "temperature" not in body,
    "temperature 1 or none": lambda body: body.get("temperature", 1) == 1,
    "temperature 1": lambda body: body.get("temperature") == 1,
    "max_tokens": lambda body: "max_completion_tokens" not in body,
    "no cap": lambda body: not {"max_completion_tokens", "max_tokens"} & body.keys(),
    "no logprobs": lambda body: not {"logprobs", "top_logprobs"} & body.keys(),
    "json_schema": lambda body: form(body) not in ("strict",),
    "json_object": lambda body: form(body) not in ("strict", "json_schema"),
    "tool": lambda body: form(body) in ("tool", "prompt"),
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


def judged(server: Stubborn, count: int = 12, **options: Any) -> tuple[str, ...]:
    """Make calls, all of which must be answered in one negotiation; return what was left out."""
    with server:
        backend = create("m", base_url=server.url, **options)
        completions = complete(backend, count)
        assert not [each for each in completions if isinstance(each, BaseException)]
        assert server.counts["400"] <= 7
        assert server.counts["paid"] == count
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


def test_the_other_name_of_the_cap() -> None:
    """A server that wants `max_completion_tokens` gets it; stated otherwise, the reply has no cap."""
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. "
    words += "Use 'max_completion_tokens' instead."
    takes: Takes = lambda body: "max_tokens" not in body  # noqa: E731
    assert judged(Stubborn((takes, lambda: words))) == ()
    dropped = judged(Stubborn((takes, lambda: words)), lacking=["max_completion_tokens"])
    assert dropped == ("max_completion_tokens", "max_tokens")


def nonsense(seed: int) -> tuple[list[str], Callable[[], str], bool]:
    """Draw what a server does not take, and what it says: words of no language, always the same or not."""
    draw = random.Random(seed)
    lacks = draw.sample([name for name in CONDITIONS if name != "temperature 1"], draw.choice([1, 1, 2, 3]))
    steady = draw.random() < 0.6

    def words() -> str:
        letters = random.Random(seed) if steady else draw
        return " ".join("".join(letters.choices("bcdfglmnoprstuvaei", k=6)) for _ in range(7))

    return lacks, words, steady


@pytest.mark.parametrize("seed", range(20))
def test_unknown_wordings(seed: int) -> None:
    """Whatever the server says, and whatever it lacks, a working form is found in at most 8 requests."""
    lacks, words, _ = nonsense(seed)
    server = Stubborn(*((CONDITIONS[name], words) for name in lacks))
    judged(server, params=LOGPROBS if seed % 2 else {})


@pytest.mark.parametrize("takes", CONDITIONS)
def test_one_unknown_wording_costs_little(takes: str) -> None:
    """A single thing that a server lacks is found by order, and most of what it takes is still sent."""
    dropped = judged(Stubborn((CONDITIONS[takes], lambda: "florb")))
    least = {"temperature", "max_tokens"} <= set(dropped)
    assert least is (takes == "no cap")


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.15], ids=["fast", "quick", "slow"])
@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize(
    "words", ["I do not like Mondays", "`temperature` is deprecated", ""], ids=["odd", "known", "new"]
)
def test_a_server_that_takes_nothing_gets_eight_requests(
    delay: float, count: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many callers there are and however slow it is; every call fails with the server's own words."""
    monkeypatch.setattr("judge_eval.llm.http.text_server._PATIENCE", 0.05)
    draw = random.Random(1)

    class Slow(Stubborn):
        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            return replace(super().answer(raw, headers), delay=delay)

    with Slow((lambda _: False, lambda: words or f"florb {draw.random()}")) as server:
        backend = create("m", base_url=server.url)
        failures = complete(backend, count) + complete(backend, 3)
        assert all(isinstance(each, DeniedError) for each in failures)
        assert all(words in str(each) for each in failures)
        assert len(server.calls) <= 8


@pytest.mark.parametrize("takes", ["nothing", "tool"])
def test_a_slow_server_that_declines_gets_few_requests(takes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes to decline, all calls together send at most 8 requests before the first answer."""
    monkeypatch.setattr("judge_eval.llm.http.text_server._PATIENCE", 0.02)
    sent: list[int] = []
    condition = CONDITIONS.get(takes, lambda body: False)

    class Slow(Stubborn):
        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            canned = super().answer(raw, headers)
            if not sent and canned.status == 200:
                sent.append(len(self.calls))
            return replace(canned, delay=0.1)

    with Slow((condition, lambda: "This is not taken.")) as server:
        complete(create("m", base_url=server.url), 24)
        assert (sent or [len(server.calls)])[0] <= 8


def test_calls_go_on_beside_a_first_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """If another call is answered meanwhile, nobody waits for the first."""
    monkeypatch.setattr("judge_eval.llm.http.text_server._PATIENCE", 0.02)
    with ChatServer() as server:
        server.script(Canned(fate="hang"))
        started = monotonic()
        first, *others = complete(create("m", base_url=server.url, timeout=1), 40)
        assert isinstance(first, CallError)
        assert all(isinstance(each, Completion) for each in others)
        assert server.counts["paid"] == 39
        assert monotonic() - started < 5


def test_one_odd_first_request_stops_nobody() -> None:
    """If the first request alone is declined in every form, the others are answered."""
    odd: Takes = lambda body: "text 0" not in json.dumps(body["messages"])  # noqa: E731
    with Stubborn((odd, lambda: "florb")) as server:
        first, *others = complete(create("m", base_url=server.url))
        assert isinstance(first, CallError | DeniedError)
        assert all(isinstance(each, Completion) for each in others)
        # One of them was the last request before the first answer, in the least form.
        assert sum(each.dropped != () for each in others if isinstance(each, Completion)) <= 1
        assert [server.counts["400"], server.counts["paid"]] == [8, 11]


def test_the_answer_to_the_last_request_is_kept_whatever_becomes_of_the_first_text() -> None:
    """If sending the first text again ends in an error that ends a run, the other text's paid answer is returned."""

    class Denying(Stubborn):
        times = 0

        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            self.times += b"text 0" in raw
            return reply("401") if b"text 0" in raw and self.times > 7 else super().answer(raw, headers)

    odd: Takes = lambda body: "text 0" not in json.dumps(body["messages"])  # noqa: E731
    with Denying((odd, lambda: "florb")) as server:
        first, *others = complete(create("m", base_url=server.url))
        assert isinstance(first, FatalCallError)
        assert server.counts["401"] == 1
        assert sum(isinstance(each, Completion) for each in others) == server.counts["paid"] == 11


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_one_odd_text_stops_no_run(tmp_path: Path, concurrency: int) -> None:
    """However few calls may be in flight, another text is sent before the run is stopped, in the same 8 requests."""
    odd: Takes = lambda body: "At nine 0." not in json.dumps(body["messages"])  # noqa: E731
    with Stubborn((odd, lambda: "florb")) as server:
        options = Options(base_url=server.url, concurrency=concurrency)
        asked = [Trace(id=f"q{n}", query="When?", reference="nine", chunks=[f"At nine {n}."]) for n in range(6)]
        with Evaluator("openai/m", cache=tmp_path, options=options) as evaluator:
            run = evaluator.evaluate(asked)
        tally = run.manifest.tally
        assert [tally.failed_verdicts, tally.calls, server.counts["paid"]] == [1, 5, 5]
        assert "florb" in str(run.results[0].outcomes[0].detail)  # type: ignore[union-attr]
        first = next(n for n, body in enumerate(server.calls) if odd(body))
        assert first < 8
        # Only what was sent before the first answer may lack what the others are asked for.
        dropped = [call.dropped for result in run.results for call in result.calls]
        assert sum(names != () for names in dropped) <= 1


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("takes", ["no cap", "nothing"])
@pytest.mark.parametrize("texts", [1, 2, 6])
def test_few_calls_find_the_last_form(tmp_path: Path, takes: str, concurrency: int, texts: int) -> None:
    """A server that takes the least form is answered in it; one that takes nothing gets 8 requests in all."""
    with Stubborn((CONDITIONS.get(takes, lambda _: False), lambda: "florb")) as server:
        options = Options(base_url=server.url, concurrency=concurrency)
        asked = [Trace(id=f"q{n}", query="When?", reference="nine", chunks=[f"At nine {n}."]) for n in range(texts)]
        with Evaluator("openai/m", cache=tmp_path, options=options) as evaluator:
            if takes == "nothing":
                with pytest.raises(FatalCallError, match="florb"):
                    evaluator.evaluate(asked)
                assert len(server.calls) <= 8
            else:
                assert evaluator.evaluate(asked).manifest.tally.failed_verdicts == 0
                assert server.counts["paid"] == texts
                assert server.counts["400"] <= 9  # one more may be a text that was passed over


def test_an_answer_is_kept_though_the_run_is_stopped_right_after_it() -> None:
    """A stop between the last two replies of a negotiation does not lose the one that has come."""

    class Slow(Stubborn):
        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            canned = super().answer(raw, headers)
            return replace(canned, delay=1.0) if b"text 0" in raw and len(self.calls) > 8 else canned

    kept: list[Completion] = []

    async def call(number: int) -> None:
        kept.append(await backend.complete(ask(f"text {number}")))
        await asyncio.sleep(0)  # the stop comes at the next wait

    async def go() -> list[BaseException | None]:
        calls = [asyncio.create_task(call(n)) for n in range(2)]
        while len(server.calls) < 9:
            await asyncio.sleep(0.002)
        for each in calls:
            each.cancel()
        try:
            return list(await asyncio.gather(*calls, return_exceptions=True))
        finally:
            await backend.aclose()

    odd: Takes = lambda body: form(body) == "prompt" and "temperature" not in body  # noqa: E731
    with Slow((odd, lambda: "florb")) as server:
        backend = create("m", base_url=server.url)
        assert all(isinstance(each, asyncio.CancelledError) for each in asyncio.run(go()))
    assert len(kept) == 1


@pytest.mark.parametrize("stopped", [[1], [0], [0, 1], [1, 2, 3, 4, 5]])
def test_stopped_calls_leave_the_last_request_to_another(stopped: list[int]) -> None:
    """Calls that are stopped while a form is sought leave nobody waiting, and the others find the form."""

    class Slow(Stubborn):
        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            return replace(super().answer(raw, headers), delay=0.02)

    async def go() -> list[Completion | BaseException]:
        calls = [asyncio.create_task(backend.complete(ask(f"text {n}"))) for n in range(6)]
        while len(server.calls) < 8:
            await asyncio.sleep(0.002)
        for place in stopped:
            calls[place].cancel()
        try:
            return list(await asyncio.gather(*calls, return_exceptions=True))
        finally:
            await backend.aclose()

    with Slow((CONDITIONS["no cap"], lambda: "florb")) as server:
        backend = create("m", base_url=server.url)
        completions = asyncio.run(go())
        for place, each in enumerate(completions):
            assert isinstance(each, asyncio.CancelledError if place in stopped else Completion)


def test_a_value_out_of_range_is_the_callers() -> None:
    """What the user set is not left out because it is too great: the error says so at once."""
    words = "Invalid 'temperature': must be at most 2"
    with Stubborn((lambda body: body.get("temperature", 0) <= 2, lambda: words)) as server:
        (failure,) = complete(create("m", base_url=server.url, params={"temperature": 3}), 1)
        assert isinstance(failure, RefusedError)
        assert server.counts["400"] == 1


def test_what_was_negotiated_is_remembered(tmp_path: Path) -> None:
    """Another backend of the process starts with it, and another process with the file beside the cache."""
    with Stubborn((CONDITIONS["no temperature"], lambda: "florb")) as server:
        first = create("m", base_url=server.url)
        first.remember_in(tmp_path)
        complete(first, 2)
        assert server.counts["400"] == 1
        complete(create("m", base_url=server.url), 2)
        assert server.counts["400"] == 1
        forget_forms()
        later = create("m", base_url=server.url)
        later.remember_in(tmp_path)
        complete(later, 2)
        assert server.counts["400"] == 1
        (entry,) = json.loads((tmp_path / FILE).read_text()).values()
        assert entry["unsupported"] == ["temperature"]
        forget_forms()
        entry["date"] = "2020-01-01"
        (tmp_path / FILE).write_text(json.dumps({f"{server.url} m": entry}))
        old = create("m", base_url=server.url)
        old.remember_in(tmp_path)
        assert old.capabilities.dropped == ()


def test_what_was_left_out_tells_answers_apart(tmp_path: Path) -> None:
    """An answer without the temperature is one to the same request until the server is known to take it."""
    options = Options(attempts=1)

    def calls(*numbers: int, **more: Any) -> int:
        forget_forms()
        (tmp_path / FILE).unlink(missing_ok=True)
        before = server.counts["paid"]
        asked = [Trace(id=f"q{n}", query="When?", reference="nine", chunks=[f"At nine {n}."]) for n in numbers]
        settings = replace(options, base_url=server.url, **more)
        with Evaluator("openai/m", cache=tmp_path, options=settings) as evaluator:
            run = evaluator.evaluate(asked)
        assert run.manifest.tally.failed_verdicts == 0
        return server.counts["paid"] - before

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
        assert server.counts["400"] <= 8


def test_unsupported_is_stated_in_advance(tmp_path: Path) -> None:
    """By a flag or in a judge file: it is never sent, and the manifest says so."""
    with Stubborn() as server:
        run = Shell(tmp_path)
        common = ("--base-url", server.url, "--no-cache", "--out", "runs")
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


@pytest.fixture
def tool_server() -> Iterator[ChatServer]:
    """A server that answers by a call of the tool."""

    class Calling(Stubborn):
        def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
            canned = super().answer(raw, headers)
            if canned.status == 200:
                message = canned.body["choices"][0]["message"]
                function = {"name": "verdict", "arguments": message["content"]}
                message["content"] = "Let me call it."
                message["tool_calls"] = [{"id": "1", "type": "function", "function": function}]
            return canned

    with Calling((CONDITIONS["tool"], lambda: "response_format is not supported")) as server:
        yield server


def test_the_reply_of_a_tool_is_read(tool_server: ChatServer) -> None:
    """Where only a tool can carry the form, its arguments are the reply."""
    (completion,) = complete(create("m", base_url=tool_server.url), 1)
    assert isinstance(completion, Completion)
    assert json.loads(completion.text)["verdict"] in (True, False)
    assert completion.dropped == ("json_object", "json_schema", "strict")
