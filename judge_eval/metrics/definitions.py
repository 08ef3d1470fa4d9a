"""The metrics by name: those of this package, then those of installed packages."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from judge_eval.errors import ConfigError
from judge_eval.metrics import families
from judge_eval.metrics.spec import Spec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "judge_eval.metrics"


def _families() -> list[Any]:
    names = sorted(module.name for module in pkgutil.iter_modules(families.__path__))
    return [import_module(f"{families.__name__}.{name}") for name in names]


SPECS: Mapping[tuple[str, str], Spec] = {
    (spec.family, spec.name): spec for family in _families() for spec in family.SPECS
}
"""By family and name; `P` is in both families, spelled `P@5` and `P_5`."""

ALIASES: Mapping[str, str] = {
    alias: name for family in _families() for alias, name in getattr(family, "ALIASES", {}).items()
}
"""Other spellings of RAG names; a metric prints its own name."""


def spec_of(family: Literal["rag", "trec"], name: str) -> Spec | None:
    """Return the `Spec` of a name, or None; no other package can change what `AP@5` means."""
    spec = SPECS.get((family, name))
    return spec if spec is not None or family == "trec" else _load(name)


def plugin_names() -> list[str]:
    """List the metrics of installed packages by name, without those whose name this package has."""
    return sorted(name for name in _points() if ("rag", name) not in SPECS)


def usable() -> list[Spec]:
    """Load the metrics of installed packages, without those that cannot be used."""
    specs = []
    for name in plugin_names():
        with suppress(ConfigError):
            specs.append(_load(name))
    return [spec for spec in specs if spec is not None]


@cache
def _points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _load(name: str) -> Spec | None:
    point = _points().get(name)
    if point is None:
        return None
    try:
        spec = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"metric {name!r} cannot be used: {error}; install what it needs") from None
    if not isinstance(spec, Spec) or (spec.family, spec.name) != ("rag", name):
        raise ConfigError(
            f"metric {name!r}: {point.value} is not a `Spec` of the family 'rag' with this name; "
            "report it to its author"
        )
    return spec
