"""Metrics of which less is better, on the command line: colours, limits and the worst traces."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_colours import GREEN, RED, watched
from tests.compare.test_less_is_better import CLEAN, MANY, WORSE
from tests.support.claims import claimed, run_by_claims
from tests.support.desk import Desk


@pytest.fixture
def kept(desk: Desk) -> Desk:
    """Keep two runs: one without a conflict, and one with a conflict in every second trace."""
    for label, kinds in (("clean", [CLEAN]), ("odd", [CLEAN, WORSE])):
        data = [claimed(f"q{n:02d}", kinds[n % len(kinds)]) for n in range(MANY)]
        run_by_claims(data, desk.folder / "runs", metrics=["Conflict@2"], label=label)
    return desk


def test_a_rise_is_red_and_a_fall_green(kept: Desk) -> None:
    """The difference is coloured by what it means, and its sentence says it in words."""
    for labels, colour, word in (
        (("label:clean", "label:odd"), RED, "odd is worse"),
        (("label:odd", "label:clean"), GREEN, "clean is better"),
    ):
        result = watched(kept, "compare", *labels, NO_COLOR="")
        line = next(each for each in result.splitlines() if "+0.2500" in each or "-0.2500" in each)
        assert colour in line
        assert f"{word}: Conflict@2" in result


def test_limits_on_the_mean_and_on_the_rise(kept: Desk) -> None:
    """Both break, with exit code 1; the other way round both hold."""
    limits = ("--fail-under", "Conflict@2=0.1", "--max-drop", "Conflict@2=0.05")
    result = kept("compare", "label:clean", "label:odd", *limits)
    assert result.code == 1
    assert "failed: fail-over Conflict@2 is 0.2500, 0.1500 over 0.1" in result.err
    assert "failed: max-rise Conflict@2 rose by 0.2500" in result.err
    assert kept("compare", "label:odd", "label:clean", *limits).code == 0


def test_the_worst_traces_have_the_most(kept: Desk) -> None:
    """`show --worst` lists those with the highest values first."""
    shown = kept("show", "label:odd", "--worst", "3", "--json")
    assert [each["scores"]["Conflict@2"] for each in json.loads(shown.out)] == [0.5] * 3
