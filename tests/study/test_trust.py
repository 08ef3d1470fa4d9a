from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.data.labels import Labels
from judge_eval.stats.figure import Figure
from judge_eval.study.agree import agree
from judge_eval.study.correct import Corrected
from judge_eval.views.agreement import (
    agreement_sentences,
    evidence_sentence,
    first_figures,
    ranking_sentence,
    trust_sentence,
)
from judge_eval.views.correction import explain_mean, worth
from tests.support.verdicts import judged, traces_of


@dataclass(frozen=True)
class Measure:
    """A figure of agreement."""

    value: float | None
    interval: tuple[float, float] | None = None
    traces: int | None = 40


def kappa(value: float | None, low: float = 0.0, high: float = 1.0) -> dict[str, Measure]:
    """Make the figure that the first sentence rests on, with shares beside it."""
    span = None if value is None else (low, high)
    return {"kappa_ge1": Measure(value, span), "precision_ge1": Measure(0.84), "recall_ge1": Measure(0.8)}


@pytest.mark.parametrize(
    ("figures", "traces", "told"),
    [
        (kappa(0.75, 0.65, 0.84), 40, "people at least substantially on what is relevant"),
        (kappa(0.5, 0.45, 0.55), 40, "people at least moderately on what is relevant"),
        (kappa(0.95, 0.85, 0.99), 40, "people almost perfectly on what is relevant"),
        (kappa(1.0, 0.62, 1.0), 40, "people at least substantially on what is relevant"),
        (
            kappa(0.3, -0.1, 0.6),
            40,
            "The judge is no better than chance as far as these labels show: Cohen's kappa 0.30",
        ),
        (kappa(-0.5, -0.7, -0.3), 40, "less than by chance"),
        (kappa(0.9, 0.8, 1.0), 9, "Cohen's kappa 0.90 (95% interval 0.80 to 1.00) is based on only 9"),
        (kappa(None), 40, "one side gives all chunks the same grade"),
    ],
)
def test_the_first_sentence_claims_what_the_interval_shows(figures: dict[str, Measure], traces: int, told: str) -> None:
    """The words follow the ends of the interval; chance inside it, few traces or one grade claim nothing."""
    assert told in trust_sentence(figures, 1, traces)


@given(st.floats(-1, 1), st.floats(0, 1), st.integers(1, 500), st.booleans())
def test_no_trust_is_claimed_where_chance_is_in_the_interval(
    value: float, width: float, traces: int, another: bool
) -> None:
    """Only an interval above 0, on ten traces or more, is called agreement; it is one sentence always."""
    low, high = max(-1.0, value - width), min(1.0, value + width)
    answers = trust_sentence(kappa(value, low, high), 1, traces, another=another)
    claimed = "on what is relevant" in answers
    assert claimed == (low > 0 and traces >= 10)
    assert answers.endswith(".")
    assert "." not in re.sub(r"\d\.\d", "", answers)[:-1]


def test_another_judge_is_no_evidence_of_being_right() -> None:
    """Two judges that agree may both be wrong, and the sentences say so."""
    assert "this does not show which of them is right" in trust_sentence(kappa(0.8, 0.7, 0.9), 1, 50, another=True)
    answers = evidence_sentence(Measure(0.8, (0.7, 0.9)), 100, 50, "b", another=True)
    assert answers.startswith("The evidence: 100 chunks of 50 traces that both judged; only labels by people show")


def test_the_second_sentence_says_what_is_left_out_and_what_would_help() -> None:
    """Labels on a part, failed verdicts, a wide interval and few traces are named; narrow ones are not."""
    wide, narrow = Measure(0.5, (0.3, 0.7)), Measure(0.5, (0.45, 0.55))
    assert evidence_sentence(narrow, 185, 37, "the dataset") == (
        "The evidence: 185 chunks of 37 traces with labels from the dataset."
    )
    answers = evidence_sentence(wide, 1, 20, "x.csv", failed=1, unlabelled=900)
    assert "the other 900 chunks only if they were drawn at random" in answers
    assert "1 chunk without a verdict is left out; about 80 traces (4 labels) would halve the interval." in answers
    answers = evidence_sentence(Measure(1.0, (0.75, 1.0)), 150, 30, "x.csv")
    assert answers.endswith("; about 60 traces (300 labels) would halve the interval.")
    assert "would halve" in evidence_sentence(Measure(0.85, (0.76, 0.93)), 150, 30, "x.csv")
    assert evidence_sentence(narrow, 9, 3, "x.csv").endswith("; label 100 traces or more.")


@pytest.mark.parametrize("top", [1, 2, 3])
def test_at_most_six_figures_come_first_and_each_says_what_it_is(top: int) -> None:
    """They are among those there are, on the scale's own threshold, and every one has a meaning."""
    names = [
        *("kappa", "kappa_linear", "kappa_quadratic", "alpha_nominal", "ac1", "accuracy", "bias"),
        *(f"{name}_ge{g}" for g in range(1, top + 1) for name in ("kappa", "precision", "recall", "specificity")),
    ]
    chosen = first_figures(names, min(top, 2))
    assert 5 <= len(chosen) <= 6
    assert set(chosen) <= set(names)
    assert all(chosen.values())
    assert "the labels" not in " ".join(first_figures(names, min(top, 2), another=True).values())


def test_the_record_holds_both_sentences() -> None:
    """`agree --json` and Python get them too."""
    labels = {(f"t{k}", c): (k + (c == "a")) % 2 for k in range(20) for c in "ab"}
    run = judged(traces_of({f"t{k}": "ab" for k in range(20)}), labels)
    result = agree(run, labels_as(labels))
    assert agreement_sentences(result)["trust"].startswith("The judge agrees with people at least substantially")
    assert agreement_sentences(result)["evidence"] == (
        "The evidence: 40 chunks of 20 traces with labels from people.csv; "
        "about 40 traces (80 labels) would halve the interval."
    )
    assert isinstance(result.figures["kappa"], Figure)


def labels_as(grades: dict[tuple[str, str], int]) -> Labels:
    """Make labels of a file."""
    return Labels(dict(grades), {}, ("people.csv",))


def test_systems_in_the_order_of_labels_are_counted() -> None:
    """Pairs alike, pairs the other way round and ties are told apart."""
    assert ranking_sentence([3, 2, 1], [3, 2, 1]).startswith("The judge orders 3 of 3 pairs")
    assert ranking_sentence([3, 1, 2], [3, 2, 1]).startswith("The judge orders 2 of 3 pairs")
    assert "1 of them are equal by labels" in ranking_sentence([3, 1, 2], [3, 2, 2])


def corrected(effective: float | None, power: float = 0.6) -> Corrected:
    """Make a corrected mean."""
    return Corrected(
        metric="AP@5",
        value=0.5,
        interval=(0.4, 0.6),
        standard_error=0.05,
        power=power,
        n_labelled=40,
        n_unlabelled=300,
        effective_n=effective,
        judge_only=0.62,
        labels_only=0.48,
        method="PPI++ t",
    )


def test_every_number_of_a_correction_is_explained() -> None:
    """Each number of the table stands at the head of a sentence that says what it is."""
    answers = explain_mean(corrected(76.4))
    heads = ["corrected 0.5000", "judge alone 0.6200", "labels alone 0.4800", "weight of the judge 0.60"]
    assert [line.startswith(head) for line, head in zip(answers, heads, strict=False)] == [True] * 4
    assert "0.1200 above the corrected one" in answers[1]
    assert answers[4].startswith("worth 76 labels: as sure as 76 traces labelled by people without a judge; 40 were")
    assert answers[4].endswith("saved the labelling of 36 more")
    assert explain_mean(corrected(40.0))[4].endswith("saved no labels")
    assert len(explain_mean(corrected(None))) == 4
    assert (worth(None), worth(76.4)) == ("", "76 labels")
