import csv
import io
import json
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from judge_eval import FakeBackend
from judge_eval.errors import ConfigError, RefusedError
from judge_eval.eval_run import EvalRun
from judge_eval.export import text as export
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import Trace
from tests.support.golden import check_golden
from tests.support.runs import evaluator

HOSTILE = "x](javascript:alert(1)) | <img src=x onerror=alert(1)>\n# `code` </script>"


def hostile_run(label: str = HOSTILE, href: str | None = "https://example.org/pr/1") -> EvalRun:
    """Judge traces full of markup, and make times, ids and versions stable."""
    data = [
        {
            "id": "<b>1</b>",
            "query": '<script>alert("q")</script>, "quoted"',
            "reference": "r",
            "chunks": [
                {"id": "'\"><i>", "text": "<u>one</u>", "label": 1},
                {"id": "b", "text": "two\nlines"},
                {"id": "c", "text": "three"},
            ],
        },
        {"id": "2", "query": "Nothing?", "reference": "r", "chunks": []},
    ]
    backend = FakeBackend.table(
        {
            "'\"><i>": {"grade": 1, "evidence": "<u>one</u>", "reason": "<script>alert(2)</script>"},
            "b": 0,
            "c": RefusedError("<style>"),
        }
    )
    run = evaluator(backend).evaluate(
        [Trace.parse(item) for item in data], label=label, href=href, name="<img src=data>"
    )
    stable = {
        "id": "00000000-0000-4000-8000-000000000000",
        "created": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "finished": datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC),
        "environment": {},
    }
    results = [
        result.model_copy(update={"calls": tuple(c.model_copy(update={"key": "0" * 64}) for c in result.calls)})
        for result in run.results
    ]
    judge = dict(run.manifest.judge)
    judge["prompt"] = {"id": "support/binary", "version": 1, "digest": "0" * 64}
    return EvalRun(run.manifest.model_copy(update={**stable, "judge": judge}), results)


@pytest.mark.parametrize("suffix", [".json", ".csv", ".md"])
def test_what_is_written_is_what_was_agreed(suffix: str, tmp_path: Path) -> None:
    """The files that people and programs read change only on purpose, hostile text included."""
    path = tmp_path / f"run{suffix}"
    export.write(hostile_run(), path)
    check_golden(f"export/hostile{suffix}", path.read_text(encoding="utf-8"))


def test_csv_and_json_read_back() -> None:
    """A CSV reader and a JSON reader find every verdict, failed ones included."""
    run = hostile_run()
    rows = list(csv.DictReader(io.StringIO("".join(export.csv_lines(run)))))
    assert [(row["rank"], row["kind"], row["grade"], row["why"]) for row in rows] == [
        ("1", "verdict", "1", ""),
        ("2", "verdict", "0", ""),
        ("3", "no_verdict", "", "refused"),
    ]
    assert rows[0]["reason"] == "<script>alert(2)</script>"
    document = json.loads(export.as_json(run))
    assert [len(result["outcomes"]) for result in document["results"]] == [3, 0]


@pytest.mark.parametrize(
    "href", ["javascript:alert(1)", "data:text/html,x", "https://x/> <script>", "https://x/\n# y", "//x"]
)
def test_only_web_addresses_become_links(href: str) -> None:
    """Any other address is left out of the Markdown."""
    assert f"({href}" not in export.as_markdown(hostile_run("main", href))
    assert "## judge_eval: main\n" in export.as_markdown(hostile_run("main", href))


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    """The suffix says the format; an unknown one and a folder that is not there are told."""
    with pytest.raises(ConfigError, match=r"use .json, .csv, .md"):
        export.write(hostile_run(), tmp_path / "run.xlsx")
    with pytest.raises(ConfigError, match="No such file"):
        export.write(hostile_run(), tmp_path / "gone" / "run.json")


def test_another_threshold_rescores_without_a_call() -> None:
    """Metrics computed afterwards equal those of a run that had them from the start."""
    run = hostile_run()
    scored = rescore(run, ["P@1", "AP@3"])
    assert scored.aggregates["AP@3"] == run.aggregates["AP@3"]
    assert [result.scores["P@1"] for result in scored.results] == [1.0, 0.0]
    assert run.manifest.metrics == ("AP@3", "MRR")


class Tags(HTMLParser):
    """Collects the tags and attributes of a fragment."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """Note the text."""
        self.text += data


def test_the_notebook_view_shows_text_as_text() -> None:
    """Text from data is escaped: no tag and no attribute of it reaches the page."""
    tags = Tags()
    tags.feed(hostile_run()._repr_html_())
    assert tags.tags <= {"div", "p", "b", "table", "tr", "th", "td", "span", "code"}
    assert tags.attributes <= {"style", "title"}
    assert '<script>alert("q")</script>' in tags.text
    assert "onerror" in tags.text
    assert "1 verdict failed in 1 trace (refused 1)" in tags.text
    assert "(nothing retrieved)" in tags.text
