"""JSON that somebody else wrote, read so that nothing in it can end more than itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pydantic_core import from_json

_DEEPEST = 200  # levels, as many as the fast reader takes


def read_json(data: bytes) -> Any:
    """Read JSON that somebody else wrote.

    Raises:
        ValueError: It is none, or nests too deeply.
    """
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


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
