"""The range of every number in flags, settings and Python arguments."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from judge_eval.errors import ConfigError

ValueLimits: TypeAlias = tuple[float | None, float | None]
"""The least and the greatest value that a number can have; None: no end is known."""


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest number allowed."""

    low: float
    high: float
    whole: bool = True
    """Whether it is a whole number."""

    def check(self, value: object, where: str) -> None:
        """Raise a `ConfigError` if a value, `where` in its text, is not in the range; None passes."""
        if value is None:
            return
        kinds = (int,) if self.whole else (int, float)
        known = isinstance(value, kinds) and not isinstance(value, bool)
        if not known or not self.low <= value <= self.high:  # type: ignore[operator]
            raise ConfigError(f"{where} {_brief(value)}: write {self}")

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {_spelled(self.low)} to {_spelled(self.high)}"


def _spelled(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6f}".rstrip("0").rstrip(".")


def _brief(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "of thousands of digits"
    return text if len(text) <= 40 else text[:37] + "..."


def _table(name: str) -> Mapping[str, Range]:
    table = tomllib.loads((files("judge_eval") / "ranges.toml").read_text(encoding="utf-8"))[name]
    return MappingProxyType({key: Range(low, high, isinstance(low, int)) for key, (low, high) in table.items()})


RANGES: Final = _table("arguments")
"""By the name of the flag and of the Python argument."""
PARAMS: Final = _table("parameters")
"""By name, for parameters of a request that mean the same to all servers."""


def check_ranges(values: Mapping[str, object], table: Mapping[str, Range] = RANGES) -> None:
    """Check numbers by name; None passes."""
    for name, value in values.items():
        table[name].check(value, name)


def check_params(params: Mapping[str, Any]) -> None:
    """Check that the parameters of requests are finite and in their ranges."""
    for name, value in params.items():
        if name in PARAMS:
            PARAMS[name].check(value, f"the parameter {name}")
        elif not _finite(value):
            raise ConfigError(f"the parameter {name} {_brief(value)}: write a finite number")


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, list | tuple) else True
