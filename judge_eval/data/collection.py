"""Collections of several files: a BEIR folder, TREC topics with a run and qrels."""

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from judge_eval import limits
from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.jsonfile import read_document
from judge_eval.data.files.opening import first_line, head_of, reading_file, steady
from judge_eval.data.files.tables import Row
from judge_eval.data.files.values import as_list, first_of
from judge_eval.data.shapes.chunks import ID
from judge_eval.errors import DataError
from judge_eval.spelling import option

T = TypeVar("T")
WHOLE = re.compile(r"[+-]?[0-9]{1,9}")


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Read judgments by query and document: lines of query, iteration, document, grade, or BEIR's of three cells."""
    # Empty lines and lines that begin with `#` are skipped. A negative grade means "in the pool, unjudged".
    qrels: dict[str, dict[str, int]] = {}
    for line, query, document, grade in judgments_in(path, str(path)):
        put_once(qrels, query, document, grade, path, line)
    return qrels


def judgments_in(path: Path | str, name: str) -> Iterator[tuple[int, str, str, int]]:
    """Yield the judgments of a file: line, query, document, grade."""
    for line, fields in _lines(path, name):
        if len(fields) != 4:
            fault = f"{len(fields)} fields; a judgment has 4: query, iteration, document, grade"
            raise DataError(fault, file=name, line=line)
        query, iteration, document, grade = fields
        if line == 1 and not iteration and grade.strip().lower() in ("score", "relevance", "label"):
            continue
        if not WHOLE.fullmatch(grade):
            raise DataError(f"{grade!r} is not a whole number", file=name, line=line, field="grade")
        yield line, query, document, int(grade)


def read_run(path: Path | str) -> dict[str, dict[str, float]]:
    """Read a run, scores by query and document: lines of query, `Q0`, document, rank, score, tag."""
    # The rank is not read, as in trec_eval: the order follows from the scores. Empty lines, lines that begin
    # with `#` and what stands behind the tag are skipped.
    run: dict[str, dict[str, float]] = {}
    for line, fields in _lines(path, str(path)):
        if len(fields) < 6:
            fault = f"{len(fields)} fields; a retrieved document has 6: query, Q0, document, rank, score, tag"
            raise DataError(fault, file=str(path), line=line)
        try:
            score = float(fields[4])
        except ValueError:
            score = math.nan
        if math.isnan(score) or "_" in fields[4]:
            raise DataError(f"{fields[4]!r} is not a number", file=str(path), line=line, field="score")
        put_once(run, fields[0], fields[2], score, path, line)
    return run


def _lines(path: Path | str, name: str) -> Iterator[tuple[int, list[str]]]:
    with steady(Path(path)) as plain, reading_file(name), plain.open("rb") as file:
        for number, raw in enumerate(file, 1):
            data = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            try:
                # Split as bytes: an id may hold any white space that is not ASCII. BEIR's judgments have no iteration,
                # and a tab between their cells.
                cells = data.rstrip(b"\r\n").split(b"\t")
                parts = [cells[0], b"", *cells[1:]] if len(cells) == 3 else data.split()
                fields = [part.decode() for part in parts]
            except UnicodeDecodeError:
                raise DataError("not UTF-8 text", file=name, line=number) from None
            if fields and not fields[0].startswith("#"):
                yield number, fields


def put_once(table: dict[str, dict[str, T]], query: str, document: str, value: T, path: Path | str, line: int) -> None:
    """Add a value by query and document; raises `DataError` if there is one."""
    row = table.setdefault(query, {})
    if document in row:
        raise DataError(f"document {document!r} occurs twice for query {query!r}", file=str(path), line=line)
    row[document] = value


NAMES = ("corpus", "collection", "documents", "docs")
SUFFIXES = (".jsonl", ".json", ".tsv", ".csv", ".parquet")
BODY = ("text", "contents", "content", "page_content", "body", "passage", "document", "abstract", "doc")
MS_MARCO = "msmarco_v2_passage"
"""The folder of the passages of MS MARCO v2, and how the names of its files begin."""


class Corpus:
    """Chunks by id."""

    def __init__(self, chunks: Mapping[str, tuple[str | None, str]], name: str) -> None:
        self._chunks, self._name = chunks, name

    def join(self, chunk: dict[str, Any], field: str) -> dict[str, Any]:
        """Give a chunk that brings only an id its text and title."""
        entry = self._chunks.get(chunk["id"])
        if entry is None:
            raise DataError(f"no chunk {chunk['id']!r} in the corpus {self._name}", field=field)
        title, text = entry
        return {**chunk, "text": text, **({"title": title} if title and "title" not in chunk else {})}


def corpus_file(folder: Path) -> Path | None:
    """Find the corpus in a folder by its name, such as `corpus.jsonl` or `collection.tsv`."""
    names = (f"{name}{suffix}{packed}" for packed in ("", ".gz") for name in NAMES for suffix in SUFFIXES)
    return _first(folder, *names, "llm4eval_document*")


class CorpusChunk(NamedTuple):
    """One chunk of a corpus, and where it stands."""

    file: Path
    line: int | None
    key: str
    """Its id; several chunks of a corpus may have one."""
    title: str | None
    text: str


def corpus_files(path: Path) -> list[Path]:
    """Return the files of a corpus.

    It is JSON Lines, JSON, CSV, TSV or Parquet with an id (`_id`, `id`, `doc_id`), a text, perhaps a title; TSV of id
    and text without a header; a JSON object of texts by id; or a folder that holds one of these as `corpus.*` or
    `collection.tsv`, or the files of MS MARCO v2.

    Raises:
        DataError: The folder holds no corpus.
    """
    if not path.is_dir():
        return [path]
    file = corpus_file(path)
    files = [file] if file is not None else sorted(path.glob(f"{MS_MARCO}_*"))
    if not files:
        raise DataError(f"no corpus here; name it corpus.jsonl ({', '.join(NAMES)})", file=str(path))
    return files


def corpus_chunks(files: Iterable[Path]) -> Iterator[CorpusChunk]:
    """Read the chunks of a corpus, one after the other."""
    for file in files:
        with steady(file) as plain:
            yield from _chunks_in(plain, file)


def load_corpus(path: Path, wanted: Container[str] | None = None) -> Corpus:
    """Read a corpus, whose ids must differ, into memory; with `wanted` only these ids."""
    files = corpus_files(path)
    chunks: dict[str, tuple[str | None, str]] = {}
    for file, line, key, title, text in corpus_chunks(files):
        if wanted is not None and key not in wanted:
            continue
        if key in chunks:
            raise DataError(f"the id {key!r} occurs twice in the corpus", file=str(file), line=line)
        chunks[key] = (title, text)
    return Corpus(chunks, str(files[0] if len(files) == 1 else path))


def _chunks_in(path: Path, file: Path) -> Iterator[CorpusChunk]:
    name = str(file)
    kind = kind_of(path, name)
    if kind == "tsv":
        header = set(first_line(path).decode(errors="replace").rstrip("\r").split("\t"))
        if header.isdisjoint(ID) or header.isdisjoint(BODY):
            yield from _bare_lines(path, file)
            return
    if kind == "json" and head_of(path).lstrip()[:1] == b"{":
        document = read_document(path, name)
        inner = document.get("corpus") if isinstance(document, Mapping) else None
        texts = inner if isinstance(inner, Mapping) else document
        if isinstance(texts, Mapping) and _by_id(texts):
            for key, value in texts.items():
                bare = isinstance(value, str)
                yield CorpusChunk(file, None, key, None, value) if bare else _chunk({"id": key, **value}, file, None)
            return
    for row in rows(path, kind, name, lambda record: bool(record.keys() & {"_id", *ID} and record.keys() & {*BODY})):
        yield _chunk(row.get(), file, row.line)


def _by_id(data: Mapping[str, Any]) -> bool:
    if not data or set(data) & {*BODY, *ID}:
        return False
    return all(isinstance(v, str) or (isinstance(v, Mapping) and set(v) & set(BODY)) for v in data.values())


def _chunk(record: Mapping[str, Any], file: Path, line: int | None) -> CorpusChunk:
    key = first_of(record, "_id", *ID)
    if key is None:
        raise DataError("no id (`_id`, `id`, `doc_id`, ...)", file=str(file), line=line)
    bodies = (record.get(key) for key in BODY)
    joined = (" ".join(b) if isinstance(b, list) and all(isinstance(s, str) for s in b) else b for b in bodies)
    text = next((body for body in joined if isinstance(body, str)), None)
    if text is None:
        raise DataError("no text (`text`, `contents`, ...)", file=str(file), line=line)
    title = record.get("title")
    return CorpusChunk(file, line, str(key), title if isinstance(title, str) and title else None, text)


def _bare_lines(path: Path, file: Path) -> Iterator[CorpusChunk]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                cells = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
            except UnicodeDecodeError:
                raise DataError("not UTF-8 text", file=str(file), line=number) from None
            if len(cells) in (2, 3):
                yield CorpusChunk(file, number, cells[0], cells[1] if len(cells) == 3 else None, cells[-1])
            elif cells != [""]:
                fault = f"{len(cells)} cells; a line is an id and a text, with a title between them or not"
                raise DataError(fault, file=str(file), line=number)


Ranked: TypeAlias = dict[str, list[tuple[str, float | None]]]
"""By query, the documents with their scores, best first."""

JUDGED = "judged"
FORMATS = ("trec", "beir", JUDGED)
RUN_LINE = re.compile(rb"\S+\s+\S+\s+\S+\s+[0-9]+\s+[-+0-9.eEinfINF]+\s+\S+")
JUDGMENT = re.compile(
    rb"\S+[ \t]+(?:0|Q0)[ \t]+\S+[ \t]+-?[0-9]+[ \t]*\r?(?:\n|$)"
    rb"|(?:query-id|query_id|qid)\t(?:corpus-id|doc_id|docid|corpus_id)\t(?:score|relevance|label)\r?\n"
)
"""The first line of a qrels file: TREC's, or the header of BEIR's."""
PATTERNS: Mapping[str, tuple[str, ...]] = {
    "run": ("run*.trec", "run*.txt", "*.run", "run*.tsv", "run.json"),
    "queries": ("queries.*", "topics.*", "topics*", "*queries*.tsv*", "llm4eval_query*"),
    "qrels": (
        "qrels/test.tsv",
        "qrels/dev.tsv",
        "qrels/*.tsv",
        "qrels*.t*",
        "*.qrels",
        "qrels",
        "*qrels*.t*",
        "*_qrel_*",
    ),
}
"""What the files of a collection are called, the first match first."""
QUERY_ID = ("_id", "id", "qid", "query_id", "query-id")
"""What the id of a query is called, the likeliest first."""
TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
XML_TOPIC = re.compile(r"<topic\s+number=[\"']?([^\"'\s>]+)[\"']?[^>]*>(.*?)</topic>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Parts:
    """The files of a collection."""

    home: Path
    run: Path | None
    queries: Path | None
    qrels: Path | None
    corpus: Path | None


def find_parts(path: Path, corpus: Path | None, format: str | None) -> Parts | None:
    """Find the files of a collection: a folder, a TREC run, LlamaIndex' embedding QA; else None."""
    if path.is_dir():
        return _in_folder(path, None, corpus)
    if format in ("trec", "beir") or (format is None and _is_run(path)):
        return _in_folder(corpus if corpus and corpus.is_dir() else path.parent, path, corpus)
    if format in (None, JUDGED) and _is_embedding_qa(path):
        run = _first(path.parent, "run*.trec", "run*.txt", "*.run", "run.json")
        return Parts(path, run, path, path, path)
    return None


def _in_folder(home: Path, run: Path | None, corpus: Path | None) -> Parts:
    places = [home, corpus] if corpus is not None and corpus.is_dir() and corpus != home else [home]
    own_corpus = corpus if corpus is not None and corpus.is_file() else None
    files: dict[str, Path | None] = {"run": run, "corpus": own_corpus}
    for place in places:
        for part, patterns in PATTERNS.items():
            files[part] = files.get(part) or _first(place, *patterns)
        files["corpus"] = files["corpus"] or corpus_file(place) or next(place.glob(MS_MARCO), None)
    return Parts(home, **files)


def _first(folder: Path, *patterns: str) -> Path | None:
    hits = (path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file())
    return next(hits, None)


def _is_run(path: Path) -> bool:
    try:
        return RUN_LINE.fullmatch(first_line(path).strip()) is not None
    except DataError:
        return False


def refuse_judgments(path: Path, name: str) -> None:
    """Check that a file is not one of judgments alone."""
    if JUDGMENT.match(head_of(path, name)):
        fault = "a qrels file: grades by query and document, no retrieval; put it into a folder with the "
        raise DataError(fault + "queries, the corpus and a TREC run, and give the folder", file=name)


def _is_embedding_qa(path: Path) -> bool:
    try:
        return path.suffix.lower() == ".json" and b'"queries"' in head_of(path, size=200) and bool(_embedding_qa(path))
    except (OSError, DataError):
        return False


def _embedding_qa(path: Path) -> dict[str, Any]:
    """Read LlamaIndex' embedding QA dataset; empty if the file is another one."""
    document = read_document(path, str(path))
    held = document if isinstance(document, Mapping) else {}
    parts: dict[str, Any] = {name: held.get(name) for name in ("queries", "corpus", "relevant_docs")}
    return parts if all(isinstance(part, Mapping) for part in parts.values()) else {}


def traces(parts: Parts, judged: bool, depth: int | None, relevant: int | None) -> Iterator[dict[str, Any] | DataError]:
    """Yield the data of a trace, or its error, for every query of the run and of the judgments."""
    # The order of the chunks is trec_eval's: score descending, then id descending. A query that has judgments
    # but stands nowhere in the run is a trace without chunks, so that no mean leaves it out. Labels are the
    # grades of the judgments, and the pool is all of them. `relevant_total` counts the relevant ones; where
    # there are grades above 1 and nobody said which count, it stays unknown. `judged` takes the judged
    # documents in place of a run, in the order of the file (which is not a ranking).
    home = str(parts.home)
    if parts.queries is None:
        fault = "no queries here; name them queries.jsonl or topics.tsv"
        if parts.run is not None:
            fault = f"{parts.run.name} is a TREC run, which needs its queries and its corpus beside it: {fault}"
        raise DataError(fault, file=home)
    qrels = {} if parts.qrels is None else _qrels(parts.qrels)
    if judged:
        if not qrels:
            raise DataError("no judgments here; name them qrels.txt or qrels/test.tsv", file=home)
        ranked: Ranked = {query: [(doc, None) for doc in docs] for query, docs in qrels.items()}
    elif parts.run is None:
        raise DataError(
            "no retriever's run here, only queries and documents; put its TREC run beside them as "
            f"run.trec, or judge the documents that people have judged with {option('format', JUDGED)}",
            file=home,
        )
    else:
        ranked = _ranked(parts.run)
        ranked |= {query: [] for query in qrels if query not in ranked}
    cut = {query: docs if depth is None else docs[:depth] for query, docs in ranked.items()}
    if parts.corpus is None:
        raise DataError(f"no corpus here; name it corpus.jsonl, or give {option('corpus')}", file=home)
    corpus = load_corpus(parts.corpus, {doc for docs in cut.values() for doc, _ in docs})
    queries = _queries(parts.queries)
    highest = max((grade for grades in qrels.values() for grade in grades.values()), default=0)
    graded = highest > 1
    least = relevant if relevant is not None else None if graded else 1
    for query, docs in cut.items():
        if query not in queries:
            holder = parts.run if parts.run is not None and query not in qrels else parts.qrels
            fault = f"no query {query!r} in {parts.queries}; {option('on_invalid', 'skip')} leaves it out"
            yield DataError(fault, file=str(holder or parts.run))
            continue
        grades = qrels.get(query, {})
        try:
            joined = [(corpus.join({"id": doc}, f"query {query!r}"), doc, score) for doc, score in docs]
        except DataError as error:
            yield error
            continue
        for chunk, doc, score in joined:
            if score is not None:
                chunk["score"] = score
            if grades.get(doc, -1) >= 0:  # below 0 it is in the pool, but nobody judged it
                chunk["label"] = grades[doc]
        data: dict[str, Any] = {**queries[query], "id": query, "chunks": [chunk for chunk, _, _ in joined]}
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
    data = read_document(path, str(path))
    try:
        return {str(q): {str(d): float(s) for d, s in docs.items()} for q, docs in data.items()}
    except (ValueError, TypeError, AttributeError):
        raise DataError("a run as JSON is an object: query to document to score", file=str(path)) from None


def _qrels(path: Path) -> Mapping[str, Mapping[str, int]]:
    if path.suffix.lower() == ".json":
        relevant = _embedding_qa(path).get("relevant_docs", {}).items()
        return {query: {str(doc): 1 for doc in as_list(docs, f"relevant_docs.{query}")} for query, docs in relevant}
    return read_qrels(path)


def _queries(path: Path) -> dict[str, dict[str, Any]]:
    """Return the data of queries by id."""
    queries, places = dict[str, dict[str, Any]](), dict[str, str]()
    for key, row in _each_query(path):
        if key in queries:
            fault = f"the query id {key!r} occurs twice, in {places[key]} and in {row.place}"
            raise DataError(fault, file=str(path), line=row.line)
        queries[key], places[key] = dict(row.get()), row.place
    return queries


def _each_query(path: Path) -> Iterator[tuple[str, Row]]:
    name = str(path)
    head = head_of(path, size=4096).decode(errors="replace").lstrip()
    first = head.splitlines()[0] if head else ""
    if "<top" in head.lower():
        yield from _topics(path)
    elif _is_embedding_qa(path):
        yield from ((key, Row({"query": str(value)})) for key, value in _embedding_qa(path)["queries"].items())
    elif first[:1] not in ("{", "[") and set(QUERY_ID).isdisjoint(re.split(r"[\t,]", first)):
        yield from _bare_topics(path)
    else:
        for row in rows(path, kind_of(path, name), name, lambda record: _topic(record)[0] is not None):
            record = row.get()
            key, text = _topic(record)
            if key is None or not isinstance(text, str):
                raise DataError("a query is an id with a text", file=name, line=row.line)
            data: dict[str, Any] = {"query": text}
            references = ("reference", "answer", "expected_answer")
            for field, keys in {"reference": references, "answer": ("response",)}.items():
                texts = [record[k] for k in keys if isinstance(record.get(k), str) and record[k]]
                data |= {field: texts[0]} if texts else {}
            yield str(key), row._replace(data=data)


def _topic(record: Mapping[str, Any]) -> tuple[Any, Any]:
    return first_of(record, *QUERY_ID), first_of(record, "text", "query", "question", "title")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig", errors="replace")


def _bare_topics(path: Path) -> Iterator[tuple[str, Row]]:
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip():
            continue
        key, separator, text = line.partition("\t" if "\t" in line else ":")
        if not separator or not text.strip():
            raise DataError("a topic is an id, a tab and a question", file=str(path), line=number)
        yield key.strip(), Row({"query": text.strip()}, number)


def _topics(path: Path) -> Iterator[tuple[str, Row]]:
    text = _text(path)
    for topic in TOPIC.finditer(text):
        body, line = topic[1], text.count("\n", 0, topic.start()) + 1
        number = re.search(r"<num>\s*(?:Number:)?\s*([^\s<]+)", body, re.IGNORECASE)
        question = _tag(body, "title") or _tag(body, "desc")
        if number and question:
            yield number[1], Row({"query": question}, line)
    for topic in XML_TOPIC.finditer(text):
        body, line = topic[2], text.count("\n", 0, topic.start()) + 1
        question = _tag(body, "query") or _tag(body, "title") or _tag(body, "question") or body.strip()
        yield topic[1], Row({"query": question}, line)


def _tag(body: str, name: str) -> str | None:
    match = re.search(rf"<{name}>(.*?)(?=<|\Z)", body, re.DOTALL | re.IGNORECASE)
    words = re.sub(r"^\s*(Topic|Description):", "", match[1], flags=re.IGNORECASE).split() if match else []
    return " ".join(words) or None
