"""Collections of several files: topics, run and judgments, joined with their corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from judge_eval import limits
from judge_eval.data.collections.corpus import corpus_file, load_corpus
from judge_eval.data.collections.qrels import read_qrels, read_run
from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.jsonfile import entries, objects_in
from judge_eval.data.files.opening import reading_file
from judge_eval.data.files.values import as_list, first_of
from judge_eval.errors import DataError

Ranked: TypeAlias = dict[str, list[tuple[str, float | None]]]
"""By query, the documents with their scores, best first."""

JUDGED = "judged"
FORMATS = ("trec", "beir", JUDGED)
RUN_LINE = re.compile(rb"\S+\s+\S+\s+\S+\s+[0-9]+\s+[-+0-9.eEinfINF]+\s+\S+")
TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
XML_TOPIC = re.compile(
    r"<topic\s+number=[\"']?([^\"'\s>]+)[\"']?[^>]*>(.*?)</topic>", re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Parts:
    """The files of a collection."""

    home: Path
    run: Path | None
    queries: Path | None
    qrels: Path | None
    corpus: Path | None


def find_parts(path: Path, corpus: Path | None, format: str | None) -> Parts | None:
    """Find the files of a collection; None where the path is a file of records.

    Args:
        path: A folder with all parts, a TREC run, or a dataset of LlamaIndex' embedding QA.
        corpus: The corpus, or a folder with the parts that are not beside the run.
        format: `trec`, `beir` or `judged` where the user said so.
    """
    if path.is_dir():
        return _in_folder(path, None, corpus)
    if format in ("trec", "beir") or (format is None and _is_run(path)):
        return _in_folder(corpus if corpus and corpus.is_dir() else path.parent, path, corpus)
    if path.suffix.lower() == ".json" and format in (None, JUDGED) and _is_embedding_qa(path):
        run = _first(path.parent, "run*.trec", "run*.txt", "*.run", "run.json")
        return Parts(path, run, path, path, path)
    return None


def _in_folder(home: Path, run: Path | None, corpus: Path | None) -> Parts:
    places = [home, corpus] if corpus is not None and corpus.is_dir() and corpus != home else [home]
    files: dict[str, Path | None] = {"corpus": corpus if corpus is not None and corpus.is_file() else None}
    for place in places:
        files["run"] = (
            files.get("run") or run or _first(place, "run*.trec", "run*.txt", "*.run", "run*.tsv", "run.json")
        )
        files["queries"] = files.get("queries") or _first(place, "queries.*", "topics.*", "topics*")
        files["qrels"] = files.get("qrels") or _first(
            place, "qrels/test.tsv", "qrels/dev.tsv", "qrels/*.tsv", "qrels*.t*", "*.qrels", "qrels"
        )
        files["corpus"] = files.get("corpus") or corpus_file(place)
    return Parts(home, files["run"], files["queries"], files["qrels"], files["corpus"])


def _first(folder: Path, *patterns: str) -> Path | None:
    for pattern in patterns:
        hits = sorted(path for path in folder.glob(pattern) if path.is_file())
        if hits:
            return hits[0]
    return None


def _is_run(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.readline(10000)
    except OSError:
        return False
    return RUN_LINE.fullmatch(head.removeprefix(b"\xef\xbb\xbf").strip()) is not None


def _is_embedding_qa(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            if b'"queries"' not in file.read(200):
                return False
        return {"queries", "corpus", "relevant_docs"} <= objects_in(path, str(path))
    except (OSError, DataError):
        return False


def traces(parts: Parts, judged: bool, depth: int | None, relevant: int | None) -> Iterator[dict[str, Any]]:
    """Yield the data of a trace for every query of the run and of the judgments.

    The order of the chunks is trec_eval's: score descending, then id descending. A query that has judgments
    but stands nowhere in the run is a trace without chunks, so that no mean leaves it out. Labels are the
    grades of the judgments, and the pool is all of them. `relevant_total` counts the relevant ones; where
    there are grades above 1 and nobody said which count, it stays unknown.

    Args:
        parts: The files.
        judged: Take the judged documents in place of a run, in the order of the file (which is no ranking).
        depth: The most chunks of a query to take.
        relevant: The least grade that counts as relevant.

    Raises:
        DataError: A part is missing, cannot be read, or points to an id that is not there.
    """
    home = str(parts.home)
    if parts.queries is None:
        raise DataError("no queries here; name them queries.jsonl or topics.tsv", file=home)
    qrels = {} if parts.qrels is None else _qrels(parts.qrels)
    if judged:
        if not qrels:
            raise DataError("no judgments here; name them qrels.txt or qrels/test.tsv", file=home)
        ranked: Ranked = {query: [(doc, None) for doc in docs] for query, docs in qrels.items()}
    elif parts.run is None:
        raise DataError(
            "no retriever's run here, only queries and documents; put its TREC run beside them as "
            f"run.trec, or judge the documents that people have judged with --format {JUDGED}",
            file=home,
        )
    else:
        ranked = _ranked(parts.run)
        ranked |= {query: [] for query in qrels if query not in ranked}
    cut = {query: docs if depth is None else docs[:depth] for query, docs in ranked.items()}
    if parts.corpus is None:
        raise DataError("no corpus here; name it corpus.jsonl, or give --corpus", file=home)
    corpus = load_corpus(parts.corpus, {doc for docs in cut.values() for doc, _ in docs})
    queries = _queries(parts.queries)
    highest = max((grade for grades in qrels.values() for grade in grades.values()), default=0)
    graded = highest > 1
    least = relevant if relevant is not None else None if graded else 1
    for query, docs in cut.items():
        if query not in queries:
            raise DataError(f"no query {query!r} in {parts.queries}", file=str(parts.run or parts.qrels))
        grades = qrels.get(query, {})
        chunks = []
        for doc, score in docs:
            chunk = corpus.join({"id": doc}, f"query {query!r}")
            if score is not None:
                chunk["score"] = score
            if grades.get(doc, -1) >= 0:  # below 0 it is in the pool, but nobody judged it
                chunk["label"] = grades[doc]
            chunks.append(chunk)
        data: dict[str, Any] = {**queries[query], "id": query, "chunks": chunks}
        if query in qrels and least is not None:
            data["relevant_total"] = sum(grade >= least for grade in grades.values())
        judged_ones = {doc: grade for doc, grade in grades.items() if grade >= 0}
        if query in qrels and highest <= limits.GRADE and len(judged_ones) <= limits.POOL:
            data["pool"] = {"grades": judged_ones, "maximum": max(1, highest)}
        yield data


def _ranked(path: Path) -> Ranked:
    run = _json_tables(path) if path.suffix.lower() == ".json" else read_run(path)
    return {
        query: [(doc, score) for score, doc in sorted(((s, d) for d, s in docs.items()), reverse=True)]
        for query, docs in run.items()
    }


def _json_tables(path: Path) -> dict[str, dict[str, float]]:
    with reading_file(path):
        text = path.read_bytes()
    try:
        data = json.loads(text)
        return {str(q): {str(d): float(s) for d, s in docs.items()} for q, docs in data.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise DataError("a run as JSON is an object: query to document to score", file=str(path)) from None


def _qrels(path: Path) -> Mapping[str, Mapping[str, int]]:
    """Read TREC's judgments, BEIR's table of them, or those inside a JSON dataset."""
    if path.suffix.lower() == ".json":
        relevant = entries(path, str(path), "relevant_docs")
        return {
            query: {str(doc): 1 for doc in as_list(docs, f"relevant_docs.{query}")}
            for query, docs, _ in relevant
        }
    with path.open("rb") as file:
        head = file.readline().split()
    if len(head) != 3:
        return read_qrels(path)
    judgments: dict[str, dict[str, int]] = {}
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if number == 1 and cells[-1].strip().lower() in ("score", "relevance", "label"):
            continue
        try:
            query, doc, grade = cells
            judgments.setdefault(query, {})[doc] = int(grade)
        except ValueError:
            raise DataError(
                "a judgment is a query, a document, a grade", file=str(path), line=number
            ) from None
    return judgments


def _queries(path: Path) -> dict[str, dict[str, Any]]:
    name = str(path)
    head = _head(path)
    if "<top" in head.lower():
        return _topics(path)
    if path.suffix.lower() == ".json" and _is_embedding_qa(path):
        return {key: {"query": str(value)} for key, value, _ in entries(path, name, "queries")}
    first = head.splitlines()[0] if head else ""
    if first[:1] not in ("{", "[") and not {"id", "_id", "qid", "query_id", "query-id"} & set(
        re.split(r"[\t,]", first)
    ):
        return _bare_topics(path)
    queries = {}
    for row in rows(path, kind_of(path, name), name, lambda record: _topic(record)[0] is not None):
        record = row.get()
        key, text = _topic(record)
        if key is None or not isinstance(text, str):
            raise DataError("a query is an id with a text", file=name, line=row.line)
        data: dict[str, Any] = {"query": text}
        for field, keys in (
            ("reference", ("reference", "answer", "expected_answer")),
            ("answer", ("response",)),
        ):
            texts = [record[k] for k in keys if isinstance(record.get(k), str) and record[k]]
            if texts:
                data[field] = texts[0]
        queries[str(key)] = data
    return queries


def _topic(record: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the id and the question of a record, None where it has none."""
    key = first_of(record, "_id", "id", "qid", "query_id", "query-id")
    return key, first_of(record, "text", "query", "question", "title")


def _head(path: Path) -> str:
    with reading_file(path), path.open("rb") as file:
        return file.read(4096).decode("utf-8-sig", "replace").lstrip()


def _bare_topics(path: Path) -> dict[str, dict[str, Any]]:
    queries = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        key, separator, text = line.partition("\t" if "\t" in line else ":")
        if not separator or not text.strip():
            raise DataError("a topic is an id, a tab and a question", file=str(path), line=number)
        queries[key.strip()] = {"query": text.strip()}
    return queries


def _topics(path: Path) -> dict[str, dict[str, Any]]:
    """Read TREC's tagged topics; the title is the question, else the description."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    queries = {}
    for body in TOPIC.findall(text):
        number = re.search(r"<num>\s*(?:Number:)?\s*([^\s<]+)", body, re.IGNORECASE)
        question = _tag(body, "title") or _tag(body, "desc")
        if number and question:
            queries[number[1]] = {"query": question}
    for number_, body in XML_TOPIC.findall(text):
        question = _tag(body, "query") or _tag(body, "title") or _tag(body, "question") or body.strip()
        queries[number_] = {"query": question}
    return queries


def _tag(body: str, name: str) -> str | None:
    match = re.search(rf"<{name}>(.*?)(?=<|\Z)", body, re.DOTALL | re.IGNORECASE)
    words = re.sub(r"^\s*(Topic|Description):", "", match[1], flags=re.IGNORECASE).split() if match else []
    return " ".join(words) or None
