"""What the command line prints of verdicts without reasons, and of a cascade."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval.pytest_plugin.assertions import failure_message
from judge_eval.runs.judging.telemetry import explanation
from judge_eval.schema import NO_REASON
from tests.support.command import Shell, stable
from tests.support.deciding import cascaded, decided
from tests.support.golden import check_golden
from tests.support.serving import rows

DATA = rows()[:3]


def test_a_run_and_a_trace_of_a_decision_model(tmp_path: Path) -> None:
    """The summary names the prompt, the card says that there is no reason, and shows the probability."""
    shell = Shell(tmp_path)
    decided(DATA, tmp_path / "runs", label="decision")
    result = shell("show", "label:decision", "docs-001")
    assert result.code == 0, result.err
    check_golden("cli/show_decision_trace.txt", stable(result.out, tmp_path))
    assert result.out.count(f"   {NO_REASON}\n") == 5
    assert "quote" not in result.out


def test_a_run_and_a_trace_of_a_cascade(tmp_path: Path) -> None:
    """The summary says how many verdicts each stage gave, the card which stage gave each."""
    shell = Shell(tmp_path)
    cascaded(DATA, tmp_path / "runs", label="cascade")
    result = shell("show", "label:cascade")
    assert result.code == 0, result.err
    check_golden("cli/show_cascade.txt", stable(result.out, tmp_path))
    trace = shell("show", "label:cascade", "docs-001")
    assert trace.code == 0, trace.err
    check_golden("cli/show_cascade_trace.txt", stable(trace.out, tmp_path))


def test_a_test_suite_and_telemetry_say_the_same() -> None:
    """An assertion's message and an event's explanation name the stage and say where there is no reason."""
    run = cascaded(DATA)
    result, failed = explanation(run.results[0]), failure_message(run, {"AP@5": 1.0}, None)
    assert "4. grade 0 (cheap judge): no reason: the judge gives none" in result
    assert "1. grade 1 (strong judge): Shares telling words" in result
    assert f"cheap judge): {NO_REASON}" in failed
    assert "None" not in result + failed


@pytest.mark.slow
def test_no_reason_is_printed_as_none(tmp_path: Path) -> None:
    """Whatever verb shows a run, nobody reads Python's word for nothing."""
    shell = Shell(tmp_path)
    decided(DATA, tmp_path / "runs", label="a")
    cascaded(DATA, tmp_path / "runs", label="b")
    for words in (
        ("compare", "label:a", "label:b"),
        ("agree", "label:b"),
        ("report", "label:b", "-o", "b.html"),
        ("runs", "list"),
        ("score", "label:b", "-k", "AP@3"),
    ):
        result = shell(*words)
        assert result.code == 0, (words, result.err)
        assert "None" not in result.out, words
