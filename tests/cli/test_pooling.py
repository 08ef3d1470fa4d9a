from __future__ import annotations

import json

import pytest

from judge_eval import Pool
from judge_eval.data.collection import read_qrels
from tests.support.blocks_of_pages import data_of
from tests.support.command import FIXTURES
from tests.support.desk import Desk


@pytest.mark.slow
def test_the_verb_prints_and_writes_the_pool(desk: Desk) -> None:
    """Two runs: scores marked as of the pool, the pool as JSON, qrels and Markdown, and the pool read again."""
    for name in ("text", "title"):
        assert desk("run", FIXTURES / f"docs_qa_by_{name}.jsonl", "--model", "fake/overlap", "--label", name).code == 0
    result = desk("pool", "label:text", "label:title", "-o", "p.json", "-o", "p.qrels", "-o", "p.md", "-o", "p.html")
    assert result.code == 0, result.err
    assert "Pool of 2 runs: text, title" in result.out
    assert "Recall@5 of the pool" in result.out
    assert "nothing bounds how many more exist: it takes 3 systems or more" in result.out
    assert "| text | Recall@5 of the pool | 0.7895 |" in (desk.folder / "p.md").read_text()
    page = (desk.folder / "p.html").read_text()
    assert "<title>Pool of 2 runs: text, title</title>" in page
    shown = json.dumps(data_of(page), ensure_ascii=False)
    assert "<i></i>" * 6 in shown  # a bar
    assert "●" in shown
    qrels = read_qrels(desk.folder / "p.qrels")
    assert qrels == {q: grades for q, grades in Pool.load(desk.folder / "p.json").qrels.items() if grades}
    beside = json.loads((desk.folder / "p.qrels.json").read_text())
    assert [(each["number"], each["name"]) for each in beside["systems"]] == [(1, "text"), (2, "title")]
    assert {line.split()[1] for line in (desk.folder / "p.qrels").read_text().splitlines()} == {"1", "2", "1+2"}
    (desk.folder / "changed.qrels").write_text("docs-001 0 x 1\n")
    (desk.folder / "changed.qrels.json").write_text((desk.folder / "p.qrels.json").read_text())
    assert "changed.qrels was changed after" in desk("pool", "p.json", "changed.qrels").err
    (desk.folder / "changed.qrels.json").write_text("[]")
    assert "does not say where" in desk("pool", "p.json", "changed.qrels").err
    again = json.loads(desk("pool", "p.json", "--json").out)
    assert again == json.loads(desk("pool", "label:text", "label:title", "--json").out)
    assert desk("pool", "p.json", "p.qrels", "--metrics", "Recall@5").code == 0
    assert desk("pool", "p.qrels").code == 2
    assert desk("pool", "p.json", "label:text").code == 2


@pytest.mark.slow
def test_a_fusion_is_compared_with_its_parents(desk: Desk) -> None:
    """`what-if` makes a run like any other, and compares it with each of the runs it was made of."""
    for name in ("text", "title"):
        assert desk("run", FIXTURES / f"docs_qa_by_{name}.jsonl", "--model", "fake/overlap", "--label", name).code == 0
    made = desk("what-if", "label:text", "label:title", "--fuse", "rrf", "--label", "hybrid")
    assert made.code == 0, made.err
    assert "hybrid against text (baseline)" in made.out
    assert "hybrid against title (baseline)" in made.out
    assert "the judges differ" not in made.out
    assert "the verdicts of text and title put into new lists (rrf)" in made.out
    assert desk("compare", "label:title", "label:hybrid").code == 0
    shown = json.loads(desk("what-if", "label:hybrid", "--cut", "3", "--json").out)
    assert shown["judge"]["imported"]["what_if"]["recipe"] == "cut 3"
    swept = desk("what-if", "label:text", "label:title", "--fuse", "weighted", "--sweep", "a=0,.5,1")
    assert "Sweep of a: weighted" in swept.out
    assert "on the questions that did not choose it AP@5 is" in swept.out
    tried = json.loads(desk("what-if", "label:text", "--sweep", "cut=1,3", "--json").out)
    assert [point["value"] for point in tried["points"]] == [1.0, 3.0]
    assert desk("what-if", "label:text", "label:title").code == 2
    assert "--fuse rrf" in desk("what-if", "label:text", "label:title").err
    cut = desk("what-if", "label:text", "--threshold", "fit")
    assert "on the questions that did not choose it precision is" in cut.out, cut.err


def test_the_cost_of_missing_verdicts_is_shown_first(desk: Desk) -> None:
    """`what-if --judge-missing` prints its plan, asks, and keeps a run; `--dry-run` asks nothing."""
    data = FIXTURES / "docs_qa_by_text.jsonl"
    assert desk("run", data, "--model", "fake/malformed", "--label", "open", "--limit", "2", "-q").code == 3
    asked = ("what-if", "label:open", "--cut", "2", "--judge-missing", "--model", "fake/overlap")
    planned = desk(*asked, "--dry-run")
    assert "cut 2: 2 traces, 4 chunks" in planned.out
    assert "4 calls, 0 answered without a call" in planned.out
    made = desk(*asked)
    assert made.code == 0, made.err
    assert "4 verdicts, 4 calls" in made.out
