"""Reports for CI, tables and spreadsheets stay what they are, whatever text judges and people wrote."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from judge_eval.compare.compare import compare
from judge_eval.compare.gate import Limit, check_drops, check_under
from judge_eval.errors import ConfigError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.export.ci_reports import MARKER, junit, pull_request_comment
from judge_eval.export.formats import write_as
from judge_eval.export.text import as_markdown, csv_lines
from judge_eval.safe_text import FORMULA
from judge_eval.study.sample import blind_csv, choose_traces
from tests.support.command import Shell
from tests.support.serving import scripted
from tests.test_shown import STEERING

EVIL = (
    "@team &commat;team https://evil.example/x www.evil.example #12 <img src=x onerror=y> "
    "[a](javascript:b) ![a](b) | ||\n# head\n- item\n::error::x \x1b]52;c;x\x07\x1bc\x9b\u202e\u2066\u200b `"
)


@pytest.fixture(scope="module")
def runs() -> tuple[EvalRun, EvalRun]:
    """Make two runs with hostile text in every field, the second with changes and failures."""
    rows = [
        {
            "id": f"q{k}{EVIL}", "query": EVIL, "reference": EVIL, "answer": EVIL, "tags": [EVIL],
            "chunks": [
                {"id": f"c{EVIL}", "text": f"{EVIL} {k}", "title": EVIL}, {"id": "b", "text": f"b{k}"},
            ],
        }
        for k in range(4)
    ]  # fmt: skip
    values = {"evidence": "", "reason": EVIL, "verdict": True}
    how: dict[str, Any] = {"href": "https://example.org/1", "tags": [EVIL], "name": f"data {EVIL}"}

    def worse(text: str) -> Any:
        return "?" if text == "b3" else {**values, "verdict": text[:1] != "b" and text[-1] not in "01"}

    first = scripted(rows, None, lambda text: {**values, "verdict": text[:1] != "b"}, label=f"a {EVIL}", **how)
    return first, scripted(rows, None, worse, label=f"b {EVIL}", **how)


def rendered(text: str) -> str:
    """Render Markdown as GitHub does, tables and raw HTML included."""
    from markdown_it import MarkdownIt

    return MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)


def test_comments_and_summaries_are_quiet(runs: tuple[EvalRun, EvalRun]) -> None:
    """No mention, no link but the run's own, no image, no markup, no broken row, no control character."""
    limits = [Limit.parse("fail-under", "AP@5=1"), Limit.parse("max-drop", "AP@5=0.01")]
    comparison = compare(*runs)
    checks = check_under(runs[1], limits) + check_drops(comparison, limits, undecided="fail")
    for text in (
        as_markdown(runs[0]),
        as_markdown(runs[1]),
        pull_request_comment(runs[1], comparison, checks),
        pull_request_comment(None, comparison, checks),
    ):
        assert not set(text) & set(STEERING.replace("\u2060", "").replace("\n", ""))
        html = rendered(text)
        links = re.findall(r'<a href="([^"]*)"', html)
        assert set(links) == {"https://example.org/1"}
        assert set(re.findall(r"<([a-z]\w*)", html)) <= {
            "a", "h2", "h3", "p", "table", "thead", "tbody", "tr", "th", "td", "strong", "ul", "li", "code",
            "blockquote", "details", "summary",
        }  # fmt: skip
        plain = re.sub(r"<[^>]*>", "", html).replace("&amp;", "&")
        assert not re.search(r"(?:^|[^A-Za-z0-9_])@[A-Za-z]", plain)
        assert not re.search(r"https?://|www\.", plain)
        assert not re.search(r"(?:^|\s)#\d", plain)
        for table in re.findall(r"<table>.*?</table>", html, re.DOTALL):
            widths = {
                row.count("<td") + len(re.findall("<th[ >]", row)) for row in re.findall(r"<tr>.*?</tr>", table, re.S)
            }
            assert len(widths) == 1, table
        for line in text.splitlines():
            assert not line.lstrip().startswith(("::", "/")), line
    assert text.startswith(MARKER)


def test_junit_is_xml(runs: tuple[EvalRun, EvalRun]) -> None:
    """The file parses, and holds no character that hides."""
    comparison = compare(*runs)
    text = junit(check_drops(comparison, [Limit.parse("max-drop", "AP@5=0")], undecided="fail"))
    assert not set(text) & set(STEERING.replace("\n", ""))
    (case,) = ElementTree.fromstring(text).iter("testcase")
    message = case[0].get("message")
    assert message is not None
    assert r"\x1b]52;c;x\x07" in message
    assert "@team" in message  # nobody is called by a CI server's page


FORMULAS = [f"{sign}cmd|' /C calc'!A0" for sign in FORMULA]


@pytest.fixture(scope="module")
def formulas(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shell, EvalRun]:
    """Make a run whose texts are formulas."""
    folder = tmp_path_factory.mktemp("formulas")
    rows = [
        {"id": f"q{k}", "query": text, "reference": text,
         "chunks": [{"id": text, "text": text, "title": text}]}
        for k, text in enumerate(FORMULAS)
    ]  # fmt: skip
    values = {"evidence": "", "reason": "=1+1", "verdict": False}
    return Shell(folder), scripted(rows, folder / "runs", lambda _: values)


def test_csv_for_spreadsheets_has_no_formula(formulas: tuple[Shell, EvalRun]) -> None:
    """On request each text that a spreadsheet computes has a `'` before it; else data stay what they are."""
    shell, run = formulas
    for flags, safe in (((), False), (("--safe-cells",), True)):
        assert shell("export", run.id, "-o", "out.csv", *flags).code == 0
        with (shell.folder / "out.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["query"].removeprefix("'") if safe else row["query"] for row in rows] == FORMULAS
        cells = [cell for row in rows for cell in row.values()]
        assert any(cell.startswith(FORMULA) for cell in cells) is not safe
        assert {row["grade"] for row in rows} == {"0"}
    assert [*csv_lines(run)] != [*csv_lines(run, safe_cells=True)]
    refused = shell("export", run.id, "-o", "out.jsonl", "--safe-cells")
    assert (refused.code, refused.err) == (2, refused.err)
    assert "safe cells are for csv" in refused.err
    with pytest.raises(ConfigError, match="safe cells"):
        write_as(run, Path("x.json"), safe_cells=True)


def test_samples_for_spreadsheets_have_no_formula(formulas: tuple[Shell, EvalRun]) -> None:
    """A sample to label has none either; an id that would have to change is refused, not renamed."""
    shell, run = formulas
    refused = shell("sample", run.id, "-n", "3", "-o", "label.csv", "--safe-cells")
    assert refused.code == 2
    assert "labels are matched by it; write .jsonl instead" in refused.err
    with pytest.raises(DataError, match="is a formula to a spreadsheet"):
        blind_csv(choose_traces(run, 3), safe_cells=True)
    rows = [{"id": "q", "query": "=1", "reference": "@x", "chunks": [{"id": "c", "text": "+1"}]}]
    fine = scripted(rows, shell.folder / "runs", lambda _: {"verdict": True})
    assert shell("sample", fine.id, "-n", "1", "-o", "label.csv", "--safe-cells").code == 0
    (row,) = csv.DictReader(io.StringIO((shell.folder / "label.csv").read_text("utf-8-sig")))
    assert (row["query"], row["reference"], row["text"], row["trace_id"]) == ("'=1", "'@x", "'+1", "q")
