"""Hostile text in every field of every page: nothing runs, nothing breaks out, the page works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.server.server_settings import ServerSettings
from tests.support.browsing import filtered
from tests.support.reports import compare_report, run_report
from tests.support.runs import rewrite_manifest
from tests.support.serving import ask, scripted, serving

pytestmark = pytest.mark.browser

MARK = "window.ran=1"
TEXTS = (
    f'</script><script>{MARK}</script><img src=x onerror="{MARK}"><svg onload={MARK}>',
    f"'\"><iframe srcdoc='<script>parent.ran=1</script>'></iframe><a href=javascript:{MARK}>x</a>",
    f"<!--<script>--></style><style>*{{display:none}}</style></title></textarea>{{{{{MARK}}}}}${{{MARK}}}",
    f"\u202egnirts\u2066\u200b\u2028\u2029\x1b]52;c;x\x07\x1bc\x9b2J\x00\ufeff]]>&#60;script&#62;{MARK}//",
)
"""Markup, quotes, comments, styles, templates, and characters that turn, hide or end a line."""
BREAKS = "script:not([type]):not([src]), iframe, img, object, embed, base, form[action], a[href^='javascript']"


def evil(k: int, of: str) -> str:
    """Return a hostile text that says which field it stands in."""
    return f"{of}{k} {TEXTS[k % len(TEXTS)]} {of}"


def traces() -> list[dict[str, Any]]:
    """Make traces with hostile text in each of their fields."""
    return [
        {
            "id": evil(k, "id"), "query": evil(k, "query"), "reference": evil(k, "ref"),
            "answer": evil(k, "answer"), "tags": [evil(k, "tag")],
            "metadata": {evil(k, "key"): evil(k, "value"), "cluster": evil(k, "cluster")},
            "chunks": [
                {"id": evil(k, "chunk"), "text": evil(k, "text"), "title": evil(k, "title"), "label": k % 2,
                 "metadata": {evil(k, "ckey"): evil(k, "cvalue")}},
                {"id": "b", "text": f"plain {k}"},
                {"id": "c", "text": f"failed {k}"},
            ],
        }
        for k in range(len(TEXTS))
    ]  # fmt: skip


def judged(root: Path | None, k: int, verdict: bool) -> EvalRun:
    """Judge them; reasons, quotes, names and unreadable replies are hostile too."""

    def answer(text: str) -> Any:
        if text.startswith("failed"):
            return f"{TEXTS[k]} is no verdict"
        return {"evidence": text[:60], "reason": evil(k, "reason"), "verdict": verdict}

    return scripted(
        traces(), root, answer,
        label=evil(k, "label"), href=f"javascript:{MARK}", tags=[evil(k, "rtag")], name=evil(k, "name"),
    )  # fmt: skip


def tampered(root: Path, run: EvalRun) -> None:
    """Let the run's manifest say hostile things of judge, prompt, model and machine, as an upload can."""
    assert run.folder is not None
    manifest, text = run.manifest, evil(0, "manifest")
    rewrite_manifest(
        root / run.folder.name,
        judge=manifest.judge | {"prompt": {"id": text, "version": text, "digest": text}, "name": text},
        backend=manifest.backend | {"provider": text, "model": text, "base_url": text},
        environment={text: text, "git": {text: text}},
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Serve hostile runs, and keep reports and notebook fragments of them as files."""
    root = tmp_path_factory.mktemp("hostile")
    first, two = judged(root, 0, True), judged(root, 1, False)
    tampered(root, two)
    two = EvalRun.load(root / two.folder.name)  # type: ignore[union-attr]
    files = {
        "report": run_report(first, two),
        "other report": run_report(two),
        "compare report": compare_report(first, two),
        "notebook": "<!doctype html><html data-ready><body>"
        + "".join(thing._repr_html_() for thing in (first, two, *first.results, *two.results, first.compare(two))),
    }
    for name, text in files.items():
        (root / f"{name}.html").write_text(text, encoding="utf-8")
    with serving(ServerSettings(root, thresholds={"AP@5": 0.5}), Evaluator("fake/overlap", cache=False)) as url:
        yield {
            "url": url, "one": first, "two": two,
            **{name: (root / f"{name}.html").as_uri() for name in files},
        }  # fmt: skip


def strings(data: Any) -> list[str]:
    """List every text in some JSON."""
    if isinstance(data, dict):
        return [text for pair in data.items() for each in pair for text in strings(each)]
    if isinstance(data, list):
        return [text for each in data for text in strings(each)]
    return [data] if isinstance(data, str) else []


def safe(page: Any) -> None:
    """See that nothing ran, nothing was put in, nothing steers, and the page is drawn."""
    assert page.evaluate("window.ran") is None
    assert page.locator(BREAKS).count() == 0, page.locator(BREAKS).first.evaluate("n => n.outerHTML")
    assert page.evaluate("getComputedStyle(document.body).display") != "none"
    handlers = "[...document.querySelectorAll('*')].filter(n => [...n.attributes].some(a => /^on/.test(a.name)))"
    assert page.evaluate(f"{handlers}.length") == 0
    assert page.evaluate("document.title.length") < 2000


@pytest.mark.parametrize("name", ["report", "other report", "served", "served with a baseline"])
def test_a_run_page(site: dict[str, Any], open_page: Callable[..., Any], name: str) -> None:
    """Every tab, every trace, every disclosure, the filter and the keys work on hostile text."""
    first, two = site["one"].id, site["two"].id
    served = {"served": f"/runs/{two}", "served with a baseline": f"/runs/{first}?baseline={two}"}
    page = open_page(site["url"] + served[name] if name in served else site[name])
    assert page.locator(".rows .rid").count() == len(TEXTS)
    for k in range(len(TEXTS)):
        page.locator(".rows a").nth(k).click()
        page.locator("#trace-title", has_text=f"query{k}").wait_for()
        for summary in page.locator(".detail summary").all():
            summary.click()
        shown = page.inner_text(".detail")
        for field in ("text", "title", "chunk", "ref", "answer", "tag"):
            assert f"{field}{k}" in shown, field
        safe(page)
    for tab in ("disagreements", "failures", "provenance", "traces"):
        page.locator(f"#tab-{tab}").click()
        page.locator(f"#panel-{tab}").wait_for()
        safe(page)
    assert len(filtered(page, '"query1"')) == 1
    filtered(page, "</script><img src=x onerror=window.ran=1>")
    safe(page)
    assert page.locator("h1 a").count() == 0


@pytest.mark.parametrize("name", ["compare report", "served"])
def test_a_compare_page(site: dict[str, Any], open_page: Callable[..., Any], name: str) -> None:
    """Two runs side by side, each card opened."""
    place = f"{site['url']}/compare?a={site['one'].id}&b={site['two'].id}"
    page = open_page(place if name == "served" else site[name])
    assert page.locator("article.card").count() >= 1
    for summary in page.locator("article.card summary").all()[:4]:
        summary.click()
    assert "query0" in page.inner_text("main")
    safe(page)


def test_the_list_of_runs(site: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Labels, tags and names of data are text in the list and in its filters."""
    page = open_page(site["url"] + "/")
    assert page.locator("tbody tr").count() == 2
    text = page.inner_text("main")
    assert "label0 </script><script>" in text
    assert "rtag1" in text
    safe(page)
    page.fill("#label", TEXTS[0])
    page.locator(".told", has_text="1 run;").wait_for()
    safe(page)
    for box in page.locator("tbody input").all():
        box.check()
    page.fill("#label", "")
    page.locator(".told", has_text="2 runs;").wait_for()
    safe(page)


def test_blind_labelling_of_hostile_texts(site: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Blind, hostile texts are labelled like others, and the label reaches the server."""
    page = open_page(f"{site['url']}/runs/{site['one'].id}")
    page.locator("#person").fill("<b>Anna</b>")
    page.keyboard.press("Enter")  # without a name a chunk that the dataset labels is shown, at any place
    page.locator("#blind").check()
    page.locator("#rank-2", has_text="hidden until you label it").wait_for()
    card = page.locator("#rank-2")
    card.get_by_role("button", name="not relevant", exact=True).click()
    page.locator("#rank-2", has_text="human label 0").wait_for()
    safe(page)
    status, result, _ = ask(f"{site['url']}/api/v1/runs/{site['one'].id}/labels")
    assert status == 200
    assert site["one"].results[0].trace_id in strings(result)


def test_fragments_in_a_notebook(site: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """Runs, results and comparisons as a notebook shows them hold text alone."""
    page = open_page(site["notebook"])
    text = page.inner_text("body")
    for field in ("label0", "label1", "query3", "reason0", "chunk2", "text1", "title1"):
        assert field in text, field
    safe(page)


def test_the_page_of_the_api(site: dict[str, Any], open_page: Callable[..., Any]) -> None:
    """The documentation of the API shows nothing of the runs."""
    page = open_page(site["url"] + "/docs")
    assert "</script>" not in page.inner_text("main")
    safe(page)


def test_an_address_that_is_hostile(site: dict[str, Any], chromium: Any) -> None:
    """What stands in the address is text where it is told."""
    page = chromium.new_page()
    page.on("dialog", lambda dialog: pytest.fail("a dialog"))
    for place in (f"/runs/{site['one'].id}#{TEXTS[0]}", f"/compare?a={TEXTS[0]}&b=x", f"/runs/{TEXTS[1]}"):
        page.goto(site["url"] + place)
        if page.locator("#app").count():  # else the server itself has refused it
            page.locator("html[data-ready], [role=alert]").first.wait_for(state="attached")
        assert page.evaluate("window.ran") is None
        assert page.locator(BREAKS).count() == 0
    page.close()
