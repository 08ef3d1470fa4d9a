"""The API page's forms: each request of the document can be tried from the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.server.server_settings import ServerSettings
from tests.support.browsing import shoot, violations
from tests.support.pizza import REFERENCE, SCORE, VERDICTS, body, pizza_judge
from tests.support.serving import ask, judge, rows

pytestmark = pytest.mark.browser


@pytest.fixture
def url(tmp_path: Path, serve: Callable[..., str]) -> str:
    """Serve a folder with one run, and a judge."""
    judge(rows()[:2], tmp_path, label="main")
    return serve(ServerSettings(tmp_path), pizza_judge())


def opened(page: Any, method: str, path: str) -> Any:
    """Unfold the form of an operation."""
    result = page.locator(f"#try-{method.lower()}-" + re.sub(r"\W+", "-", path).rstrip("-"))
    result.locator("summary").click()
    return result


def answered(form: Any, code: int) -> Any:
    """Send a form and return the JSON of its answer."""
    form.get_by_role("button", name="Send").click()
    form.locator(".answer .code", has_text=str(code)).wait_for()
    return json.loads(form.locator(".answer pre").inner_text())


def test_a_hosted_evaluators_body_is_tried(open_page: Callable[..., Any], url: str) -> None:
    """The example is filled in; its body, and one that is typed, are judged and answered on the page."""
    page = open_page(f"{url}/docs")
    form = opened(page, "POST", "/api/v1/runs")
    form.get_by_label("wait").fill("20")
    assert "traces" in json.loads(form.get_by_label("body (JSON)").input_value())
    assert answered(form, 202)["status"] == "done"
    form.get_by_label("example").select_option("HostedSubmission")
    result = answered(form, 202)
    assert result["verdicts"] == [False, False]
    assert result["label"] == "PR #111"
    form.get_by_label("body (JSON)").fill(json.dumps(body()))
    form.get_by_role("button", name="Send").click()
    form.locator(".answer pre", has_text=f'"score": {SCORE}').wait_for()
    result = json.loads(form.locator(".answer pre").inner_text())
    assert (result["score"], result["verdicts"]) == (SCORE, VERDICTS)
    assert "POST /api/v1/runs?wait=20" in form.locator(".answer").inner_text()
    shoot(page, "try-a-request")


def test_runs_are_asked_for_filtered_and_removed(open_page: Callable[..., Any], url: str) -> None:
    """A run's id is filled in; lists, choices and numbers reach the server; removing wants to be sure."""
    page = open_page(f"{url}/docs")
    form = opened(page, "GET", "/api/v1/runs/{run_id}/answer")
    run_id = form.get_by_label("run_id").input_value()
    assert answered(form, 200)["uuid"] == run_id
    form = opened(page, "GET", "/api/v1/runs")
    form.get_by_label("label").fill("main")
    form.get_by_label("status").select_option("done")
    form.get_by_label("tag").fill("prod\nbig & new")
    result = answered(form, 200)
    assert result["total"] == 0
    assert "tag=prod&tag=big+%26+new&status=done" in form.locator(".answer code").inner_text()
    form = opened(page, "DELETE", "/api/v1/runs/{run_id}")
    assert form.get_by_label("run_id").input_value() == ""
    form.get_by_label("run_id").fill(run_id)
    form.get_by_role("button", name="Send").click()
    assert ask(f"{url}/api/v1/runs")[1]["total"] == 1
    form.get_by_label("remove this run permanently").check()
    form.get_by_role("button", name="Send").click()
    form.locator(".answer .code", has_text="204").wait_for()
    assert ask(f"{url}/api/v1/runs")[1]["total"] == 0


def test_what_is_refused_is_shown_and_texts_stay_texts(chromium: Any, url: str) -> None:
    """An answer with an error is shown as it came; markup in an answer is text."""
    page = chromium.new_page()
    page.goto(f"{url}/docs")
    page.wait_for_selector("html[data-ready]")
    form = opened(page, "POST", "/api/v1/runs")
    form.get_by_label("body (JSON)").fill('{"traces": 1}')
    assert "must be a list" in answered(form, 422)["error"]["message"]
    form.get_by_label("body (JSON)").fill("{")
    assert answered(form, 422)["error"]["type"] == "data"
    marked = {"query": "q?", "reference": REFERENCE, "chunks": []}
    hostile = {"traces": [marked], "label": "<img src=x onerror=alert(1)><b>bold</b>"}
    form.get_by_label("body (JSON)").fill(json.dumps(hostile))
    form.get_by_role("button", name="Send").click()
    form.locator(".answer .code", has_text="202").wait_for()
    assert json.loads(form.locator(".answer pre").inner_text())["label"] == hostile["label"]
    assert page.locator(".answer img, .answer b:not(.code)").count() == 0
    page.close()


def test_requests_carry_the_token(chromium: Any, tmp_path: Path, serve: Callable[..., str]) -> None:
    """Where the server wants its token, what is tried is sent with the one the page was given."""
    token = "right and long enough"
    judge(rows()[:1], tmp_path)
    url = serve(ServerSettings(tmp_path, token=token))
    page = chromium.new_page()
    page.goto(f"{url}/docs")
    page.fill("#token", token)
    page.get_by_role("button", name="Open").click()
    form = opened(page, "GET", "/api/v1/runs")
    assert answered(form, 200)["total"] == 1
    page.close()


def test_an_unfolded_form_has_no_serious_violation(open_page: Callable[..., Any], url: str, axe: str) -> None:
    """axe-core finds nothing serious or critical on the page with every form open and one answered."""
    for dark in (False, True):
        page = open_page(f"{url}/docs", dark=dark)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        form = page.locator(".operation").first
        form.get_by_role("button", name="Send").click()
        form.locator(".answer .code").wait_for()
        assert violations(page, axe, dark) == [], dark
