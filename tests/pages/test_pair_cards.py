from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.pages.blind import blind_row
from judge_eval.pages.card import card_page
from judge_eval.pages.compared import SNIPPET, ComparedRuns, snippet
from judge_eval.pages.rows import Table
from judge_eval.views.findings import opening_sentence
from tests.pages.test_compare_page import failed_verdicts, other_judge, without_ids
from tests.support.blocks_of_pages import blocks_of, data_of
from tests.support.reports import compare_report, run_report
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k}" for k in range(6)]


def two_runs() -> ComparedRuns:
    """Put two runs side by side in which chunks moved, came, went and got another verdict."""
    good = {(name, "g"): 1 for name in NAMES}
    before = judged(traces_of(dict.fromkeys(NAMES, "gabcd")), good)
    lists = {"t0": "abgcd", "t1": "gabce", "t2": "gabcd", "t3": "bcagd", "t4": "gabdc", "t5": "abcdx"}
    after = judged(traces_of(lists), {**good, ("t2", "g"): 0})
    return ComparedRuns(Table(before), Table(after))


def test_a_card_names_what_moved_with_its_text_and_reason() -> None:
    """Every chunk that moved, came, went or flipped has a text and a verdict with its reason; others none."""
    sides = two_runs()
    for card in sides.in_full(sides.changed):
        notable = [card["moves"][place] for place in card["notable"]]
        assert notable
        for move in card["moves"]:
            changed = move["flipped"] or move["a"] != move["b"]
            assert (move in notable) == changed == ("text" in move)
            assert (move["was"] is None) == (move["a"] is None)
            assert (move["now"] is None) == (move["b"] is None)
        assert all("".join(move["text"]).startswith("the text ") for move in notable)
        assert all((move["now"] or move["was"])["reason"] for move in notable)


def test_a_trace_says_where_each_chunk_was_and_which_relevant_ones_fell() -> None:
    """Each card holds its rank in the baseline; relevant chunks that stand lower or are gone come by old rank."""
    sides = two_runs()
    items = list(sides.in_full(sides.rows))
    assert any(move["b"] is None for item in items for move in item["moves"])
    for row, item in zip(sides.rows, items, strict=True):
        result = sides.after.results[row.position]
        page = card_page(result, sides.candidate.scale, sides.candidate.metrics, None, [])
        outcome = sides.add_ranks_before(row.position, page)
        assert [card["before"] for card in outcome["chunks"]] == [m["a"] for m in item["moves"] if m["b"] is not None]
        fell = [
            (move["a"], move["b"], move["id"])
            for move in item["moves"]
            if move["a"] is not None
            and (move["b"] is None or move["b"] > move["a"])
            and (move["now"] or move["was"]).get("relevant")
        ]
        assert [(each["before"], each["rank"], each["id"]) for each in outcome["fell"]] == sorted(fell)


def test_what_tells_most_stands_first() -> None:
    """A flipped chunk comes before a relevant one that moved, that before one that came, then the rest."""
    sides = two_runs()
    first = {card["id"]: card["moves"][card["notable"][0]] for card in sides.in_full(sides.changed)}
    assert {name: move["id"] for name, move in first.items()} == {
        "t0": "g", "t1": "e", "t2": "g", "t3": "g", "t4": "d", "t5": "g",
    }  # fmt: skip
    assert first["t2"]["flipped"]
    assert (first["t5"]["a"], first["t5"]["b"]) == (1, None)


@given(st.text(max_size=900), st.integers(0, 900), st.integers(0, 300))
def test_a_snippet_is_short_and_holds_the_beginning_of_its_quote(text: str, at: int, size: int) -> None:
    """A snippet is cut from the text, and a quote far down in it is still seen."""
    quote = text[at : at + size]
    pieces = snippet(text, quote)
    assert sum(map(len, pieces)) <= SNIPPET + 1
    assert "".join(pieces).strip("…") in text or "…" in text
    if text == "".join(pieces):
        return
    assert len(text) > SNIPPET or "…" in "".join(pieces)
    if len(pieces) > 1 and pieces[1].strip():
        assert pieces[1].rstrip("…") in text


@pytest.mark.slow
@pytest.mark.parametrize("made", [without_ids, other_judge, failed_verdicts])
def test_a_row_shows_the_strip_before_and_after(made: object, tmp_path: Path) -> None:
    """A changed row carries the signs of the baseline's verdicts; one that did not change has none."""
    old, new = made(tmp_path)  # type: ignore[operator]
    sides = ComparedRuns(Table(old), Table(new))
    (changed,) = [{card["id"]: card for card in sides.in_full(sides.changed)}]
    assert changed
    for row in sides.rows:
        if row.change is None:
            assert row.before is None
        else:
            assert row.before == "".join(each["sign"] for each in changed[row.id]["a"]["strip"])
            assert row.data()["before"] == row.before
            assert row.data()["ranks_before"] == len(row.before)
        assert blind_row(row, 0).before is None or not row.strip
    for table in (Table(old), Table(old, most=2)):
        strips = table.strips(range(len(old.results)))
        assert strips == ["".join(outcome.sign for outcome in result.outcomes) for result in old.results]


def test_both_pages_say_the_opening_sentence_of_the_record(tmp_path: Path) -> None:
    """The compare page and the run page say what `compare` says, in their own words for the candidate."""
    old, new = without_ids(tmp_path)
    record = old.compare(new)
    (opening,) = record.openings
    page = data_of(compare_report(old, new))
    assert page["opening"]["sentence"] == opening_sentence(record, opening, "B")
    assert page["opening"]["finding"] == opening.finding == "unclear"  # six traces
    page = data_of(run_report(new, old))
    assert page["opening"]["sentence"] == opening_sentence(record, opening, "This run")
    assert data_of(run_report(new))["opening"] is None


def test_metrics_carry_their_cutoff_and_the_leading_one_comes_first(tmp_path: Path) -> None:
    """A page knows where each metric stops counting, and begins with the metric of its sentence."""
    from judge_eval.runs.scoring.rescore import rescore

    old, new = without_ids(tmp_path)
    old = rescore(old, ["MRR", "P@3", "AP@5"])
    page = data_of(compare_report(old, new))
    assert [(m["name"], m["cutoff"]) for m in page["metrics"]] == [("AP@5", 5), ("MRR", None), ("P@3", 3)]
    assert page["opening"]["sentence"].startswith("no difference is shown: AP@5 -")
    assert [m["cutoff"] for m in data_of(run_report(old))["metrics"]] == [5, None, 3]
    assert len(blocks_of(compare_report(old, new))) == 6
