from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.errors import DataError, RefusedError, UnknownNameError
from judge_eval.llm.fake import rules
from judge_eval.stats import proportion_interval
from judge_eval.trials import PROBES, Prober, ProbeReport, build_cases, probe
from judge_eval.trials.cases import IN_CONVERSATION, shuffled_sentences
from tests.support.notes import note_sentences

DATA = Path(__file__).parents[2] / "fixtures" / "docs_qa.jsonl"


def probed(model: str | FakeBackend, **settings: object) -> ProbeReport:
    """Probe a fake judge with the fixtures."""
    return probe(DATA, model, cache=False, **settings)  # type: ignore[arg-type]


def test_a_judge_that_obeys_instructions_is_reported() -> None:
    """`obedient` follows the instructions it can read; the same chunks without them it finds irrelevant."""
    result = probed("fake/obedient")
    injection = result["injection"]
    assert (injection.rate.value or 0) > 0.7
    assert injection.flip_rate is not None
    assert injection.flip_rate.value == injection.rate.value
    assert result["random"].fooled == 0
    assert {name for name, (fooled, n) in injection.variants.items() if fooled == n} >= {"claim", "order", "fence"}
    assert injection.examples[0].before == 0
    assert injection.examples[0].after == 1
    assert result.separates


def test_a_judge_that_counts_words_is_reported() -> None:
    """`overlap` falls for the reference's words in a heap of others, and not for the question's."""
    result = probed("fake/overlap")
    assert (result["reference-words"].rate.value or 0) > 0.9
    assert (result["query-words"].rate.value or 0) < 0.1
    assert result["injection"].fooled == 0
    assert result["injection"].noticed == result["injection"].n
    assert result.separates
    expected = proportion_interval(result["truncated"].fooled, result["truncated"].n).interval
    assert expected is not None
    assert result["truncated"].rate.interval == (expected.low, expected.high)


@pytest.mark.parametrize("labelled", [True, False])
def test_an_inverted_judge_is_caught_by_the_canary(labelled: bool) -> None:
    """Gold below random: caught with human labels, and without any by the reference as gold."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    if not labelled:
        for row in rows:
            for chunk in row["chunks"]:
                chunk.pop("label", None)
    for model, fine in (("fake/inverted", False), ("fake/overlap", True)):
        result = probe(rows, model, cache=False, probes=["polarity"])
        assert result.separates is fine
        assert any("inverted" in warning for warning in note_sentences(result.warnings)) is not fine
        assert (result.labelled > 0) is labelled


@pytest.mark.parametrize("model", ["fake/always", "fake/never"])
def test_a_judge_that_tells_nothing_apart_is_caught(model: str) -> None:
    """The same verdict for everything separates nothing."""
    result = probed(model, probes=["polarity"])
    assert result.separates is False
    assert "does not distinguish them" in note_sentences(result.warnings)[0]


@pytest.mark.slow
def test_order_is_probed_in_listwise_mode_only() -> None:
    """A listwise judge that likes the first chunk flips with the order; pointwise there is no order."""

    def first(request: object) -> str:
        count = len(request.passages)  # type: ignore[attr-defined]
        return rules.reply_text(request, [rules.Opinion(int(k == 0), "x") for k in range(count)])  # type: ignore[arg-type]

    result = probed(FakeBackend(first, keep=0), mode="listwise", probes=["order"])
    assert result["order"].rate.value == 1.0
    assert probed("fake/overlap", mode="listwise", probes=["order"])["order"].fooled == 0
    with pytest.raises(KeyError):
        probed("fake/overlap", probes=["order"])["order"]


def test_cases_are_seeded_and_leave_gold_meaning_alone() -> None:
    """Equal seeds build equal cases, others do not; shuffling moves sentences and loses none."""
    with Evaluator("fake/overlap", cache=False) as evaluator:
        run = evaluator.evaluate(DATA)
    traces = [r.trace for r in run.results if r.trace.chunks]
    gold = {t.id: t.chunks[0] for t in traces}
    first, same, other = (list(build_cases(traces, gold, seed=s)) for s in (1, 1, 2))
    assert first == same
    assert first != other
    assert {case.probe for case in first} == set(PROBES) - {"polarity", *IN_CONVERSATION}
    for case in first:
        if case.probe == "shuffled":
            source = gold[case.source].text
            assert Counter(case.trace.chunks[0].text.split()) == Counter(source.split())
            assert case.trace.chunks[0].text != source
        if case.probe == "injection":
            plain = next(c for c in first if c.source == case.source and c.probe == "random")
            assert plain.trace.chunks[0].text in case.trace.chunks[0].text
    assert shuffled_sentences("Only one. ", __import__("random").Random(0)) is None


def test_failed_calls_are_in_no_rate() -> None:
    """A case without a verdict is counted apart and warned of, never taken for a fooled or sound judge."""

    def half(request: object) -> object:
        trace = request.trace_id  # type: ignore[attr-defined]
        if trace.endswith("~random") and trace < "docs-015":
            return RefusedError("no")
        return rules.reply_text(request, rules.by_overlap(request))  # type: ignore[arg-type]

    outcome = probed(FakeBackend(half, keep=0), probes=["random"])  # type: ignore[arg-type]
    result = outcome["random"]
    assert result.failed == 14
    assert result.n + result.failed == outcome.traces
    assert any("no verdict" in warning for warning in note_sentences(outcome.warnings))


def test_unknown_probes_and_single_traces_are_refused() -> None:
    """A typo is advised on; one trace has no other to take chunks from."""
    with Evaluator("fake/overlap", cache=False) as evaluator:
        with pytest.raises(UnknownNameError, match="did you mean 'injection'"):
            Prober(evaluator, ["injektion"])
        with pytest.raises(DataError, match="two traces"):
            Prober(evaluator).probe(Trace.parse({"query": "q", "reference": "r", "chunks": ["x"]}))


def test_the_report_reads_back() -> None:
    """The report is JSON without NaN, and the same when read."""
    result = probed("fake/overlap", limit=6)
    assert result.traces == 6
    assert ProbeReport.model_validate_json(result.model_dump_json()) == result
