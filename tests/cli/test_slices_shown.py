"""`--by` from the command line."""

from __future__ import annotations

from tests.support.command import FIXTURES
from tests.support.desk import Desk


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
