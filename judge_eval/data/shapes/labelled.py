"""Shapes of public sets that people labelled, on which a judge can be measured."""

from collections.abc import Iterator, Mapping
from typing import Any

from judge_eval.data.files import values
from judge_eval.data.shapes.benchmarks import CHOSEN
from judge_eval.data.shapes.shape import REMARKS, Data, Shape, has
from judge_eval.errors import DataError

_WICE = {"not_supported": 1, "partially_supported": 2, "supported": 3}
_ATTRIBUTION = {"not attributable": 1, "attributable": 3}
_NUGGET = {"not_support": 1, "partial_support": 2, "support": 3}


def _grade(record: Data, key: str, grades: Mapping[str, int]) -> int:
    """Return the grade of `support/graded` that a label stands for."""
    word = str(record.get(key)).strip().lower()
    if word not in grades:
        raise DataError(f"{word!r} is not one of {', '.join(grades)}", field=key)
    return grades[word]


def _wice(record: Data) -> Iterator[dict[str, Any]]:
    claim, meta = values.need_text(record, "claim"), record.get("meta")
    sentences = [str(sentence) for sentence in values.items(record, "evidence")]
    chunk = {"text": " ".join(sentences), "label": _grade(record, "label", _WICE)}
    id_ = meta.get("id") if isinstance(meta, Mapping) else None
    data: dict[str, Any] = {"query": claim, "reference": claim, "chunks": [chunk], REMARKS: [CHOSEN]}
    used = {"claim", "evidence", "label", "supporting_sentences", "meta"}
    made = values.completed(data | ({"id": str(id_)} if id_ is not None else {}), record, used)
    article = meta.get("claim_title") if isinstance(meta, Mapping) else None
    yield made | ({"metadata": {**made.get("metadata", {}), "cluster": article}} if article else {})


def _attribution(record: Data) -> Iterator[dict[str, Any]]:
    references = [str(text) for text in values.items(record, "references")]
    chunk = {"text": "\n\n".join(references), "label": _grade(record, "attribution_label", _ATTRIBUTION)}
    claim = values.need_text(record, "claim")
    data: dict[str, Any] = {
        "query": values.text(record, "question") or claim, "reference": claim, "chunks": [chunk], REMARKS: [CHOSEN],
    }  # fmt: skip
    made = values.completed(data, record, {"question", "claim", "references", "attribution_label"}, "id")
    yield made | {"metadata": {**made.get("metadata", {}), "cluster": data["query"]}}


def _miracl(record: Data) -> Iterator[dict[str, Any]]:
    chunks = []
    for key, label in (("positive_passages", 1), ("negative_passages", 0)):
        for place, passage in enumerate(values.maybe_list(record, key)):
            if not isinstance(passage, Mapping) or not isinstance(passage.get("text"), str):
                raise DataError("is not a passage with a `text`", field=f"{key}[{place}]")
            chunk = {"id": passage.get("docid"), "title": passage.get("title"), "text": passage["text"], "label": label}
            chunks.append({name: value for name, value in chunk.items() if value is not None})
    data: dict[str, Any] = {"query": values.need_text(record, "query"), "chunks": chunks, REMARKS: [CHOSEN]}
    if chunks and not any(chunk["label"] for chunk in chunks):
        data["answerable"] = False
    yield values.completed(data, record, {"query", "positive_passages", "negative_passages"}, "query_id")


def _clapnq(record: Data) -> Iterator[dict[str, Any]]:
    answers = [a for a in values.as_list(record.get("output"), "output") if isinstance(a, Mapping)]
    selected = {str(s).strip() for answer in answers for s in values.maybe_list(answer, "selected_sentences")}
    chunks = []
    for place, passage in enumerate(values.items(record, "passages")):
        if not isinstance(passage, Mapping):
            raise DataError("is not a passage", field=f"passages[{place}]")
        for sentence in values.as_list(passage.get("sentences"), f"passages[{place}].sentences"):
            title = {"title": passage["title"]} if isinstance(passage.get("title"), str) else {}
            chunks.append({"text": str(sentence), "label": int(str(sentence).strip() in selected), **title})
    data: dict[str, Any] = {"query": values.need_text(record, "input"), "chunks": chunks, REMARKS: [CHOSEN]}
    answer = next((str(a["answer"]) for a in answers if not values.is_missing(a.get("answer"))), None)
    if answers and answer is None:
        data["answerable"] = False
    yield values.completed(
        data | ({"reference": answer} if answer else {}), record, {"input", "passages", "output"}, "id"
    )


def _nuggets(record: Data) -> Iterator[dict[str, Any]]:
    answer, query = values.need_text(record, "answer_text", "answer", "text"), values.text(record, "query", "qid")
    for place, nugget in enumerate(values.items(record, "nuggets")):
        if not isinstance(nugget, Mapping):
            raise DataError("is not a nugget", field=f"nuggets[{place}]")
        text = values.need_text(nugget, "text")
        yield {
            "id": f"{record.get('qid', query)}-{record.get('run_id', '')}-{place}",
            "query": query or text, "reference": text, REMARKS: [CHOSEN],
            "chunks": [{"text": answer, "label": _grade(nugget, "assignment", _NUGGET)}],
            "metadata": {"cluster": str(record.get("qid", query))},
        }  # fmt: skip


SHAPES = (
    Shape(
        "wice", "WiCE: claims with the cited page, three levels of support as labels 1 to 3",
        lambda keys: has(keys, "claim", "evidence", "label", "supporting_sentences"), _wice,
        frozenset({"claim", "evidence", "label", "supporting_sentences"}), frozenset({"evidence"}),
    ),
    Shape(
        "attributionbench", "AttributionBench: claims with their references, attributable as label 3 or not as 1",
        lambda keys: has(keys, "claim", "references", "attribution_label"), _attribution,
        frozenset({"question", "claim", "references", "attribution_label"}), frozenset({"references"}),
    ),
    Shape(
        "nomiracl", "NoMIRACL and MIRACL: queries with judged passages, as labels",
        lambda keys: has(keys, "query", "positive_passages", "negative_passages"), _miracl,
        frozenset({"query_id", "query", "positive_passages", "negative_passages"}),
        frozenset({"positive_passages", "negative_passages"}),
    ),
    Shape(
        "clapnq", "ClapNQ: sentences of a passage, labelled if a person used them for the answer",
        lambda keys: has(keys, "input", "passages", "output"), _clapnq,
        frozenset({"id", "input", "passages", "output"}), frozenset({"passages", "output"}),
    ),
    Shape(
        "nuggets", "TREC RAG: answers with nuggets that people assigned, as labels 1 to 3",
        lambda keys: "nuggets" in keys and ("answer_text" in keys or has(keys, "answer", "run_id")), _nuggets,
        frozenset({"qid", "nuggets", "answer_text", "run_id"}), frozenset({"nuggets"}),
    ),
)  # fmt: skip
