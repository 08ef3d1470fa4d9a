import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score

from judge_eval.llm.fake import fake_backend as fake
from judge_eval.schema import Trace
from judge_eval.wire import Passage, Request
from tests.support.plain_form import PlainForm

pytestmark = pytest.mark.foreign

FIXTURES = Path(__file__).parents[1] / "fixtures"
FILES = ("docs_qa.jsonl", "docs_qa_graded.jsonl", "pizza.jsonl")
KINDS = {
    "plain", "near-miss", "multi-hop", "contradiction", "other-language", "cross-language", "injection",
    "paraphrase", "title-needed", "yes-no", "partial", "duplicate", "blank-chunk", "empty-retrieval",
    "all-irrelevant",
}  # fmt: skip


def load(name: str) -> list[Trace]:
    """Read a fixture strictly."""
    lines = (FIXTURES / name).read_text(encoding="utf-8").splitlines()
    return [Trace.parse(json.loads(line), file=name, line=number) for number, line in enumerate(lines, 1)]


def overlap(trace: Trace) -> list[dict[str, Any]]:
    """Judge every chunk of a trace by `fake/overlap`."""

    async def run() -> list[dict[str, Any]]:
        backend, form, replies = fake.create("overlap"), PlainForm(), []
        for chunk in trace.chunks:
            shown = (Passage(chunk.text, chunk.title),)
            request = Request(form, trace.query, shown, 300, reference=trace.reference)
            replies.append(json.loads((await backend.complete(request)).text))
        return replies

    return asyncio.run(run())


def of_kind(kind: str) -> list[Trace]:
    """The traces written for one case."""
    return [trace for trace in load("docs_qa.jsonl") if trace.metadata["kind"] == kind]


@pytest.mark.parametrize("name", FILES)
def test_every_record_is_complete(name):
    """Every trace parses, has all that a metric or a prompt may need, and fits its own labels."""
    traces = load(name)
    assert len({trace.id for trace in traces}) == len(traces)
    for trace in traces:
        assert trace.reference
        assert trace.answer
        assert trace.tags
        assert trace.metadata["kind"] in (*KINDS, "pizza")
        assert trace.metadata["kind"] in trace.tags
        scores = [chunk.score for chunk in trace.chunks]
        assert scores == sorted(scores, key=lambda score: -score)
        assert all(chunk.label is not None for chunk in trace.chunks)
        least = 2 if "graded" in name else 1
        assert sum(chunk.label >= least for chunk in trace.chunks) <= trace.relevant_total


def test_chunk_ids_are_unique_in_the_file():
    """No two chunks of a file share an id, so that a pool or qrels can be made of it."""
    ids = [chunk.id for trace in load("docs_qa.jsonl") for chunk in trace.chunks]
    assert len(set(ids)) == len(ids)


def test_size_and_labels_are_as_described():
    """The counts that the README of the fixtures states are true."""
    traces = load("docs_qa.jsonl")
    assert len(traces) == 38
    assert Counter(len(trace.chunks) for trace in traces) == {5: 37, 0: 1}
    labels = Counter(chunk.label for trace in traces for chunk in trace.chunks)
    assert labels == {0: 134, 1: 51}
    graded = load("docs_qa_graded.jsonl")
    assert len(graded) == 18
    assert Counter(chunk.label for trace in graded for chunk in trace.chunks) == {0: 36, 1: 30, 2: 8, 3: 16}


def test_readme_counts_every_kind():
    """Each case has its row with the right number of traces in the README of the fixtures."""
    readme = (FIXTURES / "README.md").read_text(encoding="utf-8").split("Those of `claims.jsonl`")[0]
    rows = [line.strip("| ").split("|") for line in readme.splitlines() if line.startswith("| `")]
    stated = {row[0].strip(" `"): int(row[2]) for row in rows if row[0].strip(" `") in KINDS}
    counted = Counter(trace.metadata["kind"] for trace in load("docs_qa.jsonl"))
    assert stated == counted
    assert set(stated) == KINDS


def test_texts_are_realistic_in_length():
    """Chunks in languages with spaces have 40 to 120 words, except the one that is blank on purpose."""
    for trace in load("docs_qa.jsonl"):
        for chunk in trace.chunks:
            if chunk.text.strip() and "japanese" not in trace.tags:
                assert 40 <= len(chunk.text.split()) <= 120, chunk.id


def test_graded_file_agrees_with_the_binary_one():
    """A graded trace is the same trace, and a chunk is relevant exactly where its grade is 2 or more."""
    binary = {trace.id: trace for trace in load("docs_qa.jsonl")}
    for trace in load("docs_qa_graded.jsonl"):
        assert trace.digest == binary[trace.id].digest
        assert [int(chunk.label >= 2) for chunk in trace.chunks] == [chunk.label for chunk in binary[trace.id].chunks]


def test_ranks_differ():
    """The relevant chunks stand at different ranks, so that ranking metrics differ over traces."""
    patterns = {tuple(chunk.label for chunk in trace.chunks) for trace in load("docs_qa.jsonl")}
    assert len(patterns) >= 10


def test_the_odd_retrievals_are_there():
    """There is an empty retrieval, a blank chunk, a doubled text, and a trace without any relevant chunk."""
    (empty,) = of_kind("empty-retrieval")
    assert empty.chunks == ()
    (blank,) = of_kind("blank-chunk")
    assert [chunk for chunk in blank.chunks if not chunk.text.strip()]
    (doubled,) = of_kind("duplicate")
    assert len({chunk.text for chunk in doubled.chunks}) == len(doubled.chunks) - 1
    (hopeless,) = of_kind("all-irrelevant")
    assert not any(chunk.label for chunk in hopeless.chunks)


def test_several_chunks_are_needed_where_promised():
    """A multi-hop trace has two relevant chunks, and neither has the highest grade."""
    for trace in of_kind("multi-hop"):
        assert sum(chunk.label for chunk in trace.chunks) == 2
    graded = {trace.id: trace for trace in load("docs_qa_graded.jsonl")}
    for trace in of_kind("multi-hop"):
        if trace.id in graded:
            assert max(chunk.label for chunk in graded[trace.id].chunks) == 2


@pytest.mark.parametrize(
    ("tag", "letters"),
    [("arabic", "[\u0620-\u064a]"), ("japanese", "[ぁ-ヿ]"), ("german", "[äöüß]"), ("french", "[éèêà]")],
)
def test_other_languages_are_there(tag, letters):
    """German, French, Japanese and Arabic texts are there, in their own letters."""
    texts = [chunk.text for trace in load("docs_qa.jsonl") if tag in trace.tags for chunk in trace.chunks]
    assert sum(re.search(letters, text) is not None for text in texts) >= 2


def test_injections_are_seen_and_are_not_relevant():
    """Each injection is one chunk labelled 0 that the fake judge flags, and it flags no other chunk."""
    for trace in load("docs_qa.jsonl"):
        flagged = [reply["instruction_in_chunk"] for reply in overlap(trace)]
        assert sum(flagged) == (trace.metadata["kind"] == "injection"), trace.id
        assert not any(chunk.label for chunk, flag in zip(trace.chunks, flagged, strict=True) if flag)


def test_pizza_under_overlap():
    """Only the second chunk names the tomatoes, for people and for the overlap rule: AP is 0.5."""
    (trace,) = load("pizza.jsonl")
    assert [chunk.label for chunk in trace.chunks] == [0, 1, 0, 0]
    assert [int(reply["verdict"]) for reply in overlap(trace)] == [0, 1, 0, 0]


def test_overlap_is_good_but_not_perfect():
    """On the documentation set the overlap rule agrees with the labels, and is fooled where it must be."""
    labels, verdicts = [], []
    for trace in load("docs_qa.jsonl"):
        labels += [chunk.label for chunk in trace.chunks]
        verdicts += [int(reply["verdict"]) for reply in overlap(trace)]
    assert 0.6 <= cohen_kappa_score(labels, verdicts) <= 0.9
    for kind in ("contradiction", "paraphrase", "cross-language"):
        assert any(
            reply["verdict"] != bool(chunk.label)
            for trace in of_kind(kind)
            for chunk, reply in zip(trace.chunks, overlap(trace), strict=True)
        ), kind
