"""`validate-judge`: the table of a judge on labelled sets."""

from __future__ import annotations

import json
import shutil

from tests.support.command import FIXTURES
from tests.support.desk import Desk


def test_a_folder_and_a_file_make_rows_that_join(desk: Desk) -> None:
    """A row a set and language, systems ranked where runs are there; tables of two judges join into one page."""
    shutil.copytree(FIXTURES / "formats/beir", desk.folder / "beir")
    run = (desk.folder / "beir/run.trec").read_text(encoding="utf-8")
    (desk.folder / "beir/runs").mkdir()
    (desk.folder / "beir/runs/one.trec").write_text(run, encoding="utf-8")
    lines = [line.split() for line in run.splitlines()]
    turned = "".join(" ".join([q, z, d, r, str(-float(s)), "two"]) + "\n" for q, z, d, r, s, _ in lines)
    (desk.folder / "beir/runs/two.trec").write_text(turned, encoding="utf-8")
    rows = [
        {
            "query_id": f"{language}{k}", "query": f"was ist thing{k}", "language": language,
            "positive_passages": [{"docid": "p", "text": f"thing{k} ist ein seltenes Tier."}],
            "negative_passages": [{"docid": "n", "text": "Heute regnet es."}],
        }
        for language in ("de", "fr") for k in range(12)
    ]  # fmt: skip
    (desk.folder / "miracl.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name in ("overlap", "hash"):
        done = desk(
            "validate-judge", "-m", f"fake/{name}", "--prompt", "relevance/binary", "--sets", "beir",
            "--sets", "miracl.jsonl", "-o", f"{name}.json",
        )  # fmt: skip
        assert done.code == 0, done.err
    table = json.loads((desk.folder / "overlap.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["set"], row["language"]) for row in table] == [
        ("beir", ""), ("miracl.jsonl", ""), ("miracl.jsonl", "de"), ("miracl.jsonl", "fr"),
    ]  # fmt: skip
    assert table[0]["systems"] is not None
    assert table[1]["kappa"]["interval"] is not None
    assert table[1]["evidence_found"]["value"] == 1
    both = desk("validate-judge", "--join", "overlap.json", "--join", "hash.json", "-o", "both.md", "-o", "both.html")
    assert both.code == 0, both.err
    text = (desk.folder / "both.md").read_text(encoding="utf-8")
    assert text.count("miracl.jsonl") == 6
    assert "<table" in (desk.folder / "both.html").read_text(encoding="utf-8")
    assert desk("validate-judge").code == 2
    assert "not a table of validate-judge" in desk("validate-judge", "--join", "miracl.jsonl").err


def test_a_dry_run_asks_nothing_and_tables_of_lines_join(desk: Desk) -> None:
    """`--dry-run` says the calls and tokens of each set and prompt; rows as JSON Lines join, also put together."""
    shutil.copytree(FIXTURES / "formats/beir", desk.folder / "beir")
    planned = desk("validate-judge", "-m", "fake/overlap", "--sets", "beir", "--dry-run", "-o", "no.json")
    assert planned.code == 0, planned.err
    for prompt in ("relevance/binary", "relevance/graded"):
        assert f"beir, {prompt}: " in planned.out
    assert planned.out.count("input tokens") == 2
    assert "no request was sent" in planned.err
    assert not (desk.folder / "no.json").exists()
    both = ""
    for name in ("overlap", "hash"):
        judge = ("-m", f"fake/{name}", "--prompt", "relevance/binary")
        assert desk("validate-judge", *judge, "--sets", "beir", "-o", f"{name}.jsonl").code == 0
        both += (desk.folder / f"{name}.jsonl").read_text(encoding="utf-8")
    (desk.folder / "both.jsonl").write_text(both, encoding="utf-8")
    for joined in (("--join", "both.jsonl"), ("--join", "overlap.jsonl", "--join", "hash.jsonl")):
        shown = desk("validate-judge", *joined, "--json")
        assert shown.code == 0, shown.err
        assert [row["model"] for row in json.loads(shown.out)["rows"]] == ["fake/overlap-1", "fake/hash-1"]
    (desk.folder / "broken.jsonl").write_text('{"set": 1}\n', encoding="utf-8")
    assert "not a table of validate-judge" in desk("validate-judge", "--join", "broken.jsonl").err
