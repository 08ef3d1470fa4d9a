import asyncio
from dataclasses import replace

import pytest

from judge_eval.errors import ConfigError, RefusedError, UnknownNameError
from judge_eval.evaluator import Evaluator
from judge_eval.llm.backend import Backend
from judge_eval.llm.fake import fake_backend as fake
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.schema import GRADED, Trace
from judge_eval.wire import Completion, Message, Request
from tests.support.plain_form import BAD, GOOD, QUERY, ask, complete, reply


def test_is_a_backend():
    """Whatever makes a fake judge, the result fits the protocol, and closing it twice is harmless."""
    for backend in (fake.create("overlap"), FakeBackend(lambda request: "x"), FakeBackend.table({})):
        assert isinstance(backend, Backend)
        asyncio.run(backend.aclose())
        asyncio.run(backend.aclose())


def test_unknown_rules_and_options_advise():
    """A name that does not exist, an option a rule does not take, and shares above 1 are told plainly."""
    with pytest.raises(UnknownNameError, match="did you mean 'overlap'"):
        fake.create("overlpa")
    with pytest.raises(ConfigError, match="fake/overlap takes no option 'latancy'; did you mean 'latency'"):
        fake.create("overlap", latancy=1)
    with pytest.raises(ConfigError, match="takes no option 'seed'"):
        fake.create("overlap", seed=1)
    with pytest.raises(ConfigError, match="at most 1 together"):
        fake.create("flaky", transient=0.9, malformed=0.9)
    with pytest.raises(ConfigError, match="transient must be a number, not 'often'"):
        fake.create("flaky", transient="often")
    with pytest.raises(ConfigError, match="latency"):
        fake.create("overlap", latency=-1.0)


def test_identities_name_rule_version_and_options():
    """Identities of named rules differ by rule and option; latency changes no reply and is not in it."""
    identities = {fake.create(rule).identity for rule in fake.RULES}
    assert len(identities) == len(fake.RULES)
    assert None not in identities
    overlap = fake.create("overlap").identity
    assert overlap is not None
    assert overlap.provider == "fake"
    assert overlap.model.startswith("overlap-")
    assert overlap == fake.create("overlap", latency=0.5).identity
    assert fake.create("hash").identity != fake.create("hash", seed=1).identity


def test_scripts_have_no_identity():
    """A function's or a table's answers are never stored: nobody can say what a function will answer."""
    assert FakeBackend(lambda request: "x").identity is None
    assert FakeBackend.table({"c1": True}).identity is None


def test_function_gives_text_completion_or_error():
    """A script may return a text, a completion, or an exception to raise; anything else is a plain error."""
    ready = Completion("ready", finish="length")
    assert complete(FakeBackend(lambda request: request.query), ask(GOOD)).text == QUERY
    assert complete(FakeBackend(lambda request: ready), ask(GOOD)) is ready
    with pytest.raises(RefusedError, match="no thanks"):
        complete(FakeBackend(lambda request: RefusedError("no thanks")), ask(GOOD))
    with pytest.raises(ConfigError, match="returned int"):
        complete(FakeBackend(lambda request: 3), ask(GOOD))  # type: ignore[arg-type,return-value]


def test_function_may_be_async():
    """An async script is awaited, and several may be under way at once."""
    gate = asyncio.Event()

    async def script(request: Request) -> str:
        if request.passages[0].text == "first":
            await gate.wait()
        else:
            gate.set()
        return request.passages[0].text

    async def both() -> list[str]:
        backend = FakeBackend(script)
        replies = await asyncio.gather(backend.complete(ask("first")), backend.complete(ask("second")))
        return [completion.text for completion in replies]

    assert asyncio.run(both()) == ["first", "second"]


def test_calls_and_requests_are_counted():
    """A script keeps its requests in order, only the last ones when told so; a named rule counts only."""
    script = FakeBackend(lambda request: "x")
    short = FakeBackend(lambda request: "x", keep=1)
    named = fake.create("overlap")
    for backend in (script, short, named):
        for text in ("first", "second"):
            complete(backend, ask(text))
        assert backend.calls == 2
    assert [request.passages[0].text for request in script.requests] == ["first", "second"]
    assert [request.passages[0].text for request in short.requests] == ["second"]
    assert not named.requests


def test_failed_calls_count_too():
    """A call that raised was a call."""
    backend = FakeBackend(lambda request: RefusedError("no"))
    with pytest.raises(RefusedError):
        complete(backend, ask(GOOD))
    assert backend.calls == 1


def test_usage_is_about_a_quarter_of_the_characters():
    """Tokens are estimated from all that was shown and written, the shared part included, on every call."""
    backend = fake.create("overlap")
    for text in (GOOD, BAD * 3, GOOD):
        request = ask(text)
        completion = complete(backend, request)
        shown = sum(len(message.content) for message in request.messages)
        assert abs(completion.usage.input_tokens - shown / 4) <= 2
        assert abs(completion.usage.output_tokens - len(completion.text) / 4) <= 2


def test_usage_counts_a_follow_up():
    """A repair costs its own messages too."""
    backend = fake.create("overlap")
    first = complete(backend, ask(GOOD)).usage.input_tokens
    request = replace(ask(GOOD), follow_up=(Message("user", "x" * 400),))
    assert complete(backend, request).usage.input_tokens == first + 100


def test_table_by_chunk_and_by_trace():
    """A table answers by chunk id, and more precisely by trace and chunk; a bool or 0 and 1 both do."""
    backend = FakeBackend.table({"c1": True, "c2": 0, ("t1", "c3"): 1, "c3": 0})
    assert reply(backend, ask("a", ids=["c1"]))["verdict"] is True
    assert reply(backend, ask("a", ids=["c2"]))["verdict"] is False
    assert reply(backend, ask("a", ids=["c3"]))["verdict"] is True
    assert reply(backend, replace(ask("a", ids=["c3"]), trace_id="t2"))["verdict"] is False


def test_table_grades_and_lists():
    """On the graded scale a table gives grades, a bool the lowest or highest; lists keep their order."""
    backend = FakeBackend.table({"a": 2, "b": True, "c": False, "d": 7})
    rows = reply(backend, ask("1", "2", "3", "4", scale=GRADED, listwise=True, ids="abcd"))["verdicts"]
    assert [row["grade"] for row in rows] == [2, 3, 0, 7]


def test_table_writes_fields_texts_and_errors():
    """A value may be reply fields, a whole reply, a completion or an error."""
    fields = {"verdict": True, "evidence": "quote", "reason": "why", "instruction_in_chunk": True}
    backend = FakeBackend.table(
        {"c1": fields, "c2": "no JSON", "c3": Completion("", finish="filter"), "c4": RefusedError("no")}
    )
    assert reply(backend, ask("a", ids=["c1"])) == fields
    assert complete(backend, ask("a", ids=["c2"])).text == "no JSON"
    assert complete(backend, ask("a", ids=["c3"])).finish == "filter"
    with pytest.raises(RefusedError):
        complete(backend, ask("a", ids=["c4"]))
    with pytest.raises(ConfigError, match="did you mean 'reason'"):
        complete(FakeBackend.table({"c1": {"verdict": True, "raeson": "x"}}), ask("a"))


def test_table_with_a_hole_is_an_error_not_a_failed_call():
    """A chunk that is not in the table stops the test with its name, unless there is a default."""
    with pytest.raises(ConfigError, match="no answer for chunk 'c1' of trace 't1'"):
        complete(FakeBackend.table({"other": 1}), ask("a"))
    assert reply(FakeBackend.table({}, default=1), ask("a"))["verdict"] is True


@pytest.mark.parametrize("mode", ["pointwise", "listwise"])
def test_a_table_answers_once_for_chunks_with_one_text(mode):
    """Two chunks that hold one text are one question; what the table says of both must be the same."""
    chunks = [{"id": "a", "text": "Same."}, {"id": "b", "text": "Other."}, {"id": "c", "text": "Same."}]
    trace = Trace.parse({"id": "t", "query": "q", "reference": "r", "chunks": chunks})
    yes = {"verdict": True, "evidence": "Same.", "reason": "It says so."}
    backend = FakeBackend.table({"a": yes, "b": False, "c": dict(yes)})
    run = Evaluator(backend, metrics=["P@3"], mode=mode, cache=False).evaluate(trace)
    assert [outcome.grade for outcome in run.results[0].outcomes] == [1, 0, 1]
    assert backend.calls == (2 if mode == "pointwise" else 1)
    for table, words in (
        ({"a": True, "b": False, "c": False}, "chunk 'a' and False of chunk 'c', which hold one text"),
        ({"a": True, "b": False}, "no answer for chunk 'c'"),
    ):
        with pytest.raises(ConfigError, match=words):
            Evaluator(FakeBackend.table(table), metrics=["P@3"], mode=mode, cache=False).evaluate(trace)
