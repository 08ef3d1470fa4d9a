"""Finding what is named `kind/name`: entry points of installed packages, with advice on a typo."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from judge_eval.errors import ConfigError, UnknownNameError


@cache
def _installed(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"judge_eval.{group}")}


def names(group: str) -> list[str]:
    """List what is installed in a group, such as `"backends"`."""
    return sorted(_installed(group))


def find(group: str, name: str, kind: str) -> Any:
    """Load what an installed package registered under a name.

    Only names that an installed package declares are ever imported; a name in a data file cannot add one.

    Args:
        group: The group, such as `"backends"`.
        name: The registered name, such as `"openai"`.
        kind: What it is called in a message, such as `"provider"`.

    Raises:
        UnknownNameError: Nothing of that name is registered.
        ConfigError: It is registered but its package cannot be imported.
    """
    point = _installed(group).get(name)
    if point is None:
        raise UnknownNameError(kind, name, _installed(group))
    try:
        return point.load()
    except ImportError as error:
        raise ConfigError(f"{kind} {name!r} cannot be used: {error}; install what it needs") from None


def split_model(model: str) -> tuple[str, str]:
    """Split `provider/model` at its first slash.

    Raises:
        ConfigError: There is no slash, or nothing on one side of it.
    """
    provider, slash, name = model.partition("/")
    if not slash or not provider or not name:
        raise ConfigError(
            f"model {model!r} does not say who serves it; "
            f"write `provider/model`, such as `openai/{model.strip('/') or 'NAME'}`"
        )
    return provider, name
