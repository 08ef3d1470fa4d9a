"""Questions and a retriever of the user's become a run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judge_eval import Chunk, EvalRun, ReadOptions, Trace, evaluate
from judge_eval.errors import ConfigError, DataError
from judge_eval.runs.judging.retrieval import AT_ONCE, SECONDS

TEXTS = ["We open at nine.", "Park behind the house."]
QUESTIONS = [{"id": f"q{n}", "query": f"When do you open on day {n}?", "reference": "At nine."} for n in range(20)]


def judged(retriever: Any, questions: Any = QUESTIONS, **settings: Any) -> EvalRun:
    """Judge what a retriever finds, offline."""
    return evaluate(questions, "fake/overlap", retriever=retriever, cache=False, metrics=["AP@5"], **settings)


async def waiting(query: str) -> list[str]:
    """Find the same two texts for every query."""
    await asyncio.sleep(0)
    assert query
    return TEXTS


async def yielding(_: str) -> AsyncIterator[str]:
    """Yield them one by one."""
    for text in TEXTS:
        yield text


class Documents:
    """What other libraries call a retriever."""

    class Document:
        """A document of theirs."""

        def __init__(self, text: str) -> None:
            self.page_content, self.metadata = text, {"source": "a"}

    def invoke(self, query: str) -> list[Document]:
        """Find documents."""
        assert query
        return [self.Document(text) for text in TEXTS]


class Searching:
    """An object with `search`."""

    def search(self, query: str) -> list[dict[str, str]]:
        """Find mappings."""
        assert query
        return [{"id": f"c{place}", "text": text} for place, text in enumerate(TEXTS)]


class Storing(Searching):
    """A vector store of LangChain, whose `search` wants to know how."""

    def similarity_search(self, query: str) -> list[dict[str, str]]:
        """Find mappings."""
        return super().search(query)

    def search(self, query: str, search_type: str) -> list[dict[str, str]]:  # type: ignore[override]
        """Find nothing."""
        raise NotImplementedError


@pytest.mark.parametrize(
    "retriever",
    [
        lambda _: TEXTS,
        lambda _: tuple(TEXTS),
        lambda _: [(text, 0.5) for text in TEXTS],
        lambda _: [Chunk(id=f"c{place}", text=text) for place, text in enumerate(TEXTS)],
        lambda _: iter(TEXTS),
        waiting,
        yielding,
        Documents(),
        Searching(),
        Storing(),
    ],
    ids=["texts", "tuple", "scores", "chunks", "iterator", "async", "yielding", "documents", "search", "store"],
)
def test_what_a_retriever_returns_becomes_chunks(retriever: Any) -> None:
    """Texts, pairs with a score, chunks, mappings and documents are read as they are in data."""
    run = judged(retriever)
    assert [result.trace_id for result in run.results] == [each["id"] for each in QUESTIONS]
    assert all([chunk.text for chunk in result.trace.chunks] == TEXTS for result in run.results)
    assert run.status == "done"


@pytest.mark.parametrize(
    "questions",
    [
        [{"question": "When do you open?", "ground_truth": "At nine."}],
        [{"user_input": "When do you open?", "reference": "At nine."}],
        [{"input": "When do you open?", "expected_output": "At nine."}],
        [Trace(id="q", query="When do you open?", reference="At nine.", chunks=[])],
        {"question": ["When do you open?"], "ground_truth": ["At nine."]},
        [("When do you open?", "At nine.")],
    ],
    ids=["question", "user_input", "input", "trace", "columns", "pair"],
)
def test_questions_are_read_by_the_names_of_known_formats(questions: Any) -> None:
    """The fields of a question are those of the formats, without the list of chunks."""
    (result,) = judged(lambda _: TEXTS, questions).results
    assert (result.trace.query, result.trace.reference) == ("When do you open?", "At nine.")


def test_questions_may_be_texts_alone() -> None:
    """A list of texts is a list of questions, for prompts that need no reference."""
    run = judged(lambda _: TEXTS, ["When do you open?", "Where do I park?"], prompt="relevance/binary")
    assert [result.trace.query for result in run.results] == ["When do you open?", "Where do I park?"]


@pytest.mark.parametrize("names", [("query", "reference"), ("user_input", "reference"), ("question", "ground_truth")])
def test_a_question_keeps_its_claims(names: tuple[str, str]) -> None:
    """`claims` of a question, texts or objects, are those of its trace; a question without any is split."""
    query, reference = names
    questions = [
        {"id": "q1", query: "When do you open?", reference: "At nine.", "claims": ["You open.", "It is nine then."]},
        {"id": "q2", query: "Where?", reference: "Behind.", "claims": [{"id": "a", "text": "Behind.", "vital": False}]},
        {"id": "q3", query: "Where do I park?", reference: "Park behind the house."},
    ]
    run = judged(waiting, questions, mode="claims")
    claims = [[(claim.id, claim.text, claim.vital) for claim in result.claims.claims] for result in run.results]
    assert claims == [
        [("1", "You open.", True), ("2", "It is nine then.", True)],
        [("a", "Behind.", False)],
        [("1", "Park behind the house.", True)],
    ]


@pytest.mark.parametrize("names", [("query", "reference"), ("user_input", "reference"), ("question", "ground_truth")])
def test_a_question_keeps_its_flags(names: tuple[str, str]) -> None:
    """`answerable` and `relevant_total` of a question are those of its trace: one without an answer is in no mean."""
    query, reference = names
    questions = [
        {"id": "q1", query: "When do you open?", reference: "At nine.", "relevant_total": 2},
        *({"id": f"again {n}", query: "When?", reference: "At nine.", "relevant_total": 2} for n in range(20)),
        {"id": "q2", query: "Who owns you?", "answerable": False},
    ]
    run = evaluate(questions, "fake/overlap", retriever=waiting, cache=False, metrics=["AP@5", "Recall@5"])
    assert [result.trace.answerable for result in run.results] == [*[None] * 21, False]
    assert run["Recall@5"] == 0.5
    assert run.manifest.unanswerable is not None
    assert run.manifest.unanswerable.traces == 1


def test_a_failure_of_the_retriever_is_in_no_mean() -> None:
    """A question for which it raised has no trace and no score; the run is incomplete and names it."""

    def search(query: str) -> list[str]:
        if "day 3?" in query:
            raise TimeoutError("the index at postgresql://me:secret@host/db is away")
        return TEXTS

    run = judged(search)
    retrieval = run.manifest.dataset.retrieval
    assert retrieval is not None
    assert (run.status, retrieval.questions, retrieval.failed) == ("incomplete", 20, 1)
    told = "q3 (When do you open on day 3?): TimeoutError: the index at postgresql://***@host/db is away"
    assert retrieval.failures == (told,)
    assert "q3" not in {result.trace_id for result in run.results}
    assert run.manifest.aggregates["AP@5"].n == 19


def test_a_key_in_an_error_of_the_retriever_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment holds as a key is masked before the error is cut and written."""
    secret = "vs-0123456789abcdefghij"
    monkeypatch.setenv("VECTOR_API_KEY", secret)

    def search(query: str) -> list[str]:
        if "day 3?" in query:
            raise PermissionError(f"{'x' * 185} {secret} is not valid")
        return TEXTS

    judged(search, out=tmp_path)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"PermissionError" in written
    assert secret[:8].encode() not in written


def test_a_retriever_that_always_fails_ends_before_anything_is_judged(tmp_path: Path) -> None:
    """Its error is the error, and no run is begun."""

    def search(_: str) -> list[str]:
        raise ConnectionError("refused")

    with pytest.raises(DataError, match="failed for 20 questions, the first with ConnectionError: refused"):
        judged(search, out=tmp_path)
    assert not list(tmp_path.glob("2*"))


def test_what_fails_while_it_yields_is_a_failure_of_the_retriever() -> None:
    """A generator runs in its thread, and what it raises after its first texts counts like any error of it."""
    threads = set()

    def search(query: str) -> Iterator[str]:
        threads.add(threading.current_thread().name)
        yield TEXTS[0]
        if "day 3?" in query:
            raise TimeoutError("away")

    retrieval = judged(search).manifest.dataset.retrieval
    assert retrieval is not None
    assert retrieval.failed == 1
    assert all(name.startswith("judge_eval retriever") for name in threads)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"a", "b"}, "returned a set for the question 'q0' (When do you open on day 0?); return a list"),
        ([{"body": "We open."}], "chunks[0]: no text; the keys found are: body; name the one that holds it"),
        (["one", ("We open.", {"page": 1})], "chunks[1]: is a list; a chunk is a text, an object with one, or"),
    ],
    ids=["set", "keys", "pair"],
)
def test_a_wrong_chunk_is_told_by_its_place(wrong: Any, told: str) -> None:
    """The message names the question, the chunk and what to return."""
    with pytest.raises(DataError) as raised:
        judged(lambda _: wrong, QUESTIONS[:1])
    assert told in str(raised.value)


def test_chunks_of_a_retriever_are_read_as_the_reader_says(tmp_path: Path) -> None:
    """Names inside chunks are mapped, and a corpus has the texts of ids."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "d1", "text": "We open at nine."}\n{"_id": "d2", "text": "Park."}\n', encoding="utf-8")
    named = ReadOptions(map={"query": "query", "reference": "reference", "chunks.text": "body"})
    for found, reader in (([{"body": "We open at nine."}], named), (["d1"], ReadOptions(corpus=corpus))):
        run = judged(lambda _, found=found: found, reader=reader)
        assert [chunk.text for chunk in run.results[0].trace.chunks] == ["We open at nine."]
    with pytest.raises(DataError, match="it holds no 'body'; the nearest: 'text'"):
        judged(lambda _: [{"text": "We open."}], reader=named)


@pytest.mark.parametrize(
    ("questions", "told"),
    [
        ([], "there is no question to ask"),
        (["When do you open?"], "the prompt needs the reference"),
        ([{"question": "When?", "expected": "At nine."}], 'perhaps with `map={"reference": "expected"}`'),
        ([{"frage": "When?", "gold": "Nine."}], 'perhaps with `map={"query": "frage", "reference": "gold"}`'),
        ([("When do you open?", "At nine.", "?", "?")], "give each question as"),
    ],
    ids=["none", "texts", "reference", "names", "rows"],
)
def test_questions_that_cannot_be_judged_are_not_asked(questions: Any, told: str) -> None:
    """Nothing is retrieved, which may cost something, before the questions have what the judge needs."""
    asked: list[str] = []
    with pytest.raises(DataError) as raised:
        judged(lambda query: asked.append(query) or TEXTS, questions)
    assert (told in str(raised.value), asked) == (True, []), raised.value


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_retriever_may_end_the_program(kind: type[BaseException]) -> None:
    """What it raises to end the program ends the evaluation, and the next one works."""

    def search(_: str) -> list[str]:
        raise kind

    with pytest.raises(kind):
        judged(search)
    assert judged(lambda _: TEXTS).status == "done"


@pytest.mark.parametrize("wrong", ["a text", {"text": "one"}, None, 7, [object()], [{"nothing": 1}]])
def test_what_are_no_chunks_is_an_error_that_says_so(wrong: Any) -> None:
    """A function that returns something else is a mistake of the program, not a failure of a retrieval."""
    with pytest.raises(DataError, match="retriever returned"):
        judged(lambda _: wrong)


@pytest.mark.parametrize("wrong", ["search", 7, [], Searching])
def test_what_cannot_be_asked_is_no_retriever(wrong: Any) -> None:
    """The message names what can."""
    with pytest.raises(ConfigError, match="a function from a query to chunks"):
        judged(wrong)


def test_a_question_that_has_chunks_is_refused() -> None:
    """Data that bring their chunks need no retriever."""
    with pytest.raises(DataError, match="has its chunks already"):
        judged(lambda _: TEXTS, [{"query": "When?", "reference": "At nine.", "contexts": ["We open at nine."]}])


def test_a_blocking_retriever_is_asked_in_threads_up_to_a_bound() -> None:
    """Never more than the bound at the same time, and more than one."""
    lock, state = threading.Lock(), {"now": 0, "most": 0}

    def search(_: str) -> list[str]:
        with lock:
            state["now"] += 1
            state["most"] = max(state["most"], state["now"])
        time.sleep(0.02)
        with lock:
            state["now"] -= 1
        return TEXTS

    judged(search)
    assert 1 < state["most"] <= AT_ONCE


def test_seconds_are_kept_for_each_trace_and_summed_up() -> None:
    """Each trace has its seconds; the record holds their median and their 95th percentile."""
    run = judged(lambda _: TEXTS)
    took = [result.trace.metadata[SECONDS] for result in run.results]
    assert run.manifest.dataset.retrieval is not None
    assert run.manifest.dataset.retrieval.seconds == pytest.approx((np.quantile(took, 0.5), np.quantile(took, 0.95)))


def test_a_limit_bounds_what_is_retrieved() -> None:
    """No question beyond the limit is asked; a seed draws them."""
    asked: list[str] = []

    def search(query: str) -> list[str]:
        asked.append(query)
        return TEXTS

    assert len(judged(search, limit=4).results) == 4
    assert len(asked) == 4
    assert {result.trace_id for result in judged(search, limit=4, seed=1).results} != {"q0", "q1", "q2", "q3"}
    with pytest.raises(ConfigError, match="retriever"):
        judged(search, shard=(1, 2))


def test_resume_asks_for_what_is_missing_alone(tmp_path: Path) -> None:
    """With `resume` kept lists are taken; without it every list is retrieved anew, since the retriever may differ."""
    asked: list[str] = []
    broken = {"day 3?", "day 5?"}

    def search(query: str) -> list[str]:
        asked.append(query)
        if any(query.endswith(day) for day in broken):
            raise TimeoutError("away")
        return TEXTS

    assert judged(search, out=tmp_path).status == "incomplete"
    asked.clear()
    broken.clear()
    run = judged(search, out=tmp_path, resume=True)
    assert sorted(asked) == ["When do you open on day 3?", "When do you open on day 5?"]
    assert (run.status, len(run.results)) == ("done", 20)
    asked.clear()
    assert judged(search, out=tmp_path, resume=True).manifest.id == run.manifest.id
    assert asked == []
    judged(search, out=tmp_path)
    assert len(asked) == 20
