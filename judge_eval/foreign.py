"""JSON that somebody else wrote, read so that nothing in it can end more than itself."""

import json
from collections.abc import Iterable
from typing import Any

from pydantic_core import from_json

_DEEPEST = 200  # levels, as many as the fast reader takes


def read_json(data: bytes) -> Any:
    """Read JSON that somebody else wrote. Raises `ValueError` if it is not JSON, or nests too deeply."""
    try:
        return from_json(data)
    except ValueError:  # a lone surrogate, for instance, which the fast reader refuses
        try:
            value = json.loads(data)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        level = [value]
        for _ in range(_DEEPEST):
            level = [inner for outer in level for inner in _inside(outer)]
            if not level:
                return value
        raise ValueError("nested too deeply") from None


def within(value: Any, *path: str | int) -> Any:
    """Return what JSON holds at a path of names and places; None if there is nothing."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, without what else it holds; none if the value is not a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


class RepeatedKeyError(ValueError):
    """A key occurs twice in one object, so that readers would take different values."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key[:100]!r} occurs twice in one object")


def check_single_keys(data: bytes, value: Any) -> Any:
    """Return JSON's value if no object of it has a key twice. Raises `RepeatedKeyError`."""
    # With numbers as texts: Python reads none of thousands of digits.
    json.loads(data, object_pairs_hook=single_keys, parse_int=str)
    return value


def single_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its members; `object_pairs_hook` of `json`. Raises `RepeatedKeyError`."""
    read = dict(pairs)
    if len(read) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedKeyError(next(name for name in names if names.count(name) > 1))
    return read


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
