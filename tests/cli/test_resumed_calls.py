from __future__ import annotations

import pytest

from tests.support.command import FIXTURES
from tests.support.desk import Desk


@pytest.mark.slow
def test_a_resume_says_how_many_calls_were_its_own(desk: Desk) -> None:
    """The summary counts the run's calls; one more line says how many this command made, and how many were before."""
    command = ("run", FIXTURES / "docs_qa.jsonl", "--model", "fake/overlap", "--cache", "none")
    first = desk(*command, "--max-calls", "50")
    assert first.code == 3
    assert "50 verdicts, 50 calls" in first.out
    assert "by this command" not in first.out
    second = desk(*command, "--resume")
    assert second.code == 0
    assert "184 verdicts, 184 calls" in second.out
    assert "134 calls by this command, 50 before it\n" in second.out
    third = desk(*command, "--resume")
    assert "0 calls by this command, 184 before it\n" in third.out
