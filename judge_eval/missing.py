"""Searching a corpus for what a run's retriever lost, and judging what is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Unpack

import numpy as np

from judge_eval.data.bm25 import CorpusIndex, SearchHit
from judge_eval.data.collection import CorpusChunk, corpus_chunks, corpus_files
from judge_eval.errors import DataError
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.judges.judge import as_begun
from judge_eval.quotes import folded_words, stands_in
from judge_eval.runs.folder.lines import text_read
from judge_eval.runs.folder.records import CorpusSearch, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.options import KeepingKeywords
from judge_eval.schema import Chunk, Trace, Verdict
from judge_eval.study.missing import RANK
from judge_eval.trials.drift import check_same_judge

MOST_ANSWERED: Final = 500
"""For so many answered questions at most it is checked whether the search finds what the retriever found."""
SAME: Final = 0.5
"""Two chunks of one id are the same if the judged one has this share of the words of the other."""


def check_run_to_search(evaluator: Evaluator, run: Run) -> Evaluator:
    """Return the evaluator with the versions of the run's prompts; raises `ConfigError` if another judge judged it."""
    evaluator = evaluator.with_judge(as_begun(evaluator.chosen_judge, run.manifest.judge))
    check_same_judge(evaluator, run)
    return evaluator


@dataclass
class FoundInCorpus:
    """What a corpus holds for the lost questions of a run, not judged yet."""

    search: CorpusSearch
    traces: list[Trace]
    """The questions with the chunks that were found."""
    repeated: list[str] = field(default_factory=list)
    """Ids that several of the chunks found bear; they are numbered by their places in the corpus."""

    def judged(self, evaluator: Evaluator, **keeping: Unpack[KeepingKeywords]) -> EvalRun:
        """Judge what was found and keep it as a run; see `check_run_to_search`."""
        evaluator.search = self.search
        return evaluator.evaluate(self.traces, name=self.name, **keeping)

    @property
    def name(self) -> str:
        """What the data of the run are called."""
        return f"{self.search.name}, searched in {self.search.corpus}"


class _Asked(NamedTuple):
    """A question with what was judged of it: the chunks that are known, or those that were relevant."""

    trace: Trace
    chunks: Sequence[Chunk]
    verdicts: Sequence[Verdict]

    @property
    def query(self) -> str:
        return f"{self.trace.search_query or self.trace.query}\n{self.trace.reference or ''}"


class _Questions:
    """The questions of a run: lost ones, and a sample of the answered ones."""

    def __init__(self, run: Run, limit: int | None, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.answered, self.seen, self.open = list[_Asked](), 0, 0
        lost = list[_Asked]()
        for result in run.results:
            if result.trace.answerable is False:
                continue
            asked = _asked(result)
            if asked.verdicts:
                self.seen += 1
                if len(self.answered) < MOST_ANSWERED:
                    self.answered.append(asked)
                elif (place := int(draw.integers(self.seen))) < MOST_ANSWERED:
                    self.answered[place] = asked
            elif result.failed:
                self.open += 1
            else:
                lost.append(asked)
        self.count = len(lost)
        drawn = sorted(draw.choice(len(lost), min(limit or len(lost), len(lost)), replace=False).tolist())
        self.lost = [lost[place] for place in drawn]


def _asked(result: TraceResult) -> _Asked:
    trace = result.trace
    if result.claims is not None and trace.claims is None:  # what was split once is not split again
        trace = trace.replace(claims=result.claims.claims)
    pairs = [
        (chunk, outcome)
        for chunk, outcome in zip(trace.chunks, result.outcomes, strict=True)
        if outcome.kind == "verdict"
    ]
    relevant = [(chunk, outcome) for chunk, outcome in pairs if outcome.relevant]
    return _Asked(trace, [chunk for chunk, _ in relevant or pairs], [verdict for _, verdict in relevant])


def search_corpus(
    run: Run,
    corpus: Path,
    *,
    depth: int = 10,
    limit: int | None = None,
    seed: int = 0,
    announce: Callable[[Sequence[Path]], None] = lambda _: None,
) -> FoundInCorpus | None:
    """Search a corpus by BM25 for what a run's retriever lost; None if each question has a relevant chunk.

    A question is lost if nothing relevant was retrieved for it and no verdict failed; unanswerable ones are left out.
    Question and reference are searched together, since BM25 is to find the answer, not to be a retriever.
    Chunks that the run judged are passed over.

    Args:
        run: A finished run.
        corpus: A file or folder; see `corpus_files`. Its chunks may be cut otherwise than the retriever's.
        depth: How many chunks to take for each question.
        limit: For at most so many lost questions, drawn at random; None: for all.
        seed: Of the draw.
        announce: Is told the files before they are read; not called if no question is lost.

    Raises:
        ConfigError: bm25s is not installed.
        DataError: The corpus cannot be read, or no chunk has a text.
    """
    questions = _Questions(run, limit, seed)
    if not questions.lost:
        return None
    everyone, files = [*questions.lost, *questions.answered], corpus_files(corpus)
    announce(files)
    index = CorpusIndex(map(text_read, _with_text(files)), (asked.query for asked in everyone))
    if not index.size:
        raise DataError("no chunk of the corpus has a text", file=str(corpus))
    hits = [index.best(asked.query, depth * 2 + len(asked.trace.chunks)) for asked in questions.lost]
    checked = [index.best(asked.query, depth) for asked in questions.answered]
    del index
    texts = _read(files, {hit.place for some in (*hits, *checked) for hit in some})
    traces = [_trace(asked, some, texts, depth) for asked, some in zip(questions.lost, hits, strict=True)]
    search = CorpusSearch(
        run=run.id,
        name=run.name,
        corpus=corpus.name,
        chunks=texts.size,
        depth=depth,
        lost=questions.count,
        drawn=len(traces),
        open=questions.open,
        references=sum(bool((trace.reference or "").strip()) for trace in traces),
        answered=len(checked),
        answered_found=sum(
            any(_is_of(texts.chunks[hit.place], asked) for hit in some)
            for asked, some in zip(questions.answered, checked, strict=True)
        ),
    )
    return FoundInCorpus(search, traces, sorted(texts.repeated))


def _with_text(files: Iterable[Path]) -> Iterator[CorpusChunk]:
    return (chunk for chunk in corpus_chunks(files) if chunk.text and not chunk.text.isspace())


class _Read(NamedTuple):
    """Chunks of a corpus by their places among those with a text."""

    size: int
    chunks: dict[int, CorpusChunk]
    repeated: set[str]


def _read(files: Sequence[Path], wanted: set[int]) -> _Read:
    """Read some chunks; what many bear as their id gets the place of each."""
    chunks, size = dict[int, CorpusChunk](), 0
    for place, chunk in enumerate(_with_text(files)):
        size += 1
        if place in wanted:
            chunks[place] = chunk
    counts = Counter(chunk.key for chunk in chunks.values())
    repeated = {key for key, count in counts.items() if count > 1}
    named = {p: c._replace(key=f"{c.key}#{p + 1}") if c.key in repeated else c for p, c in chunks.items()}
    return _Read(size, named, repeated)


def _trace(asked: _Asked, hits: Sequence[SearchHit], corpus: _Read, depth: int) -> Trace:
    known = [(chunk.id, _folded(text_read(chunk))) for chunk in asked.chunks]
    chunks, texts = list[Chunk](), set[str]()
    for hit in hits:
        each = corpus.chunks[hit.place]
        words = _folded(each.text)
        if len(chunks) == depth or words in texts or any(_is_known(each.key, words, *judged) for judged in known):
            continue
        texts.add(words)
        chunks.append(
            Chunk.parse(
                {
                    "id": each.key,
                    "text": each.text,
                    "title": each.title,
                    "score": hit.score,
                    "metadata": {RANK: hit.rank},
                }
            )
        )
    origin = {part: name for part, name in asked.trace.origin.items() if part != "reranker"}
    fields = {name: getattr(asked.trace, name) for name in Trace.model_fields}
    return Trace.parse({**fields, "chunks": chunks, "search_query": None, "origin": origin})


def _folded(text: str) -> str:
    """Return the words of a text so that one stands in another only as whole words."""
    return f" {' '.join(folded_words(text))} "


def _is_known(key: str, words: str, judged: str, text: str) -> bool:
    """Tell whether a judged chunk holds a chunk of the corpus, or is the same with small differences."""
    return words in text or (key == judged and _overlap(words, text) >= SAME)


def _overlap(words: str, text: str) -> float:
    here, there = words.split(), set(text.split())
    return sum(word in there for word in here) / max(1, len(here))


def _is_of(chunk: CorpusChunk, asked: _Asked) -> bool:
    """Tell whether a chunk of the corpus is, holds or is part of a chunk that was relevant, or holds its quote."""
    words = _folded(text_read(chunk))
    for judged, verdict in zip(asked.chunks, asked.verdicts, strict=True):
        text = _folded(text_read(judged))
        if _is_known(chunk.key, _folded(chunk.text), judged.id, text) or _folded(judged.text) in words:
            return True
        if verdict.evidence_found and stands_in(text_read(chunk), verdict.quote):
            return True
    return False
