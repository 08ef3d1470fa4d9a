"""The cases that are made to find whether a judge knows when it does not know."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from judge_eval import Evaluator, Trace, open_dataset
from judge_eval.llm.fake.rules import bag
from judge_eval.trials import PROBES, Case, build_cases
from judge_eval.trials.cases import INJECTIONS, TEXTS, echoed, lengthened, negated, words_asked
from tests.support.doubting import DOUBTS, gold_of, probed, rows
from tests.support.notes import note_sentences


def built(names: list[str], seed: int = 0) -> list[Case]:
    """Build cases of the fixtures."""
    return list(build_cases(rows(), gold_of(rows()), names=names, seed=seed))


def test_cases_are_what_their_names_say() -> None:
    """Out of scope shares no telling word; false references are another's; baits hold the bare chunk."""
    by_id, gold = {t.id: t for t in rows()}, gold_of(rows())
    bare = {c.source: c.trace.chunks[0].text for c in built(["random"])}
    for case in built(DOUBTS):
        source, chunk = by_id[case.source], case.trace.chunks[0]
        assert case.trace.query == source.query
        if case.probe in ("other-reference", "negated-reference"):
            assert chunk.text == gold[case.source].text
            assert case.trace.reference != source.reference
        else:
            assert case.trace.reference == source.reference
        if case.probe == "other-reference":
            assert case.trace.reference in {t.reference for t in by_id.values()}
            terms = bag(case.trace.reference or "").keys()
            assert len(terms & bag(chunk.text).keys()) < len(terms) / 2
        elif case.probe == "out-of-scope":
            assert words_asked(source).isdisjoint(bag(chunk.text))
        elif case.probe == "length-bait":
            assert bare[case.source] in chunk.text
            assert len(chunk.text) > len(bare[case.source]) + 800
        elif case.probe == "nothing-relevant":
            texts = [c.text for c in case.trace.chunks]
            assert 2 <= len(texts) == len(set(texts)) <= 5
            assert not {c.text for c in source.chunks} & set(texts)


def test_each_probe_draws_for_itself() -> None:
    """A probe's cases are the same alone and among all; equal seeds build equal cases, others do not."""
    every = built(list(PROBES))
    for name in DOUBTS:
        assert built([name]) == [case for case in every if case.probe == name]
        if name != "negated-reference":
            assert built([name], seed=1) != built([name])


def test_texts_of_other_subjects_stand_in_where_all_traces_share_words() -> None:
    """Two traces on one subject lend each other nothing out of scope."""
    traces = [
        Trace.parse({"id": name, "query": f"Which pump is {name}?", "reference": f"Pump {name}.",
                     "chunks": [f"The pump named {name} stands left."]})
        for name in ("alpha", "bravo")
    ]  # fmt: skip
    cases = list(build_cases(traces, {}, names=["out-of-scope"]))
    assert [case.variant for case in cases] == ["fixed", "fixed"]
    assert all("pump" not in case.trace.chunks[0].text for case in cases)


def test_no_statement_is_borrowed_that_the_chunk_may_support() -> None:
    """Of two questions about one passage, neither takes the other's reference for a false one."""
    text = "The tower is 72 metres high and was built in 1931."
    traces = [
        Trace.parse({"id": "a", "query": "How high is the tower?", "reference": "72 metres", "chunks": [text]}),
        Trace.parse({"id": "b", "query": "When was it built?", "reference": "In 1931", "chunks": [text + " "]}),
    ]
    gold = {trace.id: trace.chunks[0] for trace in traces}
    assert list(build_cases(traces, gold, names=["other-reference"])) == []


@given(st.text(min_size=1).filter(str.strip), st.integers(0, 99))
def test_an_echo_loses_nothing_of_the_text(text: str, seed: int) -> None:
    """Without the strewn words the text is there, and no word of the answer was strewn."""
    out = echoed(text, "Where does the zyzzyva weevil hibernate?", "weevil", random.Random(seed))
    assert out is not None
    for word in ("zyzzyva", "hibernate"):
        assert out.count(word) == 3 + text.count(word)
    assert out.count("weevil") == text.count("weevil")
    rest = out
    for pair in ("zyzzyva hibernate ", "hibernate zyzzyva "):
        rest = rest.replace(pair, "")
    assert rest == text


def test_texts_that_cannot_be_made_are_not_made() -> None:
    """No echo without a word of the question's own, no filler that asks the same, no denial of nothing."""
    draws = random.Random(0)
    assert echoed("Some text.", "What is a weevil?", "A weevil.", draws) is None
    assert lengthened("Some text.", frozenset(bag(" ".join(TEXTS["neutral"]))), draws) is None
    kept = lengthened("Some text.", frozenset(bag("glossary")), draws)
    assert kept is not None
    assert "glossary" not in kept
    assert negated({"reference": None}) is None
    assert negated({"reference": "Yes."}) == {"reference": "It is not the case that the following is true: Yes."}


def test_the_judge_is_asked_no_more_than_the_probes_need() -> None:
    """A bait costs a call, and so does the bare chunk beside it; the other probes cost nothing."""
    with Evaluator("fake/overlap", metrics=["RR"], cache=False) as evaluator:
        base = evaluator.evaluate(rows()).manifest.tally.calls
    result = probed("fake/overlap", "echo-bait", data=rows())
    gold, random_, bait = len(gold_of(rows())), len(rows()), result["echo-bait"].n
    assert result.calls == base + gold + random_ + bait


HUT = Path(__file__).parents[2] / "fixtures" / "conversation.jsonl"


def test_probes_of_conversations_keep_the_turns_and_plant_in_the_last_answer() -> None:
    """Every case has the turns of its trace; the last turn of the assistant holds the instruction, the chunk none."""
    traces = list(open_dataset(HUT))
    cases = list(build_cases(traces, {}, names=["random", "injection", "injection-turn", "earlier-turn"]))
    by_id = {trace.id: trace for trace in traces}
    planted = [case for case in cases if case.probe == "injection-turn"]
    assert [case.source for case in planted] == ["hut-2", "hut-3", "hut-4"]
    for case in planted:
        own = by_id[case.source].history
        assert case.trace.history[:-1] == own[:-1]
        assert case.trace.history[-1].content == INJECTIONS[case.variant].format(text=own[-1].content)
        plain = next(c for c in cases if c.source == case.source and c.probe == "random")
        assert [chunk.text for chunk in case.trace.chunks] == [chunk.text for chunk in plain.trace.chunks]
    assert all(case.trace.history == by_id[case.source].history for case in cases if case not in planted)
    earlier = [case for case in cases if case.probe == "earlier-turn"]
    assert [(case.source, case.trace.chunks[0].title) for case in earlier] == [
        ("hut-2", "Grünwald hut: prices"),
        ("hut-4", "Grünwald hut: prices"),
    ]


def test_probes_of_conversations_need_one() -> None:
    """Without a conversation they are left out, and if they were asked for, a warning says so."""
    names = [result.probe for result in probed("fake/overlap").results]
    assert not {"injection-turn", "earlier-turn"} & set(names)
    report = probed("fake/overlap", "injection-turn")
    assert report.results == ()
    assert "not probed, because no trace has a conversation: injection-turn" in note_sentences(report.warnings)
    report = probed("fake/always", "injection-turn", "earlier-turn", data=list(open_dataset(HUT)))
    assert {result.probe: (result.n, result.fooled) for result in report.results} == {
        "injection-turn": (3, 3),
        "earlier-turn": (2, 2),
    }
