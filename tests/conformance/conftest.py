"""Where the reference data are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def conformance_data() -> Path:
    """The folder of reference data: `JUDGE_EVAL_CONFORMANCE_DATA`, else `../shared/data` beside the project.

    Absent, the test is skipped with a reason, or fails where `JUDGE_EVAL_REQUIRE_CONFORMANCE=1`.
    """
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("JUDGE_EVAL_CONFORMANCE_DATA") or root.parent / "shared" / "data")
    if not folder.is_dir():
        reason = f"no conformance data in {folder}; set JUDGE_EVAL_CONFORMANCE_DATA to their folder"
        if os.environ.get("JUDGE_EVAL_REQUIRE_CONFORMANCE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
