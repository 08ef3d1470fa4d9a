from __future__ import annotations

from judge_eval.runs.columns.verdict_table import WHYS


def test_reasons_keep_their_codes() -> None:
    """Parts that were written before hold reasons by their place: new ones come last."""
    before = ("unreachable", "refused", "unparsable", "truncated", "budget", "unsupported", "unjudged", "empty")
    assert WHYS[: len(before)] == before
