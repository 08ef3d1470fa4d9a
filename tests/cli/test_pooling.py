from __future__ import annotations

import json

from judge_eval import Pool
from judge_eval.data.collection import read_qrels
from tests.support.command import FIXTURES
from tests.support.desk import Desk


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
    assert "██████" in page
    assert "●" in page
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


def test_a_new_run_joins_a_pool(desk: Desk) -> None:
    """`run --pool` makes the pool, adds to it and prints old and new means; a run that lacks questions is not added."""
    runs = [
        ("run", FIXTURES / f"docs_qa_by_{name}.jsonl", "--model", "fake/overlap", "-q") for name in ("text", "title")
    ]
    assert "Pool of 1 run" in desk(*runs[0], "--label", "text", "--pool", "p.json").out
    before = (desk.folder / "p.json").read_text()
    few = desk(*runs[1], "--label", "few", "--limit", "3", "--pool", "p.json")
    assert "the run lacks 35 questions of p.json, which stays as it is" in few.err
    assert (desk.folder / "p.json").read_text() == before
    grown = desk(*runs[1], "--label", "title", "--pool", "p.json")
    assert grown.code == 0, grown.err
    assert "Pool of 2 runs: text, title" in grown.out
    assert "text   Recall@5 of the pool              0.7895  0.7895" in grown.out
    assert [system.name for system in Pool.load(desk.folder / "p.json").systems] == ["text", "title"]
    again = desk(*runs[1], "--resume", "--pool", "p.json")
    assert "p.json has this run already" in again.err


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


def test_a_budget_judges_a_sample_and_says_what_it_means_for_all(desk: Desk) -> None:
    """`run --pool-budget` makes no more calls than it pays for, judges the first ranks, and estimates the whole."""
    words = ["alpha", "beta", "gamma", "delta", "omega"]
    lines = []
    for number in range(20):
        chunks = [f"{words[(number + rank) % 5]} stands in part {rank} of {number}" for rank in range(20)]
        lines.append(json.dumps({"id": f"q{number}", "query": "alpha?", "reference": "alpha stands", "chunks": chunks}))
    (desk.folder / "deep.jsonl").write_text("\n".join(lines))
    base = ("run", "deep.jsonl", "--model", "fake/overlap", "--metrics", "P@10")
    assert desk(*base, "--label", "cheap", "--no-cache").code == 0
    made = desk(*base, "--pool-budget", "200", "--pool-prior", "label:cheap", "--label", "part", "--no-cache")
    assert made.code == 0, made.err
    assert "200 of 400 chunks judged (50%), the first ranks in full" in made.out
    assert "half width at 30%" in made.out
    assert "5 chunks of a question were drawn by chance, too few for intervals of ratios" in made.out
    (manifest,) = [
        json.loads(p.read_text()) for p in desk.folder.glob("runs/*/manifest.json") if "pool_sample" in p.read_text()
    ]
    assert manifest["tally"]["calls"] == 200
    assert manifest["status"] == "done"
    assert desk(*base, "--pool-budget", "80").code == 2
    assert "write 300 or 300calls, 50000tokens, or $2.50" in desk(*base, "--pool-budget", "much").err
    assert desk(*base, "--pool-budget", "$2").code == 2
    assert desk("show", "label:part").code == 0
