from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from judge_eval.data.labels import Labels
from judge_eval.pages.rows import Table
from judge_eval.pages.runpage import run_page
from judge_eval.runs.folder.labels import with_labels
from judge_eval.stats.figure import Interval
from judge_eval.stats.probabilities import reliability_figures
from judge_eval.study.agree import agree
from judge_eval.study.matching import labels_of
from judge_eval.views.agreement import agreement_sentences, certainty_sentence
from tests.support.likely import likely_run


def test_agreement_tells_how_far_probabilities_go() -> None:
    """The figures are those of `reliability_figures` over verdicts with labels; a sentence says it first."""
    run = likely_run()
    outcome = agree(run, None)
    assert outcome.reliability is not None
    sure = [o.confidence for r in run.results for o in r.outcomes if o.kind == "verdict"]
    human = [c.label for r in run.results for c in r.trace.chunks]
    traces = [r.trace_id for r in run.results for _ in r.outcomes]
    result = reliability_figures(np.array(sure, dtype=float), np.array(human, dtype=float), traces)
    for name in ("ece", "brier", "log_loss", "bias"):
        figure, estimate = outcome.reliability.figures[name], getattr(result, name)
        assert estimate.interval is not None
        assert figure.value == estimate.value
        assert figure.interval == (estimate.interval.low, estimate.interval.high)
    assert [b.rate.value for b in outcome.reliability.bins] == [b.rate.value for b in result.bins]
    assert (outcome.reliability.n, outcome.reliability.traces, outcome.reliability.without) == (360, 60, 0)
    assert agreement_sentences(outcome)["certainty"].startswith("Its probabilities differ from the labels by 0.1")
    assert agree(run, labels_of(run)).reliability == outcome.reliability


def test_without_a_probability_there_is_no_figure() -> None:
    """No verdict has a probability: it is said, with what to do, and nothing is computed."""
    result = agree(likely_run(told=False), None)
    assert result.reliability is None
    assert (
        "no verdict has one (the judge returns them with the option `confidence`"
        in agreement_sentences(result)["certainty"]
    )


def test_verdicts_without_a_probability_are_counted() -> None:
    """Two of six chunks come without: they are in no figure of probabilities, and in every other."""
    result = agree(likely_run(silent=2), None)
    assert result.reliability is not None
    assert (result.n, result.reliability.n, result.reliability.without) == (360, 240, 120)


def test_few_traces_certify_nothing() -> None:
    """Under ten traces the figures are there, and the sentence says that nothing can be told yet."""
    result = agree(likely_run(6), None)
    assert result.reliability is not None
    assert (
        "not known yet how reliable its probabilities are: there are only 6 traces"
        in agreement_sentences(result)["certainty"]
    )


def test_another_judge_in_the_place_of_labels() -> None:
    """Its verdicts are what probabilities are held against, and the sentence says so."""
    result = agree(likely_run(), likely_run(told=False))
    assert result.reliability is not None
    assert result.reliability.figures["brier"].value is not None
    assert "the other judge's verdicts" in agreement_sentences(result)["certainty"]


def test_labels_are_relevant_from_the_threshold() -> None:
    """Graded labels are made binary by the threshold, as for every other figure."""
    run = likely_run()
    labels = labels_of(run)
    graded = Labels({key: 3 * grade for key, grade in labels.grades.items()})
    turned = Labels({key: 1 + grade for key, grade in labels.grades.items()})
    plain = agree(run, labels).reliability
    assert agree(run, graded).reliability == plain
    assert agree(run, turned, threshold=2).reliability == plain


def test_the_page_shows_the_same_figures() -> None:
    """What the run's page draws is what `agree` says, to the last digit; without probabilities a sentence."""
    run = likely_run(silent=1)
    result = agree(run, None)
    assert result.reliability is not None
    page = run_page(Table(with_labels(run)))["agreement"]
    assert page["reliability"] == result.reliability.model_dump(mode="json")
    assert page["certainty"] == agreement_sentences(result)["certainty"]
    silent = run_page(Table(with_labels(likely_run(told=False))))["agreement"]
    assert silent["reliability"] is None
    assert "no verdict has one" in silent["certainty"]


@pytest.mark.parametrize(
    ("ece", "bias", "said"),
    [
        ((0.1, (0.0, 0.2)), (0.1, (0.05, 0.15)), "0.00 to 0.20), which may be due to chance."),
        ((0.1, (0.05, 0.2)), (0.1, (0.05, 0.15)), "; they are too high."),
        ((0.1, (0.05, 0.2)), (-0.1, (-0.15, -0.05)), "; they are too low."),
        ((0.1, (0.05, 0.2)), (0.0, (-0.05, 0.05)), "interval 0.05 to 0.20)."),
    ],
)
def test_the_sentence_says_what_the_intervals_allow(
    ece: tuple[float, tuple[float, float]], bias: tuple[float, tuple[float, float]], said: str
) -> None:
    """Only an interval that leaves chance out is called anything."""
    run = agree(likely_run(12), None).reliability
    assert run is not None
    figures = {
        name: replace(run.figures[name], value=value, interval=Interval(*interval))
        for name, (value, interval) in (("ece", ece), ("bias", bias))
    }
    assert certainty_sentence(run.model_copy(update={"figures": figures})).endswith(said)
