"""Claims in a real browser: the grid by eye, by key and by ear; what is missed; what was won and lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.runs.folder.judgedclaims import judged_claims
from judge_eval.server.server_settings import ServerSettings
from judge_eval.views.claims import cover_word, needed_first
from tests.support.browsing import shoot
from tests.support.claims import claimed, espresso, run_by_claims
from tests.support.reports import compare_report, run_report
from tests.support.waiting import until_page

pytestmark = pytest.mark.browser
CHANGED = {"c1": ".....", "c2": "+.~..", "c3": "x....", "c4": ".....", "c5": "....."}
STRIPES = ".~+.x"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Make the page of a run, of one beside a baseline, of two, and of a trace with forty claims."""
    folder = tmp_path_factory.mktemp("claims")
    forty = {f"c{n}": "".join(STRIPES[n * rank % 5] for rank in range(12)) for n in range(40)}
    odd = claimed("odd", {"c": "x"}, texts={"c": "<b>bold</b> \u202e@here"}, chunks=["<i>one</i>"])
    data = [
        *espresso(),
        claimed("forty", forty),
        odd,
        claimed("none", {}, chunks=["A text."]),
        claimed("bare", {"c": ""}),
    ]
    run = run_by_claims(data, label="main")
    other = run_by_claims([*espresso(q1=CHANGED), *data[4:]], label="other")
    pages = {"run": run_report(run), "beside": run_report(other, run), "both": compare_report(run, other)}
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {"result": run.results[0], **{name: (folder / f"{name}.html").as_uri() for name in pages}}


def focused(page: Any) -> str:
    """Return what is heard of the cell that has the focus."""
    return str(page.evaluate("document.activeElement.getAttribute('aria-label')"))


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1440, True), (360, False), (360, True)])
def test_the_grid_can_be_read(
    made: dict[str, Any], open_page: Callable[..., Any], axe: str, width: int, dark: bool
) -> None:
    """A row a claim, what is missing first; every cell can be heard; no wider than a phone; clean to axe."""
    page = open_page(made["run"] + "#q1", width=width, dark=dark)
    result = made["result"]
    claims = needed_first(judged_claims(result.claims, result.outcomes) or ())
    rows = page.locator(".claimgrid tbody tr")
    assert rows.count() == len(claims)
    words = {"+": "says it in full", "~": "says it in part", "x": "contradicts it", ".": "does not say it"}
    for place, judged in enumerate(claims):
        row = rows.nth(place)
        assert (
            row.locator("th")
            .inner_text()
            .startswith(f"{cover_word(judged)}, {'vital' if judged.claim.vital else 'okay'}")
        )
        assert judged.claim.text in row.locator("th").inner_text()
        heard = [cell.get_attribute("aria-label") for cell in row.locator("td").all()]
        for rank, sign in enumerate(judged.signs, 1):
            assert heard[rank - 1].startswith(f"Rank {rank} {words[sign]}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.locator(".claims").scroll_into_view_if_needed()
    shoot(page, f"claims-{width}-{'dark' if dark else 'light'}")
    page.evaluate(axe)
    outcome = page.evaluate("axe.run('.claims').then((all) => all.violations.map((v) => v.id + ': ' + v.help))")
    assert outcome == []


def test_keys_move_in_the_grid(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """One stop for Tab; arrows, Home and End move; the line below says the cell and shows its quote."""
    page = open_page(made["run"] + "#q1")
    assert page.locator(".claimgrid td[tabindex='0']").count() == 1
    page.locator(".claimgrid td").first.focus()
    assert focused(page).startswith("Rank 1 contradicts it: “A shot that runs")
    assert "A shot that runs for a minute is called a lungo" in page.locator(".claimdetail").inner_text()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert focused(page).startswith("Rank 1 contradicts it")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert focused(page).startswith("Rank 1 says it in part")
    page.keyboard.press("End")
    assert focused(page) == "All chunks together do not cover it"
    page.keyboard.press("ArrowDown")
    assert focused(page) == "Nobody asked whether all chunks cover it together"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert focused(page).startswith("Rank 3 says it in full: “The pump")
    assert page.locator(".claimgrid td[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "rank-3"


def test_the_mouse_shows_quotes_and_leads_to_the_chunk(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Hovering tells, a click keeps the focus there, the link goes to the card."""
    page = open_page(made["run"] + "#q1")
    cell = page.locator("[data-claim='c5'] td").nth(4)
    cell.hover()
    assert "Fresh coffee shows a thick crema" in page.locator(".claimdetail q").inner_text()
    cell.click()
    assert focused(page).startswith("Rank 5 says it in full")
    page.locator(".claimdetail button").click()
    assert page.evaluate("document.activeElement.id") == "rank-5"


def test_a_plus_means_relevant_alone(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A strip's `+` is a relevant chunk; a claim that a chunk says has another sign, in grid and list."""
    for page, strips in (
        (open_page(made["run"] + "#q1"), ".claimgrid td"),
        (open_page(made["both"]), "#claims .strip"),
    ):
        signs = set(page.locator(f"{strips} .sq").all_inner_texts())
        assert "✓" in signs
        assert "+" not in signs


def test_the_tab_counts_the_claims_there_are(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """A run that covers both its claims has two, not none."""
    run = run_by_claims([claimed("q", {"c": "+.", "d": ".+"})])
    (tmp_path / "covered.html").write_text(run_report(run), encoding="utf-8")
    page = open_page((tmp_path / "covered.html").as_uri() + "#/claims")
    assert page.locator("#tab-claims .badge").inner_text() == "2"
    assert "2 of 2 claims covered" in page.inner_text("#panel-claims")


def test_no_verdict_is_said_as_such(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """A failed cell is never one that says nothing; what it leaves open is not known."""
    page = open_page(made["run"] + "#q2")
    row = page.locator("[data-claim='c2']")
    assert row.locator("th").inner_text().startswith("not known, okay")
    assert row.locator("td").nth(1).get_attribute("aria-label") == "Rank 2 has no verdict"
    assert row.locator("td").nth(1).inner_text() == "!"


def test_odd_traces_have_a_grid_too(made: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Forty claims unfold on demand; markup is text; no claim and no chunk are said."""
    page = open_page(made["run"] + "#forty", width=360)
    assert page.locator(".claimgrid th[role=rowheader]").first.is_visible()
    assert page.locator(".claimgrid tbody tr").count() == 12
    page.locator(".claims > button").click()
    assert page.locator(".claimgrid tbody tr").count() == 40
    assert focused(page).startswith("Rank 1 ")
    for _ in range(11):
        page.keyboard.press("ArrowRight")
    until_page(page, "document.querySelector('.claims .scroll')?.scrollLeft > 0")
    box = page.evaluate(
        "(() => { const c = document.activeElement.getBoundingClientRect(); const h = document.activeElement"
        ".parentNode.firstChild.getBoundingClientRect(); return [c.left, h.right, c.right, innerWidth]; })()"
    )
    assert box[0] >= box[1] - 1
    assert box[2] <= box[3]
    shoot(page, "claims-forty")
    odd = open_page(made["run"] + "#odd")
    text = odd.locator(".claimgrid th .claimtext").inner_text()
    assert text == "<b>bold</b> U+202E@here"
    none = open_page(made["run"] + "#none")
    assert "the reference makes no claim" in none.locator(".claims").inner_text()
    bare = open_page(made["run"] + "#bare")
    assert "Nothing was retrieved, so nothing is covered." in bare.locator(".claimdetail").inner_text()


@pytest.mark.parametrize("width", [1440, 360])
def test_a_tab_lists_what_is_missed(made: dict[str, Any], open_page: Callable[..., Any], axe: str, width: int) -> None:
    """The most missed first, with links to their traces; by tag; against the baseline."""
    page = open_page(made["beside"] + "#/claims", width=width)
    panel = page.locator("#panel-claims")
    assert "Against the baseline, claims: 2 lost (1 vital), 1 won (1 vital)" in panel.inner_text()
    first = panel.locator("tbody tr").first
    assert "Claim c2 of What is in a flat white?" in first.inner_text()
    assert "in 2 of 2 traces" in first.inner_text()
    assert panel.locator("table").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.evaluate(axe)
    result = page.evaluate("axe.run('#panel-claims').then((all) => all.violations.map((v) => v.id + ': ' + v.help))")
    assert result == []
    shoot(page, f"claims-tab-{width}")
    first.locator("a").first.click()
    page.locator("#trace-title", has_text="flat white").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")  # the box of metrics is wide
    assert page.locator(".claimgrid").count() == 1


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (360, True)])
def test_a_comparison_shows_claims_won_and_lost(
    made: dict[str, Any], open_page: Callable[..., Any], axe: str, width: int, dark: bool
) -> None:
    """Lost ones first, with both strips; in the card of the changed trace too."""
    page = open_page(made["both"], width=width, dark=dark)
    section = page.locator("#claims")
    assert "claims: 2 lost (1 vital), 1 won (1 vital), of" in section.inner_text()
    kinds = section.locator("tbody tr").all_inner_texts()
    assert [row.split()[1] for row in kinds] == ["lost", "lost", "won"]
    heard = section.locator(".strip").first.get_attribute("aria-label")
    values = ["does not say it"] * 2 + ["says it in full"] + ["does not say it"] * 2
    assert heard == "; ".join(f"{rank} {words}" for rank, words in enumerate(values, 1))
    assert page.locator("[data-trace='q1'] .claimlist tbody tr").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.evaluate(axe)
    result = page.evaluate("axe.run('#claims').then((all) => all.violations.map((v) => v.id + ': ' + v.help))")
    assert result == []
    section.scroll_into_view_if_needed()
    shoot(page, f"claims-compare-{width}")


def test_a_served_run_shows_them_and_blind_labelling_hides_them(
    tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., str]
) -> None:
    """The same grid from the server; who labels blindly sees neither grid nor tab."""
    run = run_by_claims(espresso(), tmp_path / "runs")
    address = serve(ServerSettings(tmp_path / "runs"))
    page = open_page(f"{address}/runs/{run.id}#q1")
    page.locator(".claimgrid").wait_for()
    assert page.locator("#tab-claims").count() == 1
    blind = open_page(f"{address}/runs/{run.id}?blind=1#q1")
    blind.locator(".card").first.wait_for()
    assert blind.locator(".claimgrid, #tab-claims").count() == 0


def test_a_trace_in_which_only_claims_moved(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """Its card is marked as that and lists them; the filter finds it, and the run's page marks its row."""
    before = run_by_claims([claimed("q1", {"c": "+.", "d": "+."}), claimed("q2", {"c": "+."})], label="main")
    after = run_by_claims([claimed("q1", {"c": "+.", "d": "~."}), claimed("q2", {"c": ".."})], label="pr")
    for name, text in (("both", compare_report(before, after)), ("beside", run_report(after, before))):
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    page = open_page((tmp_path / "both.html").as_uri())
    assert page.locator(".changed .card").count() == 2
    assert "claim won or lost 1" in page.locator("#changed").inner_text()
    page.fill("#filter", "claims")
    page.wait_for_selector("#changed .told:has-text('1 changed trace')")
    card = page.locator(".changed .card")
    assert card.locator(".flag.claims").inner_text() == "claim won or lost"
    assert "▼ lost" in card.inner_text()
    assert "The same chunks with the same verdicts; only claims differ." in card.inner_text()
    shoot(page, "only-claims")
    run = open_page((tmp_path / "beside.html").as_uri())
    assert run.locator(".row", has_text="q1").locator(".flag").inner_text() == "claim won or lost"
