from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from judge_eval import Trace
from judge_eval.data.reading import open_dataset


def span(kind: str, number: int, trace: str = "t1", name: str = "", **attributes: Any) -> dict[str, Any]:
    """Make a span as OpenInference writes it."""
    known = {"openinference.span.kind": kind, **{key.replace("__", "."): value for key, value in attributes.items()}}
    return {"name": name or kind.lower(), "context": {"trace_id": trace, "span_id": f"s{number}"}, "attributes": known}


def documents(prefix: str, *texts: str) -> dict[str, Any]:
    """Return documents as flat attributes."""
    return {f"{prefix}.{place}.document.content": text for place, text in enumerate(texts)}


def read(path: Path, records: list[dict[str, Any]]) -> tuple[list[Trace], list[str]]:
    """Read spans, and what was remarked of them."""
    path.write_text("\n".join(map(json.dumps, records)))
    messages: list[str] = []
    return list(open_dataset(path, on_remark=lambda sentence, _: messages.append(sentence))), messages


RERANKER = span("RERANKER", 2, **{"reranker.query": "When does it open?"}) | {}
RERANKER["attributes"] |= documents("reranker.input_documents", "The menu.", "Opens in May.", "Closed on Monday.")
RERANKER["attributes"] |= documents("reranker.output_documents", "Opens in May.", "The menu.")


def test_a_reranker_span_holds_both_lists(tmp_path: Path) -> None:
    """OpenInference, as LlamaIndex and LangChain are instrumented: chunks as retrieved, each with its later rank."""
    traces, answers = read(tmp_path / "spans.jsonl", [RERANKER])
    assert [chunk.text for chunk in traces[0].chunks] == ["The menu.", "Opens in May.", "Closed on Monday."]
    assert [chunk.metadata["reranked"] for chunk in traces[0].chunks] == [2, 1, 0]
    assert (traces[0].query, traces[0].tags, answers) == ("When does it open?", ("reranked",), [])


def test_a_retriever_around_another_is_a_reranker(tmp_path: Path) -> None:
    """LangSmith: `ContextualCompressionRetriever` gives one trace with both lists, not two traces."""
    inner = {
        "id": "b",
        "run_type": "retriever",
        "inputs": {"query": "q?"},
        "outputs": {"documents": ["one", "two", "three"]},
    }
    outer = {**inner, "id": "a", "outputs": {"documents": ["three", "one"]}, "child_runs": [inner]}
    (trace,), _ = read(tmp_path / "runs.jsonl", [outer])
    assert trace.id == "a"
    assert {chunk.text: chunk.metadata["reranked"] for chunk in trace.chunks} == {"one": 2, "two": 0, "three": 1}


def test_tools_are_read_or_named(tmp_path: Path) -> None:
    """A tool that searches and returns texts is a retrieval; another one is named and left out."""
    search = span("TOOL", 1, name="mcp_search_docs", **{"input.value": "What opens?"})
    search["attributes"]["output.value"] = json.dumps([{"id": "d1", "text": "Opens in May."}])
    traces, answers = read(tmp_path / "tools.jsonl", [search, span("TOOL", 2, name="calculator"), span("LLM", 3)])
    assert [(trace.query, trace.chunks[0].text) for trace in traces] == [("What opens?", "Opens in May.")]
    assert answers == ["a call of the tool calculator is not a retrieval and is left out"]
    genai = {"name": "x", "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "send_mail"}}
    values = {"name": "y", "attributes": {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "q?"}}
    values["attributes"]["gen_ai.retrieval.documents"] = '[{"id": "d", "content": "text"}]'  # type: ignore[index]
    traces, answers = read(tmp_path / "genai.jsonl", [genai, values])
    assert (len(traces), answers) == (1, ["a call of the tool send_mail is not a retrieval and is left out"])


def test_a_reranker_of_opentelemetry_holds_both_lists(tmp_path: Path) -> None:
    """What it returned may be documents or places in what it was given; the question is its own or the retrieval's."""
    texts = ["The menu.", "Opens in May.", "Closed on Monday."]
    given = json.dumps([{"id": f"d{place}", "text": text} for place, text in enumerate(texts)])
    kept = '[{"index": 1, "relevance_score": 0.9}, {"id": "d0", "text": "The menu."}]'
    both = {"gen_ai.rerank.input_documents": given, "gen_ai.rerank.output_documents": kept}
    own = {"gen_ai.operation.name": "rerank", "gen_ai.rerank.query.text": "When does it open?", **both}
    before = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "Opens?"}
    before["gen_ai.retrieval.documents"] = given
    known = [before, {"gen_ai.operation.name": "rerank_documents", **both}]
    ids = {"trace_id": "t1", "name": "x"}
    lines = [{**ids, "attributes": own}, {"spans": [{**ids, "attributes": each} for each in known]}]
    lines += [{**ids, "attributes": {"gen_ai.operation.name": "rerank"}}]
    traces, answers = read(tmp_path / "genai.jsonl", lines)
    assert [trace.query for trace in traces] == ["When does it open?", "Opens?", "Opens?"]
    for trace in (traces[0], traces[2]):
        assert [(c.id, c.metadata["reranked"]) for c in trace.chunks] == [("d0", 2), ("d1", 1), ("d2", 0)]
    assert answers[-1:] == ["a reranker's span does not record its documents and is left out"]


def test_a_reranker_of_mlflow_holds_both_lists(tmp_path: Path) -> None:
    """A traced function: its one list is what it was given, whatever the argument's name; a tool beside it is named."""
    documents = [{"page_content": text} for text in ("The menu.", "Opens in May.")]
    inputs = {"query": "When does it open?", "docs": documents, "top_n": 1}
    values = {"mlflow.spanType": '"RERANKER"', "mlflow.spanInputs": json.dumps(inputs)}
    reranker = {"name": "rerank", "span_id": "s1", "attributes": values | {"mlflow.spanOutputs": documents[1:]}}
    bare = {"name": "rerank", "span_id": "s2", "attributes": values}
    trace = {"info": {"trace_id": "t"}, "data": {"spans": [reranker, bare]}}
    traces, answers = read(tmp_path / "mlflow.jsonl", [trace])
    assert [(c.text, c.metadata["reranked"]) for c in traces[0].chunks] == [("The menu.", 0), ("Opens in May.", 1)]
    assert (traces[0].query, answers) == (
        "When does it open?",
        ["a reranker's span does not record its documents and is left out"],
    )


def test_a_tool_of_langfuse_is_named(tmp_path: Path) -> None:
    """An observation of type TOOL is no retrieval, which is said."""
    kept = {"id": "a", "traceId": "t", "type": "RETRIEVER", "input": {"query": "q?"}, "output": ["one"]}
    tool = {"id": "b", "traceId": "t", "type": "TOOL", "name": "send_mail", "input": {}, "output": "done"}
    traces, answers = read(tmp_path / "langfuse.jsonl", [kept, tool])
    assert (len(traces), answers) == (1, ["a call of the tool send_mail is not a retrieval and is left out"])
