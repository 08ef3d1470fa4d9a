"""What another wording of the query finds, what every wording loses, and when nothing can be said."""

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import Comparison
from judge_eval.digest import digest_json
from judge_eval.eval_run import EvalRun
from judge_eval.llm.backend import Identity
from judge_eval.views.blocks import View
from judge_eval.views.comparison import comparison_view
from judge_eval.views.findings import headlines
from judge_eval.wire import Request
from tests.support.notes import note_sentences

SAID = {"0": "no", "1": "yes"}
Question = tuple[str, str, str]
"""Of a question: its conversation, what was searched, and the relevance of what came back, a digit a rank."""


def verdict(request: Request) -> str:
    """Accept what says so."""
    good = request.passages[0].text.startswith("yes")
    return json.dumps({"evidence": "it is", "reason": "r", "instruction_in_chunk": False, "verdict": good})


def run_of(name: str, questions: Mapping[str, Question], **more: Any) -> EvalRun:
    """Judge what was searched in one wording: chunks differ by the wording and the rank."""
    traces = [
        Trace.parse(
            {
                "id": key,
                "query": f"the question {key}",
                "history": [{"role": "user", "content": "before"}],
                "search_query": searched,
                "chunks": [
                    {
                        "id": f"{searched}-{rank}",
                        "text": f"{'yes' if bit == '1' else 'no'}: it is {digest_json(searched)} {rank}",
                    }
                    for rank, bit in enumerate(bits)
                ],
                "metadata": {"session_id": session},
                **more,
            }
        )
        for key, (session, searched, bits) in questions.items()
    ]
    backend = FakeBackend(verdict, identity=Identity("test", "m"))
    evaluator = Evaluator(backend, prompt="relevance/binary", metrics=["AP@5", "DCG@5"], cache=False)
    run = evaluator.evaluate(traces)
    return run.replace(run.manifest.replace(label=name))


def sentences(comparison: Comparison) -> str:
    """All that is said first."""
    return " ".join(headlines(comparison))


def average_precision(bits: str) -> float:
    """AP@5 of relevance by rank."""
    hits = [int(bit) for bit in bits[:5]]
    found = [sum(hits[: rank + 1]) / (rank + 1) for rank, hit in enumerate(hits) if hit]
    return sum(found) / len(found) if found else 0.0


def split_of(wordings: Sequence[Mapping[str, Question]], names: Sequence[str]) -> Comparison:
    """Compare wordings with the first."""
    first, *others = [run_of(name, questions) for name, questions in zip(names, wordings, strict=True)]
    return compare(first, *others, keep=10)


BITS = st.text("01", min_size=0, max_size=5)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(BITS, BITS, BITS), min_size=2, max_size=6))
def test_the_loss_is_the_sum_of_its_two_parts(rows: list[tuple[str, str, str]]) -> None:
    """By hand, with two other wordings; net is what more and less leave."""
    names = ("deployed", "human", "raw")
    wordings = [
        {str(k): (str(k // 2), f"{name} {k}", row[w]) for k, row in enumerate(rows)} for w, name in enumerate(names)
    ]
    comparison = split_of(wordings, names)
    (split,) = comparison.wordings
    values = np.array([[average_precision(bits) for bits in row] for row in rows])
    best = values.max(axis=1)
    assert split.mean == pytest.approx(values[:, 0].mean())
    assert split.other == pytest.approx((best - values[:, 0]).mean())
    assert split.every == pytest.approx((1 - best).mean())
    assert 1 - split.mean == pytest.approx(split.other + split.every)
    for place, each in enumerate(split.against, 1):
        change = values[:, place] - values[:, 0]
        assert (each.net, each.more - each.less) == (pytest.approx(change.mean()), pytest.approx(change.mean()))
        assert (each.questions_more, each.questions_less) == (int((change > 0).sum()), int((change < 0).sum()))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3], ids=["questions", "conversations"])
@pytest.mark.parametrize(("deployed", "others"), [(0.5, 0.3), (0.9, 0.5)])
def test_the_two_losses_are_covered(deployed: float, others: float, size: int) -> None:
    """The 95% intervals hold what other wordings find in 93% of runs or more, and what every wording loses.

    12 questions with one chunk each; those of a conversation are found or lost together half of the time.
    """
    rng, rounds = np.random.default_rng(7), 300
    lost = 1 - deployed
    truths = (lost * (1 - (1 - others) ** 2), lost * (1 - others) ** 2)
    held = np.zeros(2)
    for _ in range(rounds):
        alike = np.repeat(rng.random(12 // size) < 0.5, size)
        drawn = [np.where(alike, np.repeat(rng.random(12 // size), size), rng.random(12)) for _ in range(3)]
        found = [draws < rate for draws, rate in zip(drawn, (deployed, others, others), strict=True)]
        wordings = [
            {str(k): (f"s{k // size}", f"{name} {k}", str(int(hit))) for k, hit in enumerate(hits)}
            for name, hits in zip("abc", found, strict=True)
        ]
        (split,) = split_of(wordings, ("deployed", "human", "raw")).wordings
        for place, interval in enumerate((split.other_interval, split.every_interval)):
            assert interval is not None
            held[place] += interval[0] <= truths[place] <= interval[1]
    assert (held / rounds >= 0.93).all(), held / rounds


ONE = {"a": ("s", "x a", "10"), "b": ("s", "x b", "01"), "c": ("t", "x c", "00"), "d": ("t", "same", "1")}
TWO = {"a": ("s", "y a", "01"), "b": ("s", "y b", "11"), "c": ("t", "y c", "00"), "d": ("t", "same", "1")}


def test_the_sentence_names_both_directions_and_the_table_both_wordings() -> None:
    """Of metrics from 0 to 1; questions searched in the same words have the same chunks."""
    comparison = split_of([ONE, TWO], ["deployed", "human"])
    assert [split.metric for split in comparison.wordings] == ["AP@5"]
    said = sentences(comparison)
    assert "AP@5 is 0.625. Of the 0.375 lost at most 0.125 [" in said
    assert "is the wording's: with human 1 question gains (0.125) and 1 loses (0.125), net +0.000 [" in said
    assert "0.250 [" in said
    assert said.endswith("is lost with both wordings")
    assert comparison.wordings[0].clusters == 2
    assert "x a / y a" in str(comparison_view(comparison, traces=10, claims=1))
    assert isinstance(comparison_view(comparison, traces=10, claims=1), View)


def test_nothing_is_said_of_a_loss_that_there_is_not() -> None:
    """A run that finds everything first has no loss to split; its figures stay in the record."""
    found = {name: (session, searched, "1") for name, (session, searched, _) in ONE.items()}
    comparison = split_of([found, TWO], ["deployed", "human"])
    assert (comparison.wordings[0].other, comparison.wordings[0].every) == (0, 0)
    assert "is the wording's" not in sentences(comparison)


def test_nothing_is_split_if_the_retriever_changed_too() -> None:
    """Equal queries that brought other chunks are counted in a note; runs of one wording say nothing of it."""
    other = {**TWO, "d": ("t", "same", "01")}
    comparison = split_of([ONE, other], ["deployed", "human"])
    assert comparison.wordings == ()
    note = (
        "1 question searched the same query and got other chunks: the retriever changed too, so the loss is not split"
    )
    assert any(text.startswith(note) for text in note_sentences(comparison.notes))
    alike = split_of([ONE, {key: (s, ONE[key][1], bits) for key, (s, _, bits) in other.items()}], ["one", "two"])
    assert (alike.wordings, [text for text in note_sentences(alike.notes) if "searched" in text]) == ((), [])


def test_a_wording_is_never_shown_to_the_judge() -> None:
    """A wrong rewrite would bend the truth: it is in no request and in no digest."""
    trace = Trace.parse({"query": "q", "search_query": "a rewrite", "chunks": ["yes: it is"]})
    assert trace.digest == trace.replace(search_query=None).digest
    backend = FakeBackend(verdict, identity=Identity("test", "m"))
    Evaluator(backend, prompt="relevance/binary", cache=False).evaluate(trace)
    assert not any("rewrite" in message.content for request in backend.requests for message in request.messages)


def mtrag(folder: Path, retriever: str) -> dict[str, dict[str, Question]]:
    """Read what was searched in three wordings, and the relevance of what was found."""
    with gzip.open(folder / "mtrag_queries.jsonl.gz", "rt") as lines:
        searched = {(row["conversation"], row["turn"]): row for row in map(json.loads, lines)}
    wordings: dict[str, dict[str, Question]] = {"rewritten": {}, "human": {}, "raw": {}}
    with gzip.open(folder / "mtrag_wordings.tsv.gz", "rt") as table:
        for row in csv.DictReader(table, delimiter="\t"):
            if row["retriever"] == retriever:
                key = row["conversation"], int(row["turn"])
                bits = row["relevance_top10"].replace("-", "")
                text = searched[key][row["wording"]].strip()
                wordings[row["wording"]][f"{key[0]}-{key[1]}"] = (key[0], text, bits)
    return wordings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retriever", "parts", "human"),
    [
        ("bm25", (0.725, 0.071, 0.655), (-0.022, 0.0126, 66, 93)),
        ("bge", (0.542, 0.081, 0.461), (-0.024, 0.0131, 102, 111)),
        ("elser", (0.442, 0.099, 0.343), (-0.027, 0.0154, 78, 92)),
    ],
)
def test_the_figures_of_mtrag(
    conformance_data: Path, retriever: str, parts: tuple[float, float, float], human: tuple[float, float, int, int]
) -> None:
    """A rewriter, a person and the raw turn as wordings of 576 questions in conversations (ELSER: 388)."""
    wordings = mtrag(conformance_data / "conversations", retriever)
    comparison = split_of(list(wordings.values()), list(wordings))
    (split,) = comparison.wordings
    assert tuple(round(each, 3) for each in (1 - split.mean, split.other, split.every)) == parts
    against, difference = split.against[0], comparison["AP@5"]
    assert (round(against.net, 3), against.questions_more, against.questions_less) == (human[0], human[2], human[3])
    assert difference.standard_error == pytest.approx(human[1], abs=0.00006)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retriever", "person", "raw"),
    [
        ("bm25", (0.725, 0.051, 0.674, -0.022, 0.051, 0.073), (0.784, 0.100, 0.684, 0.059, 0.100, 0.041)),
        ("bge", (0.542, 0.060, 0.481, -0.024, 0.060, 0.084), (0.627, 0.138, 0.489, 0.086, 0.138, 0.053)),
        ("elser", (0.442, 0.072, 0.370, -0.027, 0.072, 0.099), (0.518, 0.134, 0.384, 0.076, 0.134, 0.058)),
    ],
)
def test_the_figures_of_mtrag_with_two_wordings(
    conformance_data: Path, retriever: str, person: tuple[float, ...], raw: tuple[float, ...]
) -> None:
    """With a person's wording alone beside the rewriter's, and with the raw turn deployed."""
    wordings = mtrag(conformance_data / "conversations", retriever)
    for names, figures in ((("rewritten", "human"), person), (("raw", "rewritten"), raw)):
        (split,) = split_of([wordings[name] for name in names], names).wordings
        (against,) = split.against
        parts = 1 - split.mean, split.other, split.every, against.net, against.more, against.less
        assert parts == pytest.approx(figures, abs=0.0011), names
