"""Shapes whose record is one retrieval, its fields side by side."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from judge_eval.data.files import values
from judge_eval.data.files.jsonl import TRACE_FIELDS, fields_of
from judge_eval.data.shapes.shape import Data, Keys, Shape, has, has_any
from judge_eval.errors import DataError
from judge_eval.objects import plain
from judge_eval.safe_text import value_kind
from judge_eval.spelling import option

QUERY = ("query", "question")
MARKS = ("evolution_type", "episode_done")
"""What ragas before 0.2 wrote into testsets alone."""
DOCUMENTS = ("documents", "source_documents", "source_nodes", "nodes", "docs", "retrieved_documents")


def read_flat(
    record: Data, query: tuple[str, ...], chunks: tuple[str, ...], id_key: str = "", **texts: str | tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Read the first key that there is of each kind: the question, the list of chunks, and `texts` by our fields."""
    there = [key for key in chunks if record.get(key) is not None]
    listed = next((key for key in there if not values.is_urls(record[key])), (*there, chunks[0])[0])
    data = {"query": values.need_text(record, *query), "chunks": values.items(record, listed)}
    named = {key for keys in texts.values() for key in ([keys] if isinstance(keys, str) else keys)}
    if texts.get("reference") is values.REFERENCES and (whole := values.first_reference(record, data)) is not None:
        named.add(whole)
    yield values.completed(data, record, {*query, listed, *named}, id_key, **texts)


def _ours(record: Data) -> Iterator[dict[str, Any]]:
    fields = fields_of(record)
    data = {key: value for key, value in record.items() if key in fields and value is not None}
    if "metadata" in data:
        data["metadata"] = values.decode_mapping(data["metadata"])
    if not isinstance(data.get("metadata", {}), Mapping):
        if not values.is_mapped(record, "chunks"):
            yield data
            return
        data["metadata"] = {"metadata": plain(data["metadata"])}  # a field of a tool that bears this name
    extra = values.rest(record, *fields)
    if extra:
        data["metadata"] = {**extra, **data.get("metadata", {})}
    yield data


def read_ragas(record: Data) -> Iterator[dict[str, Any]]:
    """Read a sample of ragas 0.2 and later."""
    asked = record.get("user_input")
    if isinstance(asked, list):
        raise DataError("a conversation; only single-turn samples can be judged", field="user_input")
    used = {"user_input", "retrieved_contexts", "response", "reference", "retrieved_context_ids"}
    ids = [str(key) for key in values.maybe_list(record, "retrieved_context_ids")]
    made_from = not values.is_missing(record.get("reference_contexts")) and not values.is_mapped(record, "chunks")
    if record.get("retrieved_contexts") is None and not ids and made_from:
        raise no_retrieval("reference_contexts", {"chunks": "reference_contexts"})
    if record.get("retrieved_contexts") is None and ids:
        chunks: list[Any] = [{"id": key} for key in ids]
    else:
        chunks = values.items(record, "retrieved_contexts")
        if ids and len(ids) != len(chunks):
            raise DataError(f"{len(ids)} ids for {len(chunks)} contexts", field="retrieved_context_ids")
        if ids:
            chunks = [{"id": key, "text": body} for key, body in zip(ids, chunks, strict=True)]
    data: dict[str, Any] = {"query": values.need_text(record, "user_input"), "chunks": chunks}
    relevant = {str(key) for key in values.maybe_list(record, "reference_context_ids")}
    if ids and relevant:
        data["relevant_total"] = len(relevant)
        for chunk in chunks:
            if chunk["id"] in relevant:
                chunk["label"] = 1
    yield values.completed(data, record, used, answer="response", reference="reference")


read_contexts = partial(
    read_flat, query=QUERY, chunks=("contexts",), answer=("answer", "response"), reference=values.REFERENCES
)
"""Reads `question, contexts, answer, ground_truth`: the answer is the generated one."""


def _lynxius(record: Data) -> Iterator[dict[str, Any]]:
    bodies = record.get("data")
    if bodies is None:
        yield from read_contexts(record)
        return
    tags = [tag for tag in values.maybe_list(record, "tags") if isinstance(tag, str)]
    for place, body in enumerate(values.as_list(bodies, "data")):
        if not isinstance(body, Mapping):
            raise DataError(f"is {value_kind(body)}, not an object", field=f"data[{place}]")
        for data in read_contexts(body):
            yield {**data, "tags": tags}


def _deepeval(record: Data) -> Iterator[dict[str, Any]]:
    if _is_link(frozenset(record)):
        fault = "holds only the link to a test run on DeepEval's server, no test cases; log out of it (or unset "
        raise DataError(fault + "its key), run the tests again, and the file holds them", field="testRunLink")
    camel = not {"retrievalContext", "expectedOutput", "actualOutput"}.isdisjoint(record)
    names = ("actualOutput", "expectedOutput", "retrievalContext")
    answer, reference, chunks = names if camel else ("actual_output", "expected_output", "retrieval_context")
    made_from = not values.is_missing(record.get("context")) and not values.is_mapped(record, "chunks")
    if record.get(chunks) is None and made_from:
        raise no_retrieval("context", {"query": "input", "chunks": "context", "reference": reference})
    yield from read_flat(record, ("input",), (chunks,), answer=answer, reference=reference)


def _is_link(keys: Keys) -> bool:
    return "testRunLink" in keys and "testRunData.testCases" not in keys


def _fits_deepeval(keys: Keys) -> bool:
    if _is_link(keys):
        return True
    outputs = ("expected_output", "actual_output", "expectedOutput", "actualOutput")
    golden = "context" in keys and has_any(keys, *outputs)
    return "input" in keys and (has_any(keys, "retrieval_context", "retrievalContext") or golden)


def no_retrieval(field: str, fields: Mapping[str, str], otherwise: str = "") -> DataError:
    """Make the error for a record that holds no retrieval but the texts its question was made from."""
    fault = "holds no retrieved chunks, only the texts that the question was made from; to judge those, say"
    return DataError(f"{fault} {option('map', fields)}{otherwise}", field=field)


def _labelled(_: Data) -> Iterator[dict[str, Any]]:
    fields = {"chunks": "reference_contexts", "reference": "reference_answer"}
    raise no_retrieval("reference_contexts", fields)


def _fits_contexts(keys: Keys) -> bool:
    return has_any(keys, *QUERY) and "contexts" in keys and not has_any(keys, *MARKS)


def _testset(record: Data) -> Iterator[dict[str, Any]]:
    old = "reference_contexts" not in record
    if values.is_mapped(record, "chunks"):
        yield from read_contexts(record) if has_any(frozenset(record), *QUERY) else read_ragas(record)
    elif old:
        otherwise = f"; where your retriever has filled them in, say {option('format', 'ragas-old')}"
        raise no_retrieval("contexts", {"chunks": "contexts"}, otherwise)
    else:
        raise no_retrieval("reference_contexts", {"chunks": "reference_contexts"})


def _fits_testset(keys: Keys) -> bool:
    made = has(keys, "user_input", "reference_contexts")
    if made and not has_any(keys, "retrieved_contexts", "retrieved_context_ids"):
        return True
    return has_any(keys, *QUERY) and "contexts" in keys and has_any(keys, *MARKS)


TRUTHS = (*values.REFERENCES, *values.SEVERAL, "response")


SHAPES = (
    Shape(
        "judge-eval",
        "this package's own fields",
        lambda keys: has(keys, "query", "chunks"),
        _ours,
        frozenset(TRACE_FIELDS),
        frozenset({"chunks", "tags"}),
        ("ours",),
    ),
    Shape(
        "ragas",
        "ragas 0.2 and later",
        lambda keys: "user_input" in keys and has_any(keys, "retrieved_contexts", "retrieved_context_ids"),
        read_ragas,
        frozenset({"user_input", "retrieved_contexts", "reference", "response", "reference_contexts"}),
        frozenset({"retrieved_contexts", "reference_contexts", "retrieved_context_ids", "reference_context_ids"}),
    ),
    Shape(
        "ragas-old",
        "ragas before 0.2: `answer` is the generated answer",
        lambda keys: _fits_contexts(keys) and "chunks" not in keys and not _is_lynxius_item(keys),
        read_contexts,
        frozenset({"question", "contexts", "answer", "ground_truth", "ground_truths"}),
        frozenset({"contexts", "ground_truths"}),
    ),
    Shape(
        "qa",
        "questions with contexts, where `answer` is the expected answer",
        lambda keys: _fits_contexts(keys) and "answer" in keys and not has_any(keys, *TRUTHS, "chunks"),
        partial(read_flat, query=QUERY, chunks=("contexts",), reference="answer"),
        frozenset({"question", "contexts", "answer"}),
        frozenset({"contexts"}),
    ),
    Shape(
        "deepeval",
        "DeepEval test cases or goldens",
        _fits_deepeval,
        _deepeval,
        frozenset({"input", "actual_output", "expected_output", "retrieval_context", "retrievalContext", "context"}),
        frozenset({"retrieval_context", "retrievalContext"}),
    ),
    Shape(
        "llama-index-rag",
        "LlamaIndex' labelled dataset, which holds no retrieval",
        lambda keys: has(keys, "query", "reference_contexts") and not has_any(keys, "contexts", "chunks", *DOCUMENTS),
        _labelled,
        frozenset({"query", "reference_contexts", "reference_answer", "query_by"}),
    ),
    Shape(
        "documents",
        "a question with the documents of LangChain, LlamaIndex or Haystack",
        lambda keys: has_any(keys, *QUERY, "input", "query_str") and has_any(keys, *DOCUMENTS),
        partial(
            read_flat,
            query=(*QUERY, "input", "query_str"),
            chunks=DOCUMENTS,
            answer=("answer", "response", "result", "data"),
            reference=values.REFERENCES,
        ),
        frozenset({"query", "question", "documents", "source_documents", "source_nodes"}),
        frozenset(DOCUMENTS),
        ("langchain", "llama-index", "haystack"),
    ),
    Shape(
        "langchain-chain",
        "the output of a LangChain retrieval chain",
        lambda keys: has(keys, "input", "context", "answer"),
        partial(read_flat, query=("input",), chunks=("context",), answer="answer", reference=values.REFERENCES),
        frozenset({"input", "context", "answer"}),
        frozenset({"context"}),
    ),
    Shape(
        "lynxius",
        "a body of Lynxius' context precision, or an item of its data",
        lambda keys: _is_lynxius_item(keys) or (has(keys, "data", "label") and has_any(keys, "tags", "href")),
        _lynxius,
        frozenset({"query", "reference", "contexts", "data", "label", "href"}),
        frozenset({"contexts"}),
    ),
    Shape(
        "ragas-testset",
        "a testset of ragas, which holds no retrieval",
        _fits_testset,
        _testset,
        frozenset({"user_input", "reference_contexts", "reference", "synthesizer_name", *MARKS}),
        frozenset({"reference_contexts", "contexts"}),
    ),
)


def _is_lynxius_item(keys: Keys) -> bool:
    others = (*MARKS, "question", "answer", "response", "ground_truth", "ground_truths", "chunks")
    return has(keys, "query", "reference", "contexts") and not has_any(keys, *others)
