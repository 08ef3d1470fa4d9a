"""Cuts and metrics in words at other doors than `compare`: exports, REST, JUnit; and chunks without text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from judge_eval.compare.compare import compare
from judge_eval.compare.gate import check_gates
from judge_eval.compare.options import Gates
from judge_eval.errors import RefusedError
from judge_eval.export.ci_reports import junit
from judge_eval.export.mlflow import metrics_of
from judge_eval.export.tables import trace_rows
from judge_eval.export.trec import qrels_lines, run_lines
from judge_eval.server.server_settings import ServerSettings
from judge_eval.views.findings import headlines
from judge_eval.views.markdown import markdown_of
from judge_eval.views.run import summary_view
from tests.support.command import Shell
from tests.support.cuts import GLUED, MANUAL, SMALL, Part, run_of
from tests.support.serving import ask, serving

pytestmark = pytest.mark.filterwarnings("ignore:The .* attribute with value .* was provided:UserWarning")
NAMES = [f"q{k:02d}" for k in range(12)]
CLAIMS = {name: ["interval", "acid"] for name in NAMES}


def of_all(parts: Any, **settings: Any) -> EvalRun:
    """The same list for twelve questions."""
    return run_of(dict.fromkeys(NAMES, parts), CLAIMS, **settings)


def test_exports_hold_metrics_in_words() -> None:
    """Tables, Markdown and MLflow name them with their cutoff; TREC files, which count chunks, are as without them."""
    run = of_all(SMALL, metrics=["AP@3", "ClaimRecall@20w"])
    assert {row["ClaimRecall@20w"] for row in trace_rows(run)} == {0.5}
    assert "| ClaimRecall@20w | 0.5000 |" in markdown_of(summary_view(run))
    assert metrics_of(run)["ClaimRecall_at_20w/mean"] == 0.5
    plain = of_all(SMALL, metrics=["AP@3"])
    for lines in (run_lines, qrels_lines):
        assert list(lines(run)) == list(lines(plain))


def test_rest_gives_the_record_of_a_comparison(tmp_path: Path) -> None:
    """The page's data name the metric in words alone as compared, with the sentence and curve of `compare`."""
    runs = [of_all(parts, out=tmp_path, label=name) for name, parts in (("small", SMALL), ("glued", GLUED))]
    expected = compare(*runs)
    with serving(ServerSettings(tmp_path)) as url:
        status, page, _ = ask(f"{url}/api/v1/compare?baseline=label:small&candidate=label:glued")
    assert status == 200
    assert [each["name"] for each in page["metrics"]] == ["ClaimRecall@30w"]
    assert headlines(expected)[0] in json.dumps(page["opening"])
    assert "not compared" in page["read"]


def test_junit_skips_what_cuts_leave_undecided() -> None:
    """A limit on a metric that counts chunks is a skipped case; with `undecided=fail` it is a failure."""
    runs = of_all(SMALL), of_all(GLUED)
    for undecided, count in (("pass", 'failures="0" errors="0" skipped="1"'), ("fail", 'failures="1" errors="0"')):
        gates = Gates(max_drop=("AP@3=0.1",), undecided=undecided)  # type: ignore[arg-type]
        text = junit(check_gates(runs[1:], gates, compare(*runs)))
        assert count in text
        assert "limit ClaimRecall@30w instead" in text


def test_chunks_without_text_change_nothing() -> None:
    """A blank chunk has no words to show, so its failed verdict opens no metric in words; the cuts are the same."""
    blank: list[Part] = [("", RefusedError("no")), *SMALL]
    result, plain = compare(of_all(blank), of_all(GLUED)), compare(of_all(SMALL), of_all(GLUED))
    assert result.cuts[0].replace(by_chunks={}) == plain.cuts[0].replace(by_chunks={})
    (d,) = result.differences
    assert (d.difference, d.n_open) == (0, 0)
    assert not compare(of_all(blank), of_all([(text, said) for text, said in SMALL])).cuts


def test_a_pool_across_cuts_says_what_each_run_adds_by_evidence(tmp_path: Path) -> None:
    """It is refused, as recall counts chunks, and says how much of the references both lists read together."""
    filler = "padding words that say nothing of ovens at all " * 8
    quotes = "every 40 hours of use", "Use citric acid only"
    early: list[Part] = [(MANUAL[1], {"1": quotes[0]}), (filler + MANUAL[2], {"2": quotes[1]})]
    late: list[Part] = [(f"{filler}{MANUAL[2]} {MANUAL[1]}", {"1": quotes[0], "2": quotes[1]})]
    binary: list[list[Part]] = [[(text, next(iter(said.values()))) for text, said in parts] for parts in (early, late)]
    shell = Shell(tmp_path)
    for by_claims, what in ((CLAIMS, "12 of 24 claims and late of 0; together they read 12: late adds 0"), (None, "")):
        out = tmp_path / ("claims" if by_claims else "binary")
        for name, parts in zip(("early", "late"), (early, late) if by_claims else binary, strict=True):
            run_of(dict.fromkeys(NAMES, parts), by_claims, out=out, label=name)
        result = shell("pool", "label:early", "label:late", "--out", str(out))
        assert result.code == 2
        message = " ".join(result.err.split())
        assert "runs early and late cut the same documents differently" in message
        assert "early reads evidence of" in message
        assert what in message
        assert by_claims or "of 12 questions and late of" in message
