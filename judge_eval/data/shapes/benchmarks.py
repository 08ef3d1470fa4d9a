"""Shapes of other evaluators' files, and of data sets that benchmarks publish."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from judge_eval.data.files import values
from judge_eval.data.shapes.flat import QUERY, read_flat
from judge_eval.data.shapes.shape import PLACE, REMARKS, Data, Shape, has, has_any
from judge_eval.errors import DataError
from judge_eval.objects import number_text
from judge_eval.safe_text import value_kind

CHOSEN = (
    "holds passages that people chose, in no retriever's ranking: their labels are for measuring the judge, "
    "and ranking metrics say nothing of a retriever"
)
"""The remark on a data set whose passages were not retrieved."""
ASSERTIONS = frozenset({"javascript", "python", "fn", "eval", "grade", "cost", "latency", "regex", "levenshtein"})
"""promptfoo's assertions of one word that hold no answer."""


def _answers(data: dict[str, Any], answers: Sequence[Any], key: str) -> bool:
    """Take the first of reference answers of which any will do; tell whether it is the only one."""
    texts = list(dict.fromkeys(str(number_text(answer)) for answer in answers if not values.is_missing(answer)))
    if texts:
        data["reference"] = texts[0]
    if len(texts) > 1:
        data.setdefault(REMARKS, []).append(values.first_of_several(key))
    return len(texts) < 2


def _objects(value: Any, field: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for place, item in enumerate(values.as_list(values.decode_mapping(value), field)):
        where = f"{field}[{place}]"
        if not isinstance(item, Mapping):
            raise DataError(f"is {value_kind(item)}, not an object", field=where)
        yield where, item


def _passages(value: Any, field: str, key: str, *beside: str) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Yield objects with the chunk of each: the text under a key, and of what stands beside it metadata."""
    for where, item in _objects(value, field):
        kept = {name: item[name] for name in beside if not values.is_missing(item.get(name))}
        yield item, {"text": _text_in(item, key, f"{where}."), "metadata": kept}


def _text_in(record: Data, key: str, where: str = "") -> str:
    if not isinstance(record.get(key), str):
        raise DataError(f"holds {value_kind(record.get(key))}, not a text", field=where + key)
    return str(record[key])


def _autorag(record: Data) -> Iterator[dict[str, Any]]:
    chunks = [{"text": text} for text in values.items(record, "retrieved_contents")]
    for key, field in (("retrieved_ids", "id"), ("retrieve_scores", "score")):
        column = values.maybe_list(record, key)
        if column and len(column) != len(chunks):
            raise DataError(f"{len(column)} for {len(chunks)} contents", field=key)
        for chunk, value in zip(chunks, column, strict=False):
            chunk[field] = value
    data: dict[str, Any] = {"query": values.need_text(record, *QUERY), "chunks": chunks}
    used = {*QUERY, "retrieved_contents", "retrieved_ids", "retrieve_scores", "generated_texts"}
    wanted = values.decode_mapping(record.get("retrieval_gt"))
    groups = [group if isinstance(group, list) else [group] for group in wanted] if isinstance(wanted, list) else []
    relevant = {str(key) for group in groups for key in group}
    if relevant and all("id" in chunk for chunk in chunks):
        for chunk in chunks:
            chunk["label"] = int(str(chunk["id"]) in relevant)
        if all(len(group) == 1 for group in groups):  # of several in a group one is enough
            data["relevant_total"] = len(relevant)
    truths = values.decode_mapping(record.get("generation_gt"))
    if _answers(data, truths if isinstance(truths, list) else [truths], "generation_gt"):
        used.add("generation_gt")
    yield values.completed(data, record, used, "qid", answer="generated_texts")


def _financebench(record: Data) -> Iterator[dict[str, Any]]:
    evidence = record.get("evidence", [record])
    passages = _passages(evidence, "evidence", "evidence_text", "doc_name", "evidence_page_num")
    chunks = [{**chunk, "label": 1} for _, chunk in passages]
    data: dict[str, Any] = {"query": values.need_text(record, *QUERY), "chunks": chunks, REMARKS: [CHOSEN]}
    data["relevant_total"] = len(chunks)
    used = {*QUERY, "evidence", "evidence_text", "evidence_text_full_page", "answer"}
    yield values.completed(data, record, used, "financebench_id", reference="answer")


def _crag(record: Data) -> Iterator[dict[str, Any]]:
    pages = record.get("search_results")
    passages = _passages(pages, "search_results", "page_snippet", "page_url", "page_last_modified")
    chunks = [{**chunk, "title": page.get("page_name")} for page, chunk in passages]
    data: dict[str, Any] = {"query": values.need_text(record, *QUERY), "chunks": chunks}
    used = {*QUERY, "search_results", "answer"}
    if _answers(data, [record.get("answer"), *values.maybe_list(record, "alt_ans")], "alt_ans"):
        used.add("alt_ans")
    yield values.completed(data, record, used, "interaction_id")


def _rgb(record: Data) -> Iterator[dict[str, Any]]:
    chunks = []
    for key, label in (("positive", 1), ("negative", 0)):
        for text in values.as_list(values.decode_mapping(record.get(key)), key):
            chunks += [{"text": piece, "label": label} for piece in (text if isinstance(text, list) else [text])]
    data: dict[str, Any] = {"query": values.need_text(record, *QUERY), "chunks": chunks, REMARKS: [CHOSEN]}
    data["relevant_total"] = sum(chunk["label"] for chunk in chunks)
    # Each part of an answer is wanted; of a part that is a list any one will do.
    answer = values.decode_mapping(record.get("answer"))
    parts = [part if isinstance(part, list) else [part] for part in (answer if isinstance(answer, list) else [answer])]
    texts = [str(number_text(part[0])) for part in parts if part and not values.is_missing(part[0])]
    if texts:
        data["reference"] = "; ".join(texts)
    used = {*QUERY, "positive", "negative"}
    if any(len(part) > 1 for part in parts):
        data[REMARKS].append(values.first_of_several("answer"))
    else:
        used.add("answer")
    yield values.completed(data, record, used)


def _squad(record: Data) -> Iterator[dict[str, Any]]:
    if "paragraphs" not in record:
        yield _squad_question(record, _text_in(record, "context"), record.get("title"), {})
        return
    beside = {} if values.is_missing(record.get("title")) else {"title": record["title"]}
    for where, paragraph in _objects(record.get("paragraphs"), "paragraphs"):
        context = _text_in(paragraph, "context", f"{where}.")
        for place, question in _objects(paragraph.get("qas"), f"{where}.qas"):
            data = _squad_question(question, context, record.get("title"), beside)
            article = f" of {record['title']!r}" if beside else ""
            unanswerable = ", unanswerable" if question.get("is_impossible") is True else ""
            yield {**data, PLACE: f"{place} ({question.get('id', 'a question')}{article}{unanswerable})"}


def _squad_question(record: Data, context: str, title: Any, beside: Data) -> dict[str, Any]:
    answers = values.decode_mapping(record.get("answers"))
    if isinstance(answers, Mapping):
        texts = values.as_list(answers.get("text"), "answers.text")
    else:
        texts = [item.get("text") for _, item in _objects(answers if answers is not None else [], "answers")]
    chunk: dict[str, Any] = {"text": context, "label": int(bool(texts))}
    if isinstance(title, str) and title:
        chunk["title"] = title
    data: dict[str, Any] = {"query": values.need_text(record, "question"), "chunks": [chunk], REMARKS: [CHOSEN]}
    if not texts or record.get("is_impossible") is True:
        data["answerable"] = False
    used = {"question", "context", "title", "is_impossible"}
    if _answers(data, texts, "answers"):
        used.add("answers")
    return values.completed(data, {**beside, **record}, used)


def _hotpot(record: Data) -> Iterator[dict[str, Any]]:
    context = _pairs(record.get("context"), "context", "title", "sentences")
    facts = _pairs(record.get("supporting_facts"), "supporting_facts", "title", "sent_id")
    gold = {str(title) for title, _ in facts}
    chunks = []
    for place, (title, sentences) in enumerate(context):
        if not isinstance(sentences, list):
            raise DataError("a paragraph is a title with its list of sentences", field=f"context[{place}]")
        body, title = "".join(map(str, sentences)).strip(), str(title)
        chunks.append({"id": title, "title": title, "text": body, "label": int(title in gold)})
    data: dict[str, Any] = {"query": values.need_text(record, "question"), "chunks": chunks}
    if gold:
        data["relevant_total"] = len(gold)
    used = {"question", "answer", "context", "supporting_facts"}
    yield values.completed(data, record, used, reference="answer")


def _pairs(value: Any, field: str, left: str, right: str) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        sides = values.as_list(value.get(left), f"{field}.{left}"), values.as_list(value.get(right), f"{field}.{right}")
        value = list(zip(*sides, strict=False))
    out = []
    for place, pair in enumerate(values.as_list(value if value is not None else [], field)):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise DataError(f"is {value_kind(pair)}; a pair belongs here", field=f"{field}[{place}]")
        out.append((pair[0], pair[1]))
    return out


def _promptfoo(record: Data) -> Iterator[dict[str, Any]]:
    context = values.decode_mapping(record.get("context"))
    if values.is_missing(context):
        raise DataError("the retrieved text is missing; the variable `context` must hold it", field="context")
    data: dict[str, Any] = {
        "query": values.need_text(record, *QUERY, "prompt", "input"),
        "chunks": [context] if isinstance(context, str) else values.as_list(context, "context"),
    }
    outputs = [key for key in record if key.startswith("[")]
    if len(outputs) == 1 and (answer := values.text(record, outputs[0])) is not None:
        data["answer"] = answer  # of several providers nobody can say whose chunks these are
    expected = sorted(key for key in record if key.startswith("__expected"))
    for key in expected:
        reference = _expected(str(record[key] or ""))
        if reference:
            data["reference"] = reference
            break
    used = {*QUERY, "prompt", "input", "context", "__description", *expected}
    yield values.completed(data, record, used | ({outputs[0]} if len(outputs) == 1 else set()))


def _expected(cell: str) -> str | None:
    """Take the expected answer out of a promptfoo assertion; None where it is about something else."""
    head, colon, value = cell.partition(":")
    name = head.split("(", 1)[0].strip()
    if name in ("equals", "similar", "contains", "icontains", "factuality", "context-recall", "answer") and colon:
        return value.strip()
    bare = name.removeprefix("not-")
    typed = bare.replace("-", "").isalpha() and bare.islower() and ("-" in name or bare in ASSERTIONS)
    return None if typed else cell.strip() or None


SHAPES = (
    Shape(
        "ragchecker",
        "RAGChecker's inputs and results",
        lambda keys: "retrieved_context" in keys and has_any(keys, *QUERY),
        partial(
            read_flat,
            query=QUERY,
            chunks=("retrieved_context",),
            id_key="query_id",
            reference="gt_answer",
            answer="response",
        ),
        frozenset({"query_id", "query", "gt_answer", "response", "retrieved_context"}),
        frozenset({"retrieved_context"}),
    ),
    Shape(
        "autorag",
        "AutoRAG's table of a node's results",
        lambda keys: "retrieved_contents" in keys and has_any(keys, *QUERY),
        _autorag,
        frozenset({"qid", "query", "retrieved_contents", "retrieved_ids", "retrieve_scores", "generation_gt"}),
        frozenset({"retrieved_contents", "retrieved_ids", "retrieve_scores"}),
    ),
    Shape(
        "financebench",
        "FinanceBench: questions with the evidence that people chose, as labels",
        lambda keys: (
            "question" in keys
            and ("evidence_text" in keys or ("evidence" in keys and has_any(keys, "financebench_id", "doc_name")))
        ),
        _financebench,
        frozenset({"financebench_id", "question", "answer", "evidence", "doc_name"}),
    ),
    Shape(
        "crag",
        "CRAG: questions with the snippets of the pages that a web search returned",
        lambda keys: "search_results" in keys and has_any(keys, *QUERY),
        _crag,
        frozenset({"interaction_id", "query", "search_results", "answer", "alt_ans"}),
        frozenset({"alt_ans"}),
    ),
    Shape(
        "rgb",
        "RGB: questions with positive and negative passages, as labels",
        lambda keys: has(keys, "positive", "negative") and has_any(keys, *QUERY),
        _rgb,
        frozenset({"id", "query", "answer", "positive", "negative"}),
    ),
    Shape(
        "squad",
        "SQuAD's form: paragraphs with questions, or a question with its paragraph, as labels",
        lambda keys: (
            ("paragraphs" in keys and not has_any(keys, *QUERY, "input", "user_input"))
            or (has(keys, "question", "context", "answers") and "supporting_facts" not in keys)
        ),
        _squad,
        frozenset({"title", "paragraphs", "question", "context", "answers"}),
    ),
    Shape(
        "hotpotqa",
        "HotpotQA: paragraphs with supporting facts",
        lambda keys: has(keys, "question", "context", "supporting_facts"),
        _hotpot,
        frozenset({"question", "answer", "context", "supporting_facts"}),
    ),
    Shape(
        "promptfoo",
        "promptfoo's table of tests, or of results",
        lambda keys: (
            "context" in keys
            and (any(key.startswith("__") for key in keys) or has(keys, "Status", "Score", "Grader Reason"))
        ),
        _promptfoo,
        frozenset({"query", "question", "context", "__expected", "__description"}),
    ),
)
