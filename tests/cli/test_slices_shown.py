"""`--by` from the command line."""

from __future__ import annotations

import json

import pytest

from judge_eval import EvalRun
from tests.support.blocks_of_pages import data_of, tables_in
from tests.support.command import FIXTURES
from tests.support.desk import Desk


@pytest.mark.slow
def test_run_score_agree_and_compare_show_slices(desk: Desk) -> None:
    """Each prints the table of slices, with what it is against."""
    data = FIXTURES / "docs_qa.jsonl"
    for rule in ("overlap", "hash"):
        done = desk("run", data, "-m", f"fake/{rule}", "--label", rule, "-q", "--by", "tag", "--by", "length")
        assert done.code == 0, done.err
        assert "Slices against the other traces" in done.out
    assert "Slices against the other traces" in desk("score", "label:hash", "--by", "length").out
    assert "Slices against the other traces" in desk("show", "label:hash", "--by", "length").out
    assert "kappa" in desk("agree", "label:hash", "--by", "tag").out.split("verdict\n")[-1]
    assert "A script in brackets" not in desk("show", "label:hash", "--by", "tag").out
    assert "Slices against the other traces" in desk("agree", "label:hash", "--by", "tag").out
    assert "Slices against no change" in desk("compare", "label:overlap", "label:hash", "--by", "length").out
    assert desk("agree", "label:hash", "--by", "colour").code == 2
    for arguments in (["label:hash", "label:overlap", "--systems"], ["label:hash", "label:overlap", "label:hash"]):
        assert "figures by slice are of one run" in desk("agree", *arguments, "--by", "tag").err
    none = "there are no slices by source: no trace states one, or all traces are alike"
    for verb in ("show", "agree"):
        assert none in desk(verb, "label:hash", "--by", "source").out
    assert none in desk("compare", "label:hash", "label:overlap", "--by", "source").out
    pooled = desk("report", "label:hash", "label:overlap", "--page", "pool", "--by", "tag")
    assert "the page of a pool has no slices" in pooled.err


@pytest.mark.slow
def test_every_writer_shows_the_slices_a_run_was_asked_for(desk: Desk) -> None:
    """Asked once, they stay: Markdown, JSON, notebook, the page's file, a gate's comment; `show --by` asks anew."""
    data = FIXTURES / "docs_qa.jsonl"
    desk("run", data, "-m", "fake/hash", "--label", "old", "-q")
    done = desk(*("run", data, "-m", "fake/overlap", "-q", "--by", "length", "--baseline", "label:old"),
                *("-o", "a.md", "-o", "a.json", "--json"))  # fmt: skip
    for text in (done.out, (desk.folder / "a.json").read_text()):
        assert {figure["by"] for figure in json.loads(text)["slices"]} == {"length"}
    markdown = (desk.folder / "a.md").read_text()
    assert "Slices against the other traces" in markdown
    assert "Slices against no change" in markdown
    (folder,) = [path.parent for path in desk.folder.rglob("manifest.json") if "overlap" in path.read_text()]
    run = EvalRun.load(folder)
    assert "Slices against the other traces" in run._repr_html_()
    assert "Slices against no change" in run.compare(run, by=["tag"])._repr_html_()
    assert {f["by"] for f in json.loads(desk("show", "latest", "--json", "--by", "tag").out)["slices"]} == {"tag"}
    assert '"slices"' not in desk("show", "label:old", "--json").out
    for arguments, kinds in ((["latest"], {"length"}), (["label:old", "latest", "--by", "tag"], {"tag"})):
        desk("report", *arguments, "--baseline", "none") if len(arguments) == 1 else desk("report", *arguments)
        slices = data_of((desk.folder / "report.html").read_text())["slices"]
        rows = [row for table in tables_in(slices if isinstance(slices, str) else slices["AP@5"]) for row in table]
        assert {row[0] for row in rows} == kinds
        assert {"cannot say"} >= {row[-1] for row in rows}


@pytest.mark.slow
def test_a_runs_page_shows_the_figures_of_agreement_by_slice(desk: Desk) -> None:
    """They are those of `agree --by`, and the figures of all are by cluster as `agree` has them."""
    rows = [json.loads(line) for line in (FIXTURES / "docs_qa.jsonl").read_text(encoding="utf-8").splitlines()]
    for k, row in enumerate(rows):
        row.setdefault("metadata", {})["cluster"] = f"c{k // 4}"
    (desk.folder / "clustered.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert desk("run", "clustered.jsonl", "-m", "fake/hash", "--by", "length", "-q").code == 0
    assert desk("report", "latest").code == 0
    shown = data_of((desk.folder / "report.html").read_text())["agreement"]
    told = json.loads(desk("agree", "latest", "--by", "length", "--json").out)
    (rows,) = tables_in(shown["slices"])
    assert [row[:4] for row in rows] == [[f["by"], f["name"], f["figure"], str(f["n"])] for f in told["slices"]]
    (accuracy,) = (f for f in shown["figures"] if f["name"] == "accuracy")
    assert accuracy["interval"] == told["figures"]["accuracy"]["interval"]


@pytest.mark.slow
def test_three_runs_show_their_slices_in_every_form(desk: Desk) -> None:
    """Terminal, Markdown, JSON and page hold the same figures, each candidate's corrected together by Holm."""
    data = FIXTURES / "docs_qa.jsonl"
    for rule in ("hash", "overlap", "inverted"):
        assert desk("run", data, "-m", f"fake/{rule}", "--label", rule, "-q").code == 0
    names = [f"label:{rule}" for rule in ("hash", "overlap", "inverted")]
    shown = desk("compare", *names, "--by", "length", "-o", "a.md", "-o", "a.json")
    assert "Slices against no change" in shown.out
    assert "Slices against no change" in (desk.folder / "a.md").read_text()
    figures = json.loads((desk.folder / "a.json").read_text())["slices"]
    assert {f["figure"].split(", ")[1] for f in figures} == {"overlap", "inverted"}
    assert (done := desk("report", *names, "--by", "length")).code == 0, done.err
    tables = tables_in(data_of((desk.folder / "report.html").read_text())["slices"])
    assert len(tables) == len({f["figure"] for f in figures})  # metrics and candidates apart
    assert {tuple(row[:4]) for table in tables for row in table} == {
        (f["by"], f["name"], f["figure"], str(f["n"])) for f in figures
    }


@pytest.mark.slow
def test_the_command_and_the_page_name_the_slice(desk: Desk) -> None:
    """`compare` ends with 1 and names it, `report` writes it, and the JSON holds the difference of each slice."""
    rows = [
        {"id": f"t{k}", "query": f"q{k}", "reference": "the sky is blue", "tags": ["ids" if k < 15 else "rest"],
         "chunks": [{"id": "a", "text": "the sky is blue"}]}
        for k in range(60)
    ]  # fmt: skip
    (desk.folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows[:15]:
        row["chunks"] = [{"id": "b", "text": "nothing here"}]
    (desk.folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in "ab":
        assert desk("run", f"{name}.jsonl", "-m", "fake/overlap", "--label", name, "-q").code == 0
    done = desk("compare", "label:a", "label:b", "--max-drop", "AP@5[tag]=0.5", "-o", "c.json")
    assert done.code == 1
    assert "1 of 2 slices by tag, corrected for 2 slices: tag ids (15 questions) by 1.0000" in done.err
    slices = json.loads((desk.folder / "c.json").read_text())["limited"]
    assert [(s["name"], s["n"], s["difference"]) for s in slices] == [("ids", 15, -1.0), ("rest", 45, 0.0)]
    assert desk("report", "label:b", "--baseline", "label:a", "--max-drop", "AP@5[tag]=0.5").code == 0
    page = data_of((desk.folder / "report.html").read_text())
    assert "tag ids (15 questions) by 1.0000" in json.dumps(page)
    wrong = desk(
        "run", "b.jsonl", "-m", "fake/overlap", "-q", "--baseline", "label:a", "--max-drop", "AP@5[tag=idz]=0.5"
    )
    assert wrong.code == 2
    assert "did you mean 'ids'" in wrong.err
