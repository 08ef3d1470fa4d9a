"""Spans as tracing tools export them, complete, cut short or empty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.errors import DataError
from tests.support.odd_files import read, write


def test_ids_in_base64_are_hexadecimal(tmp_path: Path) -> None:
    """Ids that protobuf's JSON spells in base64 become those that tools know the span by."""
    ids = {"spanId": "hFP0DLYznC4=", "traceId": "usAiEA9VCa8HBL8+wDVDPw=="}
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in RETRIEVER.items()]
    pairs.append({"key": "retrieval.documents.0.document.content", "value": {"stringValue": "t"}})
    spans = [{"name": "r", **ids, "attributes": pairs}, {"name": "r", "spanId": "not base 64=", "attributes": pairs}]
    path = write(tmp_path, "x.json", json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    first, second = read(path)
    assert (first.id, first.metadata["trace_id"]) == ("8453f40cb6339c2e", "bac022100f5509af0704bf3ec035433f")
    assert second.id == "not base 64="


def test_phoenix_spans_without_a_retrieval_are_known(tmp_path: Path) -> None:
    """A file of Phoenix' spans is known by its keys, though the first are of other kinds."""
    other = {"name": "llm", "span_kind": "LLM", "attributes": {"llm.model_name": "m", "input.value": "q?"}}
    values = {
        "name": "retrieve",
        "span_kind": "RETRIEVER",
        "context": {"span_id": "00f067aa0ba902b7"},
        "attributes": {"input.value": "q?", "retrieval.documents.0.document.content": "t"},
    }
    assert [trace.id for trace in read(write(tmp_path, "x.jsonl", [other] * 30 + [values]))] == ["00f067aa0ba902b7"]


RETRIEVER = {"openinference.span.kind": "RETRIEVER", "input.value": "q?"}


@pytest.mark.parametrize(
    "record",
    [
        {"name": "r", "attributes": RETRIEVER},
        {"name": "r", "attributes": {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "q?"}},
        {"run_type": "retriever", "inputs": {"query": "q?"}, "outputs": None, "error": "timeout"},
        {"id": "o", "traceId": "t", "type": "RETRIEVER", "input": "q?", "output": None},
    ],
)
def test_a_gap_is_not_an_empty_retrieval(record: Any, tmp_path: Path) -> None:
    """A span whose documents were not recorded is an error, never a retriever that found nothing."""
    with pytest.raises(DataError, match=r":1: .*documents are not recorded here"):
        read(write(tmp_path, "x.jsonl", [record]))


def test_an_empty_retrieval_is_found_in_the_output(tmp_path: Path) -> None:
    """Flattened attributes cannot spell an empty list; the span's output can."""
    span = {"name": "r", "attributes": {**RETRIEVER, "output.value": '{"documents": []}'}}
    [trace] = read(write(tmp_path, "x.jsonl", [span]))
    assert trace.chunks == ()
