"""What exports say of claims: a table of its own, the most missed in words, what was won and lost."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from judge_eval import EvalRun
from judge_eval.errors import ConfigError, UnknownNameError
from judge_eval.export.ci_reports import pull_request_comment
from judge_eval.export.formats import write_as
from judge_eval.export.tables import CLAIM_TYPES, claim_rows
from judge_eval.export.text import as_markdown, labelled_lines
from judge_eval.runs.folder.judgedclaims import judged_claims
from judge_eval.views.trace import verdicts_in_words
from tests.support.claims import claimed, espresso, run_by_claims
from tests.support.golden import check_golden
from tests.support.serving import judge, rows

HOSTILE = "=HYPERLINK(1) | <img src=x onerror=alert(1)>\n# @here"


def lasting(run: EvalRun) -> EvalRun:
    """Give a run the same id and times whenever it is made."""
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    update = {"id": "00000000-0000-4000-8000-000000000000", "created": moment, "finished": moment}
    return run.replace(run.manifest.model_copy(update=update))


@pytest.fixture(scope="module")
def run() -> EvalRun:
    """Judge four traces, and three whose claim is full of markup."""
    hostile = [
        claimed(f"<b>{n}</b>", {"c": "x"}, query="<i>Q</i>?", texts={"c": HOSTILE}, tags=["a, b"]) for n in range(3)
    ]
    return lasting(run_by_claims([*espresso(), *hostile], label="main"))


def test_a_spreadsheet_has_a_row_a_claim(run: EvalRun, tmp_path: Path) -> None:
    """Whether it is covered, which ranks say it, and nothing where that is not known."""
    write_as(run, tmp_path / "claims.csv", table="claims")
    text = (tmp_path / "claims.csv").read_bytes().decode()
    check_golden("export/claims.csv", text)
    result = list(csv.DictReader(io.StringIO(text)))
    each = [item for r in run.results for item in judged_claims(r.claims, r.outcomes) or ()]
    assert [row["claim"] for row in result] == [item.claim.text for item in each]
    for row, first in zip(result, each, strict=True):
        assert row["cover"] == first.cover
        assert row["covered"] == ("" if first.cover == "unknown" else str(first.cover == "covered"))
        assert row["full_ranks"] == " ".join(map(str, first.ranks("full")))
        assert row["conflicting_ranks"] == " ".join(map(str, first.ranks("contradicts")))
    write_as(run, tmp_path / "safe.csv", table="claims", safe_cells=True)
    assert "'=HYPERLINK" in (tmp_path / "safe.csv").read_text(encoding="utf-8")


def test_every_table_says_the_same(run: EvalRun, tmp_path: Path) -> None:
    """JSON, JSON Lines, Parquet and frames of both libraries hold the very same rows."""
    expected = list(claim_rows(run))
    assert all(list(row) == list(CLAIM_TYPES) for row in expected)
    for name in ("claims.json", "claims.jsonl"):
        write_as(run, tmp_path / name, table="claims")
    assert json.loads((tmp_path / "claims.json").read_text(encoding="utf-8")) == expected
    lines = (tmp_path / "claims.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == expected
    parquet = pytest.importorskip("pyarrow.parquet")
    write_as(run, tmp_path / "claims.parquet", table="claims")
    assert parquet.read_table(tmp_path / "claims.parquet").to_pylist() == expected
    pandas = pytest.importorskip("pandas")
    frame = run.claims_frame()
    assert [None if pandas.isna(each) else bool(each) for each in frame["covered"]] == [
        row["covered"] for row in expected
    ]
    assert frame["full_ranks"].tolist() == [row["full_ranks"] for row in expected]
    pytest.importorskip("polars")
    assert run.claims_frame("polars").to_dicts() == expected


def test_a_run_without_claims_has_an_empty_table(tmp_path: Path) -> None:
    """Columns stand there, no rows; the other tables and summaries are as they were."""
    run = judge(rows()[:2])
    write_as(run, tmp_path / "claims.csv", table="claims")
    assert (tmp_path / "claims.csv").read_text(encoding="utf-8") == ",".join(CLAIM_TYPES) + "\n"
    write_as(run, tmp_path / "claims.json", table="claims")
    assert json.loads((tmp_path / "claims.json").read_text(encoding="utf-8")) == []
    pytest.importorskip("pandas")
    assert list(run.claims_frame().columns) == list(CLAIM_TYPES)
    assert "claim" not in as_markdown(run)
    assert '"claims"' not in next(labelled_lines(run))


def test_other_tables_are_written_by_name(run: EvalRun, tmp_path: Path) -> None:
    """A row a verdict or a row a trace; an unknown table and a format without tables are refused."""
    write_as(run, tmp_path / "traces.jsonl", table="traces")
    lines = (tmp_path / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["trace_id"] for line in lines] == [r.trace_id for r in run.results]
    write_as(run, tmp_path / "verdicts.json", table="verdicts")
    verdicts = json.loads((tmp_path / "verdicts.json").read_text(encoding="utf-8"))
    assert len(verdicts) == sum(len(r.outcomes) for r in run.results)
    with pytest.raises(UnknownNameError, match="claims"):
        write_as(run, tmp_path / "x.csv", table="claim")
    with pytest.raises(ConfigError, match="holds no tables"):
        write_as(run, tmp_path / "x.md", table="claims")


def test_the_summary_names_the_three_most_missed(run: EvalRun) -> None:
    """Markdown as agreed, hostile texts harmless."""
    text = as_markdown(run)
    check_golden("export/claims.md", text)
    assert text.count(" | vital | ") == 3
    assert "HYPERLINK" in text
    assert " <img" not in text
    assert "@here" not in text
    assert "\n# " not in text


def test_a_pull_request_names_them_too(run: EvalRun) -> None:
    """Below the summary stand the claims that were lost and won."""
    changed = {"c1": ".....", "c2": "+.~..", "c3": "x....", "c4": ".....", "c5": "....."}
    other = lasting(run_by_claims(espresso(q1=changed), label="PR 12"))
    text = pull_request_comment(other, run.compare(other), [])
    check_golden("export/claims_pull_request.md", text)
    assert "claims: 2 lost (1 vital), 1 won (1 vital), of 10 known in both" in text


def test_records_keep_the_claims(run: EvalRun) -> None:
    """JSON Lines hold what each trace was judged by; what people read in Inspect names what is missing."""
    line = json.loads(next(labelled_lines(run)))
    result = line["metadata"]["judge_eval"]["claims"]
    assert [item["id"] for item in result["claims"]] == ["c1", "c2", "c3", "c4", "c5"]
    assert result["together"] == {"c2": False}
    words = verdicts_in_words(run.results[0])
    assert "2 of 5 claims covered; 2 not covered; 1 partly covered" in words
    assert "not covered (vital): The shot takes 25 to 30 seconds." in words
