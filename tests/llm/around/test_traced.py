"""What OpenTelemetry is told, read back from exporters in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from judge_eval import Evaluator, FakeBackend, Options, Trace, evaluate
from judge_eval.errors import FatalCallError
from tests.support.canned import error
from tests.support.chat_server import ChatServer
from tests.support.decision_server import DecisionServer

pytestmark = pytest.mark.foreign

SECRET = "SAN-MARZANO"
TRACE = Trace(id="q1", query=f"Which {SECRET}?", reference=f"{SECRET} it is.", chunks=["The oven.", f"{SECRET} it is."])


class Exported:
    """What was exported."""

    def __init__(self) -> None:
        self.spans_out, self.logs_out = InMemorySpanExporter(), InMemoryLogRecordExporter()

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans of calls."""
        return [span for span in self.spans_out.get_finished_spans() if span.kind is trace.SpanKind.CLIENT]

    @property
    def others(self) -> list[ReadableSpan]:
        return [span for span in self.spans_out.get_finished_spans() if span.kind is not trace.SpanKind.CLIENT]

    @property
    def events(self) -> list[Any]:
        return [data.log_record for data in self.logs_out.get_finished_logs()]

    def everything(self) -> str:
        return " ".join(
            [span.to_json() for span in self.spans_out.get_finished_spans()]
            + [str(dict(e.attributes or {})) + str(e.body) for e in self.events]
        )


@pytest.fixture(scope="module")
def exporters() -> Exported:
    """The providers of this process, set once as the API demands."""
    result = Exported()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(result.spans_out))
    trace.set_tracer_provider(tracers)
    loggers = LoggerProvider()
    loggers.add_log_record_processor(SimpleLogRecordProcessor(result.logs_out))
    _logs.set_logger_provider(loggers)
    return result


@pytest.fixture
def told(exporters: Exported) -> Exported:
    """The exporters, emptied."""
    exporters.spans_out.clear()
    exporters.logs_out.clear()
    return exporters


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A judge on loopback."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")
    with ChatServer() as server:
        yield server


def test_nothing_is_told_by_default(told: Exported) -> None:
    """Without the option there is no span and no event."""
    evaluate(TRACE, "fake/overlap", cache=False)
    assert told.spans == []
    assert told.events == []


def test_a_span_per_call_follows_the_conventions(told: Exported, server: ChatServer) -> None:
    """A chat span has the conventions' name, kind and attributes, and is the child of the caller's span."""
    options = Options(base_url=server.url, params={"seed": 7}, otel="on")
    with trace.get_tracer("a test").start_as_current_span("pipeline") as parent:
        evaluate(TRACE, "openai/some-model", cache=False, options=options)
    spans = [span for span in told.spans if span.name == "chat some-model"]
    assert len(spans) == server.stats["calls"] == 2
    for span, chunk_id in zip(
        sorted(spans, key=lambda s: str(s.attributes["judge_eval.chunk.ids"])), ("c1", "c2"), strict=True
    ):
        attributes = dict(span.attributes or {})
        assert span.kind is trace.SpanKind.CLIENT
        assert span.parent is not None
        assert span.parent.span_id == parent.get_span_context().span_id
        assert attributes["gen_ai.operation.name"] == "chat"
        assert attributes["gen_ai.provider.name"] == "openai"
        assert attributes["gen_ai.request.model"] == "some-model"
        assert attributes["gen_ai.request.seed"] == 7
        assert attributes["gen_ai.request.temperature"] == 0
        assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
        assert attributes["gen_ai.usage.input_tokens"] > 0
        assert attributes["gen_ai.usage.output_tokens"] > 0
        assert attributes["server.address"] == "127.0.0.1"
        assert f":{attributes['server.port']}/" in server.url
        assert attributes["judge_eval.chunk.ids"] == (chunk_id,)


def test_an_event_per_metric_and_trace(told: Exported) -> None:
    """Every score is an event of its own, with name, value and label."""
    run = evaluate(TRACE, "fake/overlap", metrics=["AP@5", "HitRate@1"], cache=False, options=Options(otel="on"))
    assert all(event.event_name == "gen_ai.evaluation.result" for event in told.events)
    scores = {
        event.attributes["gen_ai.evaluation.name"]: event.attributes["gen_ai.evaluation.score.value"]
        for event in told.events
    }
    assert scores == run.results[0].scores
    labels = {
        e.attributes["gen_ai.evaluation.name"]: e.attributes["gen_ai.evaluation.score.label"] for e in told.events
    }
    assert labels == {"AP@5": "relevant", "HitRate@1": "not_relevant"}


def test_texts_and_keys_stay_out_by_default(told: Exported, server: ChatServer) -> None:
    """Neither spans nor events hold a word of the trace, of the reply or of the key."""
    options = Options(base_url=server.url, otel="on")
    evaluate(TRACE, "openai/some-model", cache=False, options=options)
    assert told.spans
    assert told.events
    assert SECRET not in told.everything()
    assert "secret-key" not in told.everything()
    assert "explanation" not in told.everything()


def test_content_is_told_on_demand(told: Exported, server: ChatServer) -> None:
    """With `content`, spans carry messages and reply, and events the reasons; the key stays out."""
    options = Options(base_url=server.url, otel="content")
    evaluate(TRACE, "openai/some-model", metrics=["AP"], cache=False, options=options)
    attributes = dict(told.spans[0].attributes or {})
    assert SECRET in str(attributes["gen_ai.input.messages"])
    assert "verdict" in str(attributes["gen_ai.output.messages"])
    assert attributes["gen_ai.system_instructions"] != "[]"
    (event,) = told.events
    assert event.attributes["gen_ai.evaluation.explanation"].startswith("1. grade")
    assert "secret-key" not in told.everything()


def test_a_failed_verdict_is_an_error_type_and_no_value(told: Exported) -> None:
    """A metric without a value is told as such, never as 0; the failed call's span is an error."""
    evaluate(TRACE, "fake/refused", metrics=["AP@5"], cache=False, options=Options(otel="on"))
    (event,) = told.events
    assert event.attributes["error.type"] == "refused"
    assert event.attributes["gen_ai.evaluation.score.label"] == "no_verdict"
    assert "gen_ai.evaluation.score.value" not in event.attributes


def test_an_error_ends_its_span(told: Exported, server: ChatServer) -> None:
    """A call that ends the run leaves a span with the error's type and without its text."""
    server.script(error(401, "a key like sk-secret-key", code="invalid_api_key"))
    options = Options(base_url=server.url, otel="on")
    first = TRACE.model_copy(update={"chunks": TRACE.chunks[:1]})
    with pytest.raises(FatalCallError):
        evaluate(first, "openai/some-model", cache=False, options=options)
    (span,) = told.spans
    assert (span.attributes or {})["error.type"] == "DeniedError"
    assert span.status.status_code is trace.StatusCode.ERROR
    assert not span.events
    assert "secret-key" not in told.everything()


def test_retries_share_a_span_and_cache_hits_have_none(told: Exported, server: ChatServer, tmp_path: Any) -> None:
    """A span is one call with all its attempts; what the cache answers is no call."""
    server.script(error(503))
    options = Options(base_url=server.url, otel="on")
    for expected in (2, 2):
        with Evaluator("openai/some-model", cache=tmp_path, options=options) as evaluator:
            evaluator.evaluate(TRACE)
        assert len(told.spans) == expected


def test_events_go_under_the_span_that_was_judged(told: Exported) -> None:
    """A trace that names the span of its retrieval has its events put there; a torn id is passed over."""
    ids = {"otel_trace_id": "0af7651916cd43dd8448eb211c80319c", "otel_span_id": "b7ad6b7169203331"}
    evaluator = Evaluator("fake/overlap", metrics=["AP"], cache=False, options=Options(otel="on"))
    evaluator.evaluate(TRACE.model_copy(update={"metadata": ids}))
    evaluator.evaluate(TRACE.model_copy(update={"metadata": {**ids, "otel_span_id": "xyz"}}))
    first, second = told.events
    assert f"{first.trace_id:032x}" == ids["otel_trace_id"]
    assert f"{first.span_id:016x}" == ids["otel_span_id"]
    assert not second.span_id


NAMED = {"otel_trace_id": "0af7651916cd43dd8448eb211c80319c", "otel_span_id": "b7ad6b7169203331"}


@pytest.mark.parametrize(
    "metadata",
    [
        NAMED,
        {"trace_id": NAMED["otel_trace_id"], "span_id": NAMED["otel_span_id"]},
        {"traceId": NAMED["otel_trace_id"], "span_id": NAMED["otel_span_id"]},
    ],
    ids=["given", "read from spans", "read from Langfuse"],
)
def test_results_are_events_of_a_span_below_the_retrieval(told: Exported, metadata: dict[str, Any]) -> None:
    """For who takes no logs: a retrieval that is over gets a span below its own, with an event a metric."""
    judged = TRACE.model_copy(update={"metadata": metadata})
    run = evaluate(judged, "fake/overlap", metrics=["AP@5", "RR@5"], cache=False, options=Options(otel="on"))
    (span,) = told.others
    assert (span.name, span.attributes) == ("evaluate", {"judge_eval.trace.id": "q1"})
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" == f"{span.context.trace_id:032x}" == NAMED["otel_trace_id"]
    assert f"{span.parent.span_id:016x}" == NAMED["otel_span_id"]
    assert {event.name for event in span.events} == {"gen_ai.evaluation.result"}
    assert [dict(event.attributes or {}) for event in span.events] == [dict(e.attributes) for e in told.events]
    scores = {
        e.attributes["gen_ai.evaluation.name"]: e.attributes["gen_ai.evaluation.score.value"] for e in span.events
    }
    assert scores == run.results[0].scores


def test_results_are_events_of_the_retrievals_own_span_while_it_lives(told: Exported) -> None:
    """Judged within its own span, a retrieval has the events there, and no span more; another span has none."""
    tracer = trace.get_tracer("app")
    options = Options(otel="on")
    for is_named in (True, False):
        evaluator = Evaluator("fake/overlap", metrics=["AP"], cache=False, options=options)
        with evaluator, tracer.start_as_current_span("retrieve") as span:
            context = span.get_span_context()
            ids = {"otel_trace_id": f"{context.trace_id:032x}", "otel_span_id": f"{context.span_id:016x}"}
            evaluator.judge(TRACE.model_copy(update={"metadata": ids if is_named else {}}))
        spans = {span.name: span for span in told.others}
        assert [event.name for event in spans["retrieve"].events] == ["gen_ai.evaluation.result"] * is_named
        assert ("evaluate" in spans) != is_named
        if not is_named:
            assert spans["evaluate"].parent == spans["retrieve"].context


def test_a_script_without_a_name_is_told_too(told: Exported) -> None:
    """A backend without an identity has spans without a model."""
    judge = FakeBackend.table({"c1": False, "c2": True})
    evaluate(TRACE, judge, cache=False, options=Options(otel="on"))
    assert {span.name for span in told.spans} == {"chat"}


def test_without_the_package_the_option_says_what_to_install() -> None:
    """Where OpenTelemetry is missing, asking for it is an error with advice, and all else works."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from judge_eval import Evaluator, Options\n"
        "trace = {'query': 'a?', 'reference': 'b', 'chunks': ['b']}\n"
        "Evaluator('fake/overlap', cache=False).evaluate(trace)\n"
        "Evaluator('fake/overlap', cache=False, options=Options(otel='on')).evaluate(trace)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "install it: pip install 'context-judge[otel]'" in done.stderr


def test_a_call_to_a_decision_model_is_no_chat(told: Exported) -> None:
    """The conventions have no name for it: the span goes by its endpoint's, and caps no output."""
    with DecisionServer() as server:
        params = {"dialect": "openai"}
        options = Options(base_url=server.url, params=params, otel="content")
        evaluate(TRACE, "decisions/m", cache=False, options=options)
    (span,) = [span for span in told.spans if span.name.startswith("decisions")]
    attributes = dict(span.attributes or {})
    assert span.name == "decisions m"
    assert attributes["gen_ai.operation.name"] == "decisions"
    assert attributes["gen_ai.provider.name"] == "openai"
    assert attributes["gen_ai.usage.output_tokens"] == 0
    assert not {"gen_ai.request.max_tokens", "gen_ai.output.type"} & attributes.keys()
    assert "probability" not in str(attributes["gen_ai.input.messages"])
    assert '"c1"' in str(attributes["gen_ai.output.messages"]).replace("\\", "")
