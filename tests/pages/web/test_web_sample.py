"""Labels that are planned: a sample is drawn, labelled blind in the browser, and the means are corrected by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.server.server_settings import ServerSettings
from judge_eval.study.people import read_sample
from tests.support.browsing import listed, shoot, violations
from tests.support.desk import Desk
from tests.support.serving import rows

pytestmark = pytest.mark.browser
RUN = ("-m", "fake/overlap", "--metrics", "AP@5,P@5", "-q")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A new user's empty folder."""
    return Desk.at(tmp_path, monkeypatch, capsys)


def labelled(page: Any, sample: list[dict[str, Any]], people: dict[str, int], most: int) -> None:
    """Label this many chunks of a sample, trace by trace, each seen alone and blind before."""
    for place, row in enumerate(sample):
        if most <= 0:
            return
        page.locator(f".rows a.row[data-place='{place}']").click()
        page.locator(".trace .chip.rid", has_text=row["id"]).wait_for()
        assert page.locator("[id^=rank-]").count() == len(row["chunks"])
        for rank, chunk in enumerate(row["chunks"][:most], 1):
            card = page.locator(f"#rank-{rank}")
            text = card.inner_text()
            assert chunk["text"][:30] in text
            assert "hidden until you label it" in text
            assert "reason:" not in text
            assert card.locator("mark").count() == 0
            button = "relevant" if people[chunk["id"]] else "not relevant"
            card.get_by_role("button", name=button, exact=True).click()
            page.locator(f"#rank-{rank}", has_text="human label").wait_for()
        most -= len(row["chunks"])


@pytest.mark.parametrize("way", [("--chunks", "-n", "40"), ("--target", "AP@5=0.2", "--by", "none")])
def test_a_sample_is_planned_labelled_blind_and_corrects(
    desk: Desk, open_page: Callable[..., Any], serve: Callable[..., str], axe: str, way: tuple[str, ...]
) -> None:
    """The page shows the chunks of the sample alone, in its order and blind; `correct` takes these labels."""
    people = {chunk["id"]: chunk["label"] for row in rows() for chunk in row["chunks"]}
    bare = [{**row, "chunks": [{**c, "label": None} for c in row["chunks"]]} for row in rows()]
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bare), encoding="utf-8")
    assert desk("run", "data.jsonl", *RUN).code == 0
    drawn = desk("sample", "latest", *way, "-o", "todo.jsonl")
    assert drawn.code == 0, drawn.err
    sample = [json.loads(line) for line in Path("todo.jsonl").read_text(encoding="utf-8").splitlines()]
    picked = read_sample(Path("todo.jsonl"))
    assert list(picked.chunks) != sorted(picked.chunks)  # a random order, in which one may stop
    url = serve(ServerSettings(desk.folder / "runs", sample=picked))
    (run,) = (each.name for each in (desk.folder / "runs").iterdir() if each.is_dir())
    run_id = json.loads((desk.folder / "runs" / run / "manifest.json").read_text(encoding="utf-8"))["id"]
    page = open_page(f"{url}/runs/{run_id}?sample=1&blind=1")
    assert listed(page) == list(picked.chunks)
    squares = page.locator(".rows a.row").first.locator(".sq").all_inner_texts()
    assert squares == ["?"] * len(sample[0]["chunks"])
    assert "in the pool" not in page.locator(".trace").inner_text()
    page.locator("#person").fill("Anna")
    page.keyboard.press("Enter")
    page.locator("html[data-ready]").wait_for()
    labelled(page, sample, people, 40)
    done = min(len(sample), 40 // max(len(row["chunks"]) for row in sample))
    if way[0] == "--chunks":
        done = len(sample)
    page.locator(".told", has_text=f"{done} of {len(sample)} traces labelled").wait_for()
    shoot(page, f"sample-{way[0].strip('-')}")
    first = page.locator(".rows a.row").first
    assert "?" not in first.locator(".sq").all_inner_texts()
    assert "hidden" not in first.inner_text()
    assert not violations(page, axe)
    corrected = desk("correct", "latest", "--labels", "todo.jsonl", "--metrics", "P@5", "--json")
    assert corrected.code == 0, corrected.err
    mean = json.loads(corrected.out)["means"]["P@5"]
    truth = sum(people.values()) / len(people)
    assert mean["interval"][0] < truth < mean["interval"][1]
