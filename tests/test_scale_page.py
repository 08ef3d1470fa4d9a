import re
from pathlib import Path

import pytest

from tests.support import scale_tables

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"


@pytest.mark.parametrize("name", ["online", "batch", "fleet"])
def test_tables_are_what_the_formulas_give(name: str) -> None:
    """Every table of the page is the one computed from its formulas and the numbers named above it."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert found is not None
    assert found[1] == getattr(scale_tables, name)()


def test_assumptions_are_named_on_the_page() -> None:
    """The numbers that the tables rest on stand on the page."""
    text = PAGE.read_text(encoding="utf-8")
    s = scale_tables
    for words in (
        f"i = {s.INPUT}, o = {s.OUTPUT} for one chunk",
        f"i = {s.LIST_INPUT:,}, o = {s.LIST_OUTPUT} for {s.CHUNKS} chunks",
        f"${s.PRICE_IN:.2f} and ${s.PRICE_OUT:.2f}, and e = {s.ENGINE:,}",
        f"(here s = {s.FLEET})",
    ):
        assert words in text


def test_known_points_of_the_tables() -> None:
    """At 10,000 requests a minute 10^8 verdicts are a week of work; a batch halves the price."""
    s = scale_tables
    assert s.seconds_online(10**8, 10_000, 10_000_000) == pytest.approx(10**4 * 60)
    assert s.seconds_online(10**6, 500, 200_000) == pytest.approx(10**6 * 560 / 200_000 * 60)
    assert s.cost(10**6) == pytest.approx(296.0)
    assert s.cost(10**6, batch=True) == pytest.approx(148.0)
