"""Claims as pages get them: the grid of a trace, what a run misses, what was won and lost."""

from __future__ import annotations

from judge_eval.pages.blind import blind_card, blind_page
from judge_eval.pages.card import card_page, claim_grid_data
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.rows import Table
from judge_eval.pages.runpage import run_page
from judge_eval.runs.scoring.missedclaims import missed_claims
from judge_eval.schema import BINARY
from judge_eval.views.findings import moved_claims_sentence
from judge_eval.views.run import covered_sentence
from tests.support.blocks_of_pages import tables_in
from tests.support.claims import claimed, espresso, run_by_claims
from tests.support.serving import judge, rows

CHANGED = {"c1": ".....", "c2": "+.~..", "c3": "x....", "c4": ".....", "c5": "....."}


def test_a_card_holds_the_grid() -> None:
    """A row a claim, what is missing first, with a sign a rank and the quotes by rank."""
    run = run_by_claims(espresso())
    result = card_page(run.results[0], BINARY, ["AP@5"], None, [])["claims"]
    assert [(row["id"], row["signs"], row["word"]) for row in result["list"]] == [
        ("c3", "x....", "not covered"),
        ("c4", ".....", "not covered"),
        ("c2", "~.~..", "partly covered"),
        ("c1", "..+..", "covered"),
        ("c5", "+...+", "covered"),
    ]
    assert result["list"][0]["quotes"] == {"1": ["A shot that runs for a minute is called a lungo", True]}
    assert [row["vital"] for row in result["list"]] == ["vital"] * 4 + ["okay"]
    assert (result["together"], result["list"][2]["together"]) == (True, [".", "All chunks together do not cover it"])
    assert result["list"][0]["together"] == [None, "Nobody asked whether all chunks cover it together"]
    failed = claim_grid_data(run.results[1])
    assert failed is not None
    assert failed["list"][0] | {"text": ""} == {
        "id": "c2", "text": "", "vital": "okay", "cover": "unknown", "word": "not known", "signs": ".!.",
        "quotes": {}, "together": None,
    }  # fmt: skip


def test_who_labels_blindly_sees_no_claims() -> None:
    """Neither in the figures of the run nor beside a trace with a hidden verdict."""
    run = run_by_claims(espresso())
    page = run_page(Table(run))
    assert page["claims"]["count"] == 11
    assert "claims" not in blind_page(page)
    assert blind_card(card_page(run.results[0], BINARY, ["AP@5"], None, []), {})["claims"] is None


def test_the_page_of_a_run_says_what_the_summary_says() -> None:
    """The same sentence and the same order; null where the run was not judged by claims."""
    run = run_by_claims(espresso())
    outcome, result = run_page(Table(run))["claims"], missed_claims(run.results)
    assert result is not None
    assert outcome["html"].startswith(f"<p class=sentence dir=auto>{covered_sentence(result)}</p><h3")
    missed, *_, tags = tables_in(outcome["html"])
    assert outcome["count"] == result.counts.known + result.counts.unknown
    assert [row[2:4] for row in missed] == [[item.text, ", ".join(item.traces)] for item in result.missed]
    assert [row[1] for row in tags] == [f"{item.counts.covered_share:.3f}" for item in result.tags]
    assert covered_sentence(result) in run._repr_html_()
    assert run_page(Table(judge(rows()[:2])))["claims"] is None
    assert card_page(judge(rows()[:1]).results[0], BINARY, [], None, [])["claims"] is None


def test_large_runs_count_all_traces() -> None:
    """A page that holds a part of the rows counts the claims of every trace."""
    run = run_by_claims(espresso())
    assert run_page(Table(run, 1))["claims"] == run_page(Table(run))["claims"]


def test_two_runs_show_what_was_won_and_lost() -> None:
    """On the page of both, on the card of a changed trace, and before the figures of the candidate."""
    before, after = run_by_claims(espresso()), run_by_claims(espresso(q1=CHANGED))
    sides = ComparedRuns(Table(before), Table(after))
    result = compare_page(sides)["claims"]
    (table,) = tables_in(result)
    assert [row[0] for row in table] == ["▼ lost", "▼ lost", "▲ won"]
    (record,) = before.compare(after).claims
    assert result.startswith(f"<p class=sentence dir=auto>{moved_claims_sentence(record)}.</p>")
    assert (sides.opening("This run") or {})["claims"] == [moved_claims_sentence(record)]
    cards = {card["id"]: card for card in sides.in_full(sides.changed)}
    (table,) = tables_in(cards["q1"]["claims"])
    assert [row[4][:12] for row in table] == ["An espresso ", "The crema is", "Between 18 a"]
    plain = ComparedRuns(Table(judge(rows()[:2])), Table(judge(rows()[:2])))
    assert compare_page(plain)["claims"] == ""


def test_a_notebook_shows_the_claims_and_runs_nothing() -> None:
    """Texts are escaped, a square a rank tells on hover what is said."""
    run = run_by_claims([claimed("q", {"c": "x!"}, texts={"c": "<script>"}, chunks=["<b>'\"", "Two."])])
    html = run.results[0]._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert 'title="rank 1 contradicts it: &lt;b&gt;&#x27;&quot;"' in html
    assert 'title="rank 2 no verdict"' in html
    assert "0 of 1 claim covered; 1 not known" in html
