"""Texts by id: the corpus that retrieved ids point into."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.jsonfile import entries, objects_in
from judge_eval.data.files.opening import steady
from judge_eval.data.files.values import first_of
from judge_eval.data.shapes.chunks import ID
from judge_eval.errors import DataError

NAMES = ("corpus", "collection", "documents", "docs")
SUFFIXES = (".jsonl", ".json", ".tsv", ".csv", ".parquet")
BODY = ("text", "contents", "content", "page_content", "body", "passage", "document")


class Corpus:
    """Chunks by id.

    Args:
        chunks: Id to title (or None) and text.
        name: What to call it in messages.
    """

    def __init__(self, chunks: Mapping[str, tuple[str | None, str]], name: str) -> None:
        self._chunks, self._name = chunks, name

    def __contains__(self, key: str) -> bool:
        return key in self._chunks

    def join(self, chunk: dict[str, Any], field: str) -> dict[str, Any]:
        """Give a chunk that brings only an id its text and title.

        Raises:
            DataError: The corpus does not hold the id.
        """
        entry = self._chunks.get(chunk["id"])
        if entry is None:
            raise DataError(f"no chunk {chunk['id']!r} in the corpus {self._name}", field=field)
        title, text = entry
        return {**chunk, "text": text, **({"title": title} if title and "title" not in chunk else {})}


def corpus_file(folder: Path) -> Path | None:
    """Find the corpus in a folder by its name, such as `corpus.jsonl` or `collection.tsv`."""
    places = (folder / f"{name}{suffix}" for name in NAMES for suffix in SUFFIXES)
    return next((path for path in places if path.is_file()), None)


def load_corpus(path: Path, wanted: Container[str] | None = None) -> Corpus:
    """Read a corpus into memory.

    Args:
        path: JSON Lines, JSON, CSV, TSV or Parquet with an id (`_id`, `id`, `doc_id`), a text, perhaps
            a title; TSV of id and text without a header; a JSON object of texts by id; or a folder that
            holds one of these as `corpus.*` or `collection.tsv`.
        wanted: The ids to keep; all where None.

    Raises:
        DataError: It cannot be read, brings an id twice, or lacks an id or a text.
    """
    if path.is_dir():
        file = corpus_file(path)
        if file is None:
            raise DataError(f"no corpus here; name it corpus.jsonl ({', '.join(NAMES)})", file=str(path))
        path = file
    chunks: dict[str, tuple[str | None, str]] = {}
    with steady(path) as plain:
        for key, title, text, line in _entries(plain, str(path)):
            if wanted is not None and key not in wanted:
                continue
            if key in chunks:
                raise DataError(f"the id {key!r} stands twice in the corpus", file=str(path), line=line)
            chunks[key] = (title, text)
    return Corpus(chunks, str(path))


def _entries(path: Path, name: str) -> Iterator[tuple[str, str | None, str, int | None]]:
    kind = kind_of(path, name)
    if kind == "tsv" and not _has_header(path):
        yield from _bare_lines(path)
        return
    if kind == "json" and _is_object(path):
        under = "corpus" if "corpus" in objects_in(path, name) else None
        if _by_id({key: value for key, value, _ in islice(entries(path, name, under), 20)}):
            for key, value, line in entries(path, name, under):
                if isinstance(value, str):
                    yield key, None, value, line
                else:
                    yield _entry({"id": key, **value} if isinstance(value, Mapping) else {}, name, line)
            return
    for row in rows(path, kind, name, _is_entry):
        yield _entry(row.get(), name, row.line)


def _is_object(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def _by_id(data: Mapping[str, Any]) -> bool:
    """Tell whether an object maps ids to texts or to objects with a text."""
    if not data or set(data) & {*BODY, *ID}:
        return False
    return all(isinstance(v, str) or (isinstance(v, Mapping) and set(v) & set(BODY)) for v in data.values())


def _entry(record: Mapping[str, Any], name: str, line: int | None) -> tuple[str, str | None, str, int | None]:
    key = first_of(record, "_id", *ID)
    if key is None:
        raise DataError("no id (`_id`, `id`, `doc_id`, ...)", file=name, line=line)
    text = next((record[k] for k in BODY if isinstance(record.get(k), str)), None)
    if text is None:
        raise DataError("no text (`text`, `contents`, ...)", file=name, line=line)
    title = record.get("title")
    return str(key), title if isinstance(title, str) and title else None, text, line


def _is_entry(record: Mapping[str, Any]) -> bool:
    return bool(record.keys() & {"_id", *ID}) and bool(record.keys() & set(BODY))


def _has_header(path: Path) -> bool:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        cells = file.readline().rstrip("\r\n").split("\t")
    return bool({*ID} & set(cells)) and bool(set(BODY) & set(cells))


def _bare_lines(path: Path) -> Iterator[tuple[str, str | None, str, int | None]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                cells = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
            except UnicodeDecodeError:
                raise DataError("not UTF-8 text", file=str(path), line=number) from None
            if len(cells) == 2:
                yield cells[0], None, cells[1], number
            elif len(cells) == 3:
                yield cells[0], cells[1], cells[2], number
            elif cells != [""]:
                raise DataError(
                    f"{len(cells)} cells; a line is an id and a text, with a title between them or not",
                    file=str(path),
                    line=number,
                )
