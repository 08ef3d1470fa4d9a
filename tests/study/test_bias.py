"""Biases of a judge: seeded ones are seen, others are not, and little data says nothing."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.stats_bias import bias_power
from judge_eval import Chunk, Evaluator, Trace
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.judges.listwise import order_of_sample
from judge_eval.llm.fake.fake_backend import create
from judge_eval.study.bias import BiasReport, bias_report, family_of

RNG = np.random.default_rng(12)
WORDS = ("river", "stone", "cloud", "maple", "tiger", "violin", "copper", "lantern", "orbit", "pepper", "saddle")


def traces(count: int) -> list[Trace]:
    """Traces of eight chunks; a chunk with the reference's words is relevant, and some are long or of kin."""
    made = []
    for t in range(count):
        answer = " ".join(f"{word}{t}" for word in RNG.permutation(WORDS)[:4])
        chunks = []
        for c in range(8):
            relevant = RNG.random() < 0.4
            text = f"{answer if relevant else 'nothing of note'}. " + " ".join(RNG.choice(WORDS, RNG.integers(10, 120)))
            kin = RNG.random() < 0.4
            chunks.append(
                Chunk(
                    id=f"c{c}",
                    text=text + " biased" * kin,
                    label=int(relevant),
                    metadata={"origin": "fake/biased" if kin else "x/other"},
                )
            )
        made.append(
            Trace(id=f"t{t}", query=f"what is thing {t}?", reference=answer, chunks=chunks, origin={"reranker": "x/y"})
        )
    return made


def report_of(count: int, mode: str = "pointwise", **biases: float) -> BiasReport:
    """Judge with these biases, and study them."""
    data = traces(count)
    settings = {"repeat": 3} if mode == "listwise" else {}
    with Evaluator(
        create("biased", **biases), prompt="support/binary", mode=mode, metrics=["P@5"], cache=False, **settings
    ) as evaluator:
        run = evaluator.evaluate(data)
    labels = Labels({(t.id, c.id): c.label for t in data for c in t.chunks if c.label is not None})
    return bias_report(run, labels, origin={"answer": "fake/other"})


@pytest.mark.slow
def test_a_stated_bias_is_seen_and_no_other() -> None:
    """A fake judge that favours its kin by 2 in log odds is seen to; length, rank and echo are not called biased."""
    values = {bias.feature: bias for bias in report_of(80, kinship=2.0).biases}
    kin = values["kinship with chunk =yes"]
    assert kin.verdict == "biased"
    assert kin.interval is not None
    assert kin.interval[0] > 0
    assert {name for name, bias in values.items() if bias.verdict == "biased"} == {kin.feature}
    assert values["kinship with reranker =yes"].verdict == "cannot say"


@pytest.mark.slow
def test_length_is_seen_with_its_sign() -> None:
    """A judge that dislikes long chunks has a negative effect of length."""
    values = {bias.feature: bias for bias in report_of(80, length=-1.5).biases}
    assert values["length"].verdict == "biased"
    assert (values["length"].effect or 0) < 0


def test_power_and_false_alarms() -> None:
    """In 40 draws a bias of .8 in log odds is seen in 90%, and without one at most 4 have an alarm."""
    seen, _, alarms, _ = bias_power(40, traces=100)
    assert seen.rate >= 0.9
    assert alarms.rate <= 0.1


def test_little_data_say_nothing() -> None:
    """Under 20 traces the study refuses; with 25 a small sample cannot rule a bias of 5 points out."""
    with pytest.raises(DataError, match="at least 20"):
        report_of(10)
    assert all(bias.verdict != "none seen" for bias in report_of(25).biases)


@pytest.mark.slow
def test_samples_of_a_list_see_their_own_orders() -> None:
    """The first sample sees the retriever's order, each later one another, the same in every run; rank bias is seen."""
    (trace,) = traces(1)
    orders = [order_of_sample(trace, 8, sample) for sample in range(3)]
    assert orders[0] == list(range(8))
    assert all(sorted(order) == orders[0] for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert orders[2] == order_of_sample(trace, 8, 2)
    straight, tilted = report_of(60, "listwise").rank_in_list, report_of(60, "listwise", rank=-3.0).rank_in_list
    assert straight is not None
    assert tilted is not None
    assert tilted.interval is not None
    assert tilted.interval[1] < 0
    assert straight.interval is not None
    assert straight.interval[0] < 0 < straight.interval[1]


@pytest.mark.parametrize(
    ("name", "family"), [("openai/gpt-4.1", "gpt"), ("x/y/Qwen3-8B", "qwen"), ("fake/biased-1", "biased")]
)
def test_a_family_is_what_a_name_begins_with(name: str, family: str) -> None:
    """Letters before the first digit or dash, without the provider."""
    assert family_of(name) == family


def test_a_source_is_held_against_the_most_frequent_one() -> None:
    """Sources that all chunks have exclude each other: the most frequent is no feature, and the others say its name."""
    data = traces(60)
    sources = {(t.id, c.id): ("faq", "wiki", "wiki", "manual")[k % 4] for t in data for k, c in enumerate(t.chunks)}
    named = [
        t.replace(
            chunks=tuple(c.replace(metadata={"source": sources[t.id, c.id]}) for c in t.chunks),
            metadata={"language": "en"},
        )
        for t in data
    ]
    with Evaluator(create("biased"), prompt="support/binary", metrics=["P@5"], cache=False) as evaluator:
        run = evaluator.evaluate(named)
    labels = Labels({(t.id, c.id): c.label for t in data for c in t.chunks if c.label is not None})
    values = {bias.feature: bias for bias in bias_report(run, labels).biases}
    assert {name for name in values if name.startswith("source")} == {"source =faq", "source =manual"}
    assert values["source =faq"].step == "in place of wiki"
    assert all(values[name].verdict != "biased" for name in ("source =faq", "source =manual"))
    assert not any(name.startswith("language") for name in values)
