"""Agreement on claims on the command line."""

from __future__ import annotations

import json

import pytest

from tests.support.claim_fixtures import CELLS, CLAIMS
from tests.support.desk import Desk


@pytest.mark.slow
def test_the_command_line(desk: Desk) -> None:
    """`agree RUN cells.jsonl` knows the file by its shape, and prints figures, levels and recall."""
    assert desk("run", CLAIMS, "--mode", "claims", "--model", "fake/overlap", "-q").code in (0, 3)
    result = desk("agree", "latest", CELLS)
    assert result.code == 0, result.err
    assert "on three levels" in result.out
    assert "people: full" in result.out
    assert "Recall of claims over" in result.out
    assert json.loads(desk("agree", "latest", CELLS, "--json").out)["cells"] > 400
