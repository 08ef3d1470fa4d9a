"""A page is two files, Python and JavaScript; server, reports and command line find it by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import judge_eval.pages
from judge_eval.pages.page import pages
from judge_eval.server.server_settings import ServerSettings
from tests.support.application import CliRunner, app
from tests.support.blocks_of_pages import data_of
from tests.support.serving import ask, judge, rows, serving

PYTHON = '''
"""The page that counts the verdicts of runs."""

from pathlib import Path

from judge_eval.pages.page import Page, PageData


def make(runs, settings):
    """Count the verdicts."""
    return PageData("Verdicts", {"verdicts": [run.manifest.tally.verdicts for run in runs]})


PAGE = Page("verdicts", "/verdicts", Path(__file__).with_name("verdicts.js"), make)
'''
SCRIPT = """import { el, page, num } from "./dom.js";
import { pageData } from "./source.js";

page("verdicts", async (root, data) => {
  data ??= await pageData("verdicts");
  const title = el("h1", null, "Verdicts");
  root.replaceChildren(el("main", null, title, data.verdicts.map((n) => el("p", null, num(n)))));
  document.documentElement.dataset.ready = "true";
});
"""


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lay the two files of a page into the folder of pages."""
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "verdictspage.py").write_text(PYTHON)
    (folder / "verdicts.js").write_text(SCRIPT)
    monkeypatch.setattr(judge_eval.pages, "__path__", [*judge_eval.pages.__path__, str(folder)])
    pages.cache_clear()
    yield
    pages.cache_clear()
    sys.modules.pop("judge_eval.pages.verdictspage", None)


@pytest.mark.usefixtures("added")
def test_a_page_of_two_files_is_written_by_the_command_line(tmp_path: Path) -> None:
    """`report --page NAME` writes the page with its data, and with no script that it does not need."""
    run = judge(rows()[:3], tmp_path)
    path = tmp_path / "page.html"
    result = CliRunner().invoke(
        app, ["report", str(run.folder), "--page", "verdicts", "--cache", "none", "-o", str(path)]
    )
    assert result.exit_code == 0, result.output
    text = path.read_text(encoding="utf-8")
    assert data_of(text) == {"page": "verdicts", "verdicts": [run.manifest.tally.verdicts]}
    assert 'page("verdicts"' in text
    assert 'page("run"' not in text


@pytest.mark.usefixtures("added")
def test_a_page_of_two_files_is_served(tmp_path: Path) -> None:
    """The server shows the page at its address, with its script and its data."""
    run = judge(rows()[:3], tmp_path)
    with serving(ServerSettings(root=tmp_path)) as url:
        assert 'data-page="verdicts" data-script="verdicts.js"' in ask(url + "/verdicts")[1]
        assert ask(url + "/static/verdicts.js")[1] == SCRIPT
        data = ask(f"{url}/api/v1/pages/verdicts?run={run.id}")[1]
        assert data == {"verdicts": [run.manifest.tally.verdicts]}


def test_a_page_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    """A typo in a page's name is answered by the names there are."""
    run = judge(rows()[:1], tmp_path)
    result = CliRunner().invoke(app, ["report", str(run.folder), "--page", "comparre", "--cache", "none"])
    assert result.exit_code == 2
    assert "compare" in result.output
