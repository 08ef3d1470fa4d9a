"""Runs over the same documents in other cuts, on the command line: gates, reports, exit codes."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from tests.support.cuts import MANUAL
from tests.support.desk import Desk


@pytest.fixture
def cut(desk: Desk) -> Desk:
    """Twelve questions over three chunks, in `small.jsonl` and as a run, and over their glue, in `glued.jsonl`."""
    for name, texts in (("small", MANUAL), ("glued", (" ".join(MANUAL),))):
        rows = [
            {"id": f"q{k}", "query": "How often?", "reference": "descaled every 40 hours of use", "chunks": [*texts]}
            for k in range(12)
        ]
        (desk.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert desk("run", "small.jsonl", "-m", "fake/overlap", "--label", "small", "-q").code == 0
    return desk


@pytest.mark.parametrize(("undecided", "code"), [("warn", 0), ("fail", 1)])
def test_a_baseline_in_another_cut_decides_no_limit_on_chunks(cut: Desk, undecided: str, code: int) -> None:
    """Message, Markdown and JUnit name the metric to limit instead; one limit in words, in the same run, is decided."""
    limits = ("--max-drop", "AP@3=0.1", "--max-drop", "HitRate@30w=0.5", "--fail-under", "AP@3=0.2")
    flags = ("--baseline", "label:small", "--undecided", undecided, "-o", "gate.md", "-o", "gate.xml")
    done = cut("run", "glued.jsonl", "-m", "fake/overlap", "--label", "glued", *limits, *flags)
    assert done.code == code
    why = "AP@3 counts chunks, and 36 of 36 chunks that share text are cut differently; limit HitRate@30w instead"
    assert f"undecided: max-drop {why}" in done.err
    assert "the documents are cut differently (median 10 and 31 words" in done.out
    markdown = (cut.folder / "gate.md").read_text()
    assert f"undecided: max-drop {why}" in markdown
    assert "passed: max-drop HitRate@30w" in markdown
    cases = {
        case.get("name"): [each.tag for each in case] for case in ET.parse(cut.folder / "gate.xml").iter("testcase")
    }
    assert cases == {
        "max-drop AP@3=0.1": ["failure" if undecided == "fail" else "skipped"],
        "max-drop HitRate@30w=0.5": [],
        "fail-under AP@3=0.2": [],
    }
