"""What the command line prints of claims."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.claims import claimed, espresso, run_by_claims
from tests.support.command import Shell, stable
from tests.support.golden import check_golden
from tests.support.serving import judge, rows


def test_a_trace_shows_what_each_rank_says_of_each_claim(tmp_path: Path) -> None:
    """What is missing stands first; below each chunk stand the claims it speaks of, with its quotes."""
    shell = Shell(tmp_path)
    run_by_claims(espresso(), tmp_path / "runs", label="main")
    result = shell("show", "label:main", "q1")
    assert result.code == 0, result.err
    check_golden("cli/show_claims_trace.txt", stable(result.out, tmp_path))
    failed = shell("show", "label:main", "q2")
    assert "   not known  okay   .!.  Claim c2 of What is a lungo?" in failed.out
    assert "   covered    vital  +!.  Claim c1 of What is a lungo?" in failed.out
    assert json.loads(shell("show", "label:main", "q1", "--json").out)["claims"]["together"] == {"c2": False}


def test_a_run_shows_what_is_missed_most_and_by_tag(tmp_path: Path) -> None:
    """The claims with how often they are missed and where; with --tags what is covered by tag."""
    shell = Shell(tmp_path)
    run_by_claims(espresso(), tmp_path / "runs", label="main")
    result = shell("show", "label:main")
    assert result.code == 0, result.err
    check_golden("cli/show_claims.txt", stable(result.out, tmp_path))
    tags = shell("show", "label:main", "--tags")
    assert tags.code == 0, tags.err
    check_golden("cli/show_claims_tags.txt", stable(tags.out, tmp_path))


def test_a_comparison_lists_claims_lost_and_won(tmp_path: Path) -> None:
    """Lost ones first, with a sign a rank before and after."""
    shell = Shell(tmp_path)
    run_by_claims(espresso(), tmp_path / "runs", label="main")
    changed = {"c1": ".....", "c2": "+.~..", "c3": "x....", "c4": ".....", "c5": "....."}
    run_by_claims(espresso(q1=changed), tmp_path / "runs", label="other")
    result = shell("compare", "label:main", "label:other")
    assert result.code == 0, result.err
    check_golden("cli/compare_claims.txt", stable(result.out, tmp_path))
    record = json.loads(shell("compare", "label:main", "label:other", "--json").out)
    (moved,) = record["claims"]
    assert (moved["lost"], moved["won"]) == (2, 1)


def test_the_table_of_claims_is_exported(tmp_path: Path) -> None:
    """`--table claims` writes it; MLflow takes no table."""
    shell = Shell(tmp_path)
    run_by_claims(espresso(), tmp_path / "runs", label="main")
    result = shell("export", "label:main", "--table", "claims", "-o", "claims.jsonl")
    assert result.code == 0, result.err
    lines = (tmp_path / "claims.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 11
    refused = shell("export", "label:main", "--table", "claim", "-o", "claims.csv")
    assert refused.code == 2
    assert "claims" in refused.err
    assert shell("export", "label:main", "--table", "claims", "--format", "mlflow").code == 2


def test_hostile_claims_steer_no_terminal(tmp_path: Path) -> None:
    """Control characters of a claim are spelled out, wherever it is printed."""
    shell = Shell(tmp_path)
    steer = "red \x1b[31m and\x9b2J more\nnext"
    data = [claimed("q", {"c": "x"}, texts={"c": steer}, chunks=["The text \x1b[0m."])]
    run_by_claims(data, tmp_path / "runs", label="main")
    run_by_claims(data, tmp_path / "runs", label="other")
    for words in (("show", "label:main"), ("show", "label:main", "q"), ("compare", "label:main", "label:other")):
        result = shell(*words)
        assert result.code == 0, result.err
        assert not {"\x1b", "\x9b"} & set(result.out), words


def test_a_run_without_claims_is_shown_as_before(tmp_path: Path) -> None:
    """No word of claims."""
    shell = Shell(tmp_path)
    judge(rows()[:2], tmp_path / "runs", label="main")
    assert "claim" not in shell("show", "label:main").out
    assert "claim" not in shell("show", "label:main", "docs-001").out
