"""The best panel of a run's members by stated prices, from the command line."""

from __future__ import annotations

import json

from tests.support.command import FIXTURES
from tests.support.desk import Desk

JUDGES = """
vote = "majority"
[[member]]
model = "fake/overlap"
[[member]]
model = "fake/hash"
[[member]]
model = "fake/inverted"
"""


def test_prices_choose_the_panel(desk: Desk) -> None:
    """Of a judge and its mirror image, which say the same, the cheaper one; `--within` shuts out what costs more."""
    (desk.folder / "judges.toml").write_text(JUDGES, encoding="utf-8")
    assert desk("run", FIXTURES / "docs_qa.jsonl", "--judge", "judges.toml", "-q").code == 0
    counted = desk("agree", "latest", "--best-panel", "2").out
    assert "(the number of members: the price of " in counted

    def chosen(overlap: float, inverted: float, *more: str) -> tuple[list[str], float]:
        prices = {"fake/overlap": overlap, "fake/hash": 0.0001, "fake/inverted": inverted}
        stated = [part for model, price in prices.items() for part in ("--cost", f"{model}={price}")]
        done = desk("agree", "latest", "--best-panel", "2", *stated, *more, "--json")
        assert done.code == 0, done.err
        best = json.loads(done.out)["panel"]["best"]
        assert best["priced"] == "stated costs"
        return best["members"], best["cost"]

    assert chosen(0.002, 0.001) == (["fake/inverted:support/binary"], 0.001)
    assert chosen(0.001, 0.002) == (["fake/overlap:support/binary"], 0.001)
    assert chosen(0.002, 0.001, "--within", "0.0005") == (["fake/hash:support/binary"], 0.0001)
    part = desk("agree", "latest", "--best-panel", "2", "--cost", "fake/overlap=0.002")
    assert part.code == 2
    assert "the price of fake/hash:support/binary, fake/inverted:support/binary is not known" in part.err
    assert "write MEMBER=PRICE" in desk("agree", "latest", "--best-panel", "2", "--cost", "fake/overlap").err
