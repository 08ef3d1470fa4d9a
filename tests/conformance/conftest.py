import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def conformance_data() -> Path:
    """The folder of real data; where it is absent its tests are skipped, or fail if they are required."""
    named = os.environ.get("JUDGE_EVAL_CONFORMANCE_DATA")
    folder = Path(named) if named else Path(__file__).parents[2].parent / "shared" / "data"
    if folder.is_dir():
        return folder
    message = f"no conformance data at {folder}; set JUDGE_EVAL_CONFORMANCE_DATA to its folder"
    if os.environ.get("JUDGE_EVAL_REQUIRE_CONFORMANCE") == "1":
        pytest.fail(message)
    pytest.skip(message)
