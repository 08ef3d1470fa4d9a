"""Questions made into traces by a retriever of the user's: a function, or an object of another library."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import IO, Any, cast

import numpy as np
from pydantic import ValidationError

from judge_eval.data.catalog import any_fits, likely_map
from judge_eval.data.files.containers import kind_of, rows
from judge_eval.data.files.opening import data_path, steady
from judge_eval.data.memory import ROW, MemoryRows, record_of, rows_in_memory
from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import RowReader, read_memory
from judge_eval.errors import ConfigError, DataError, mask
from judge_eval.files import open_plain
from judge_eval.llm.http.secrets import environment_secrets
from judge_eval.runs.folder.records import Retrieval
from judge_eval.runs.options import Selection
from judge_eval.safe_text import counted, one_line, shortened, type_of, without_passwords
from judge_eval.schema import Trace
from judge_eval.spelling import option

AT_ONCE = 8
"""How many queries a retriever is given at the same time."""
SECONDS = "retrieval_seconds"
"""The key of a trace's metadata for how long its retrieval took."""
_METHODS = ("ainvoke", "invoke", "aretrieve", "retrieve", "similarity_search", "search")
_NAMED = 5
_LISTS = {"user_input": "retrieved_contexts", "input": "retrieval_context"}
"""By the key of a question: what the list of its chunks is called beside it; `contexts` for all others."""
_OF_TRACES = ("answerable", "claims", "relevant_total")
"""Fields of a trace that other formats keep as metadata: in a question they mean what they mean in a trace."""


async def retrieve(
    data: Any,
    retriever: Any,
    selection: Selection,
    out: Path | None,
    *,
    resume: bool,
    check: Callable[[Trace], None] = lambda _: None,
) -> tuple[list[Trace], Selection, Retrieval]:
    """Ask a retriever about each question, `AT_ONCE` at a time; its calls that raise are failures of it.

    What is retrieved is kept in `out`, a folder of runs, and taken from there to `resume`. `check` is called with each
    question before any is asked, unless invalid ones are skipped.

    Returns:
        The traces in order, without those whose retrieval failed; how to select of them; and how the retrieval went.

    Raises:
        ConfigError: It is no retriever, or the selection cannot go with one.
        DataError: A question cannot be read, the retriever returned what are no chunks, or every call failed.
    """
    if selection.shard is not None:
        raise ConfigError(f"{option('shard')} with a retriever: judge parts of what is retrieved, or of the questions")
    ask = _asking(retriever)
    questions = await asyncio.to_thread(lambda: _chosen(list(_questions(data, selection)), selection))
    if not questions:
        raise DataError("there is no question to ask", file=selection.name or _name(data))
    for question in questions if selection.on_invalid == "error" else ():
        try:
            check(question)
        except DataError as error:
            raise error.at(file=f"question {_shown(question)}") from None
    chunk_reader = _reader_of_chunks(selection.reader or ReadOptions())
    kept = None if out is None else out / f".retrieved-{_digest(questions)}.jsonl"
    known = {trace.id: trace for trace in _kept(kept)} if kept is not None and resume else {}
    failures: dict[str, str] = {}
    by_id: dict[str, Trace] = {}
    places = asyncio.Semaphore(AT_ONCE)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        if not resume:
            kept.unlink(missing_ok=True)
    with ThreadPoolExecutor(AT_ONCE, "judge_eval retriever") as threads, _appending(kept) as file:

        async def answer(question: Trace) -> None:
            before = known.get(question.id)
            if before is not None and (before.query, before.reference) == (question.query, question.reference):
                by_id[question.id] = before
                return
            async with places:
                start = perf_counter()
                try:
                    chunks = await ask(question.query, threads)
                except Exception as error:
                    text = mask(without_passwords(f"{type(error).__name__}: {error}"), environment_secrets())
                    failures[f"{question.id} ({shortened(question.query, 60)})"] = shortened(one_line(text), 200)
                    return
                seconds = round(perf_counter() - start, 6)
            by_id[question.id] = trace = _trace_of(question, chunks, seconds, chunk_reader)
            if file is not None:
                file.write(trace.model_dump_json(exclude_defaults=True).encode() + b"\n")
                file.flush()

        tasks = [asyncio.ensure_future(answer(question)) for question in questions]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
    chunk_reader.finish()
    if failures and not by_id:
        first = next(iter(failures.values()))
        raise DataError(f"the retriever failed for {counted(len(failures), 'question')}, the first with {first}")
    took = [float(cast(float, trace.metadata[SECONDS])) for trace in by_id.values()]
    record = Retrieval(
        retriever=retriever_name(retriever),
        questions=len(questions),
        failed=len(failures),
        failures=tuple(f"{name}: {text}" for name, text in islice(failures.items(), _NAMED)),
        seconds=(float(np.quantile(took, 0.5)), float(np.quantile(took, 0.95))) if took else None,
    )
    traces = [by_id[question.id] for question in questions if question.id in by_id]
    reader = selection.reader
    left = reader and replace(reader, format=None, map={}, corpus=None, list_sep=None, records=None)
    return traces, replace(selection, reader=left, name=selection.name or _name(data)), record


def named_retriever(text: str) -> Any:
    """Return what `module:function` names: a module of the working folder, or an installed one.

    Raises:
        ConfigError: There is no such module or function, or importing it failed.
    """
    import sys

    module, colon, name = text.partition(":")
    if not (colon and module and name):
        raise ConfigError(f"{option('retriever')} {text!r}: write MODULE:FUNCTION, such as search:retrieve")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        named: Any = import_module(module)
    except Exception as error:
        fault = f"{type(error).__name__}: {one_line(str(error))}"
        raise ConfigError(f"{option('retriever')} {text!r}: {module} cannot be imported ({fault})") from None
    for part in name.split("."):
        if not hasattr(named, part):
            raise ConfigError(f"{option('retriever')} {text!r}: there is no {part!r} in {module}")
        named = getattr(named, part)
    return named


def retriever_name(retriever: Any) -> str:
    """Return what a retriever is called: `module:function`, or its class."""
    named = retriever if hasattr(retriever, "__qualname__") else type(retriever)
    return f"{named.__module__}:{named.__qualname__.replace('<locals>.', '')}"


def _asking(retriever: Any) -> Callable[[str, ThreadPoolExecutor], Awaitable[Any]]:
    """Return an async function that asks a retriever; a blocking one is asked in a thread."""
    methods = [getattr(retriever, name, None) for name in _METHODS]
    call = next((method for method in methods if callable(method)), retriever)
    if not callable(call) or inspect.isclass(retriever):
        what = "a function from a query to chunks, or an object with invoke, retrieve or search"
        given = f"the class {retriever.__name__}" if inspect.isclass(retriever) else type_of(retriever)
        raise ConfigError(f"retriever must be {what}, not {given}")

    def blocking(query: str) -> Any:
        answer = call(query)
        return list(answer) if isinstance(answer, Iterator) else answer  # a generator runs here, too

    async def ask(query: str, threads: ThreadPoolExecutor) -> Any:
        if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None)):  # noqa: B004
            answer = call(query)
        else:
            answer = await asyncio.get_running_loop().run_in_executor(threads, blocking, query)
        if isinstance(answer, AsyncIterable):
            return [chunk async for chunk in answer]
        return await answer if inspect.isawaitable(answer) else answer

    return ask


def _questions(data: Any, selection: Selection) -> Iterator[Trace]:
    """Read questions as traces without chunks."""
    reader = selection.reader or ReadOptions()
    name = selection.name or _name(data)
    records: list[Any]
    if isinstance(data, str | Path):
        file = data_path(data)
        if file.is_dir():
            raise DataError("is a folder; a retriever takes a file of questions", file=name)
        with steady(file) as path:
            records = [row.get() for row in rows(path, kind_of(path, name), name, lambda _: True, reader.records)]
        if reader.records is not None:
            reader = replace(reader, records=None)
    elif isinstance(data, Sequence) and data and all(isinstance(item, str) for item in data):
        records = [{"query": text} for text in data]
    else:
        held = rows_in_memory(data)
        if held is None:
            raise DataError("is a stream; give the questions as a list, a frame or a file")
        records = [_of_pair(row, place) for place, (_, row) in enumerate(held.rows())]
    own = [key for key in _OF_TRACES if any(isinstance(each, Mapping) and key in each for each in records)]
    if own:  # a map needs its keys in the first records
        records = [{**dict.fromkeys(own), **each} if isinstance(each, Mapping) else each for each in records]
        reader = replace(reader, map={**{key: key for key in own}, **reader.map})
    reader = replace(reader, map=reader.fields, corpus=None)
    for read in read_memory(MemoryRows("list", [_without_chunks(record, reader) for record in records]), reader):
        if isinstance(read.outcome, DataError):
            raise read.outcome.at(file=name)
        if read.outcome is not None:
            if read.outcome.chunks:
                raise DataError("has its chunks already; leave the retriever out", file=name, field="chunks")
            yield read.outcome


def _of_pair(record: Any, place: int) -> Any:
    """Return a pair of question and reference as a record."""
    if isinstance(record, tuple | list) and len(record) == 2 and all(isinstance(text, str) for text in record):
        return dict(zip(ROW, record, strict=False))
    if not isinstance(record, Mapping | Trace):
        ways = "a text, a pair (query, reference), or a mapping with the fields of a known format"
        raise DataError(f"question {place} is {type_of(record)}; give each question as {ways}")
    return record


def _without_chunks(record: Any, reader: ReadOptions) -> Any:
    """Give a record of a question an empty list of chunks, under the name that goes with its others."""
    if not isinstance(record, Mapping):
        return record
    mapped = reader.map.get("chunks", "chunks" if "query" in reader.map else None)
    name = mapped or next((name for key, name in _LISTS.items() if key in record), "contexts")
    made = {**record, name: []} if not record.get(name) else record
    if not (reader.map or reader.format or any_fits(made)):
        guess = {ours: theirs for ours, theirs in likely_map([record]).items() if ours != "chunks"}
        ways = f"perhaps with {option('map', guess)}" if guess else f"with {option('map', {'query': '...'})}"
        raise DataError(f"no known format has these keys: {', '.join(sorted(record))}; map the fields, {ways}")
    return made


def _chosen(questions: list[Trace], selection: Selection) -> list[Trace]:
    """Take the questions that a limit leaves, each under an id of its own."""
    by_id = Counter(question.id for question in questions)
    if len(by_id) < len(questions):
        twice = next(question for question in questions if by_id[question.id] > 1)
        raise DataError(f"the question {_shown(twice)} occurs twice; give each an `id` of its own", field="id")
    if selection.limit is None or selection.limit >= len(questions):
        return questions
    if selection.seed is None:
        return questions[: selection.limit]
    drawn = random.Random(selection.seed).sample(range(len(questions)), selection.limit)  # noqa: S311
    return [questions[place] for place in sorted(drawn)]


def _shown(question: Trace) -> str:
    return f"{question.id!r} ({shortened(question.query, 60)})"


def _reader_of_chunks(reader: ReadOptions) -> RowReader:
    """Return what reads the lists of a retriever: names inside chunks and the corpus are as in data."""
    inside = {f"chunks.{ours}": theirs for ours, theirs in reader.in_chunks.items()}
    return RowReader(ReadOptions(map=inside, corpus=reader.corpus))


def _trace_of(question: Trace, chunks: Any, seconds: float, reader: RowReader) -> Trace:
    """Make the trace of a question from what its retriever returned."""
    listed = getattr(chunks, "source_nodes", chunks)
    if isinstance(listed, str | bytes | Mapping | set | frozenset) or not isinstance(listed, Iterable):
        what = "a list of texts, mappings, documents or (text, score)"
        raise DataError(f"the retriever returned {type_of(chunks)} for the question {_shown(question)}; return {what}")
    row = record_of({"query": question.query, "chunks": list(listed)})
    (read,) = reader.of(0, "", row)
    if not isinstance(read.outcome, Trace):
        fault = str(read.outcome or "nothing").removeprefix(": ")
        raise DataError(f"what the retriever returned for the question {_shown(question)}: {fault}")
    made = question.replace(chunks=read.outcome.chunks, metadata={**question.metadata, SECONDS: seconds})
    made.__dict__.pop("digest", None)  # of the question alone
    return made


def _digest(questions: Sequence[Trace]) -> str:
    return sha256("".join(f"{len(each.id)}:{each.id}{each.digest}" for each in questions).encode()).hexdigest()[:16]


def _kept(path: Path) -> Iterator[Trace]:
    """Yield what an earlier retrieval kept; a line that a kill cut off is asked for again."""
    if path.exists():
        with open_plain(path) as file:
            for line in file:
                with suppress(ValidationError, DataError, ValueError):
                    trace = Trace.model_validate_json(line)
                    if SECONDS in trace.metadata:
                        yield trace


def _appending(path: Path | None) -> Any:
    if path is None:
        return nullcontext()
    file: IO[bytes] = open_plain(path, "ab+")
    return file


def _name(data: Any) -> str:
    return str(data) if isinstance(data, str | Path) else "questions in memory"
