import re
from pathlib import Path

import pytest

from tests.support import scale_tables

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"


def test_the_table_is_what_the_formulas_give() -> None:
    """The table of the page is the one computed from its formulas and the numbers named above it."""
    text = PAGE.read_text(encoding="utf-8")
    result = re.search(r"<!-- online -->\n(.*?)<!-- /online -->", text, re.DOTALL)
    assert result is not None
    assert result[1] == scale_tables.online()


def test_assumptions_are_named_on_the_page() -> None:
    """The numbers that the table rests on stand on the page."""
    text = PAGE.read_text(encoding="utf-8")
    s = scale_tables
    for words in (
        f"i = {s.INPUT}, o = {s.OUTPUT} for one chunk",
        f"i = {s.LIST_INPUT:,}, o = {s.LIST_OUTPUT} for {s.CHUNKS} chunks",
        f"${s.PRICE_IN:.2f} and ${s.PRICE_OUT:.2f}, and e = {s.ENGINE:,}",
    ):
        assert words in text


def test_known_points_of_the_table() -> None:
    """At 10,000 requests a minute 10^8 verdicts are a week of work."""
    s = scale_tables
    assert s.seconds_online(10**8, 10_000, 10_000_000) == pytest.approx(10**4 * 60)
    assert s.seconds_online(10**6, 500, 200_000) == pytest.approx(10**6 * 560 / 200_000 * 60)
    assert s.cost(10**6) == pytest.approx(296.0)
