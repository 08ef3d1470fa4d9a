"""Every number a user gives has a range, in Python as on the command line."""

from __future__ import annotations

import math
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError
from judge_eval.llm.options import Options
from judge_eval.runs.options import Selection
from judge_eval.server.server_settings import ServerLimits, Serving
from judge_eval.settings import PARAMS, RANGES, Range, check_params, settings_of

NUMBERS = ("timeout", "concurrency", "rpm", "tpm", "attempts", "max_calls", "max_tokens", "max_cost")
LIMITS = ("traces", "chunks", "queued", "at_once")


def outside(known: Range) -> list[Any]:
    """Return values beyond both ends, and what is no number."""
    return [known.low - 1, known.high * 10 + 1, -(10**30), 10**400, 10**5000, math.inf, -math.inf, math.nan, True, "3"]


@pytest.mark.parametrize("name", [*RANGES])
def test_a_range_names_itself(name: str) -> None:
    """Both ends are within; what is beyond is refused with the range named."""
    known = RANGES[name]
    known.check(known.low, name)
    known.check(known.high, name)
    known.check(None, name)
    for value in outside(known):
        with pytest.raises(ConfigError, match=f"^{name} .*: write a (whole )?number from [0-9.,]+ to [0-9,.]+"):
            known.check(value, name)


@pytest.mark.parametrize("name", NUMBERS)
def test_options_have_ranges(name: str) -> None:
    """How the judge is called takes the same numbers in Python."""
    known = settings_of(Options)[name].range
    assert known is not None
    Options(**{name: known.low})
    for value in outside(known):
        with pytest.raises(ConfigError, match=name):
            Options(**{name: value})


def test_a_reply_has_a_range() -> None:
    """The bytes of a reply, whose flag is in megabytes."""
    assert Options(max_reply=1_000).max_reply == 1_000
    with pytest.raises(ConfigError, match=r"max_reply in MB .*: write a number from 0.000001 to 10,000"):
        Options(max_reply=0)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (Selection, ("limit", "seed")),
        (ReadOptions, ("depth", "relevant")),
        (lambda **given: Evaluator("fake/overlap", cache=False, **given), ("repeat", "relevant")),
        (ServerLimits, LIMITS),
        (Serving, ("port",)),
        (lambda **given: FakeBackend(lambda _: "", **given), ("latency", "keep")),
    ],
)  # fmt: skip
def test_python_has_the_same_ranges(make: Any, names: tuple[str, ...]) -> None:
    """Whatever takes such a number refuses what is out of its range."""
    known = settings_of(make) if isinstance(make, type) else {}
    for name in names:
        for value in outside(known[name].range if name in known else RANGES[name]):
            with pytest.raises(ConfigError, match=name):
                make(**{name: value})


def test_a_shard_has_a_range() -> None:
    """Parts are counted."""
    with pytest.raises(ConfigError, match="shard 99999999: write a whole number from 1 to 1,000,000"):
        Selection(shard=(1, 99_999_999))


@pytest.mark.parametrize("name", [*PARAMS])
def test_known_parameters_have_ranges(name: str) -> None:
    """What all servers mean the same by is checked before it is sent."""
    for value in outside(PARAMS[name]):
        with pytest.raises(ConfigError, match=f"the parameter {name} .*: write a"):
            Options(params={name: value})


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": [math.nan]}])
def test_other_parameters_are_finite(value: Any) -> None:
    """What JSON cannot hold is no parameter, however deep it lies."""
    with pytest.raises(ConfigError, match=r"the parameter of_its_own .*: write a finite number"):
        check_params({"of_its_own": value})
    check_params({"of_its_own": -7.5, "other": {"a": [1, None, "nan"]}})
