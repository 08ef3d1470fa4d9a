"""Metrics that installed packages bring: entry points in the group `judge_eval.metrics`."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Literal

from judge_eval.errors import ConfigError
from judge_eval.metrics.spec import Spec
from judge_eval.metrics.specs import SPECS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "judge_eval.metrics"


def spec_of(family: Literal["rag", "trec"], name: str) -> Spec | None:
    """Return what a metric's name stands for, looking at installed packages last; None where nothing does.

    The metrics of this package go first, so that no other one can change what `AP@5` means. Only what an
    installed package declares is imported.

    Raises:
        ConfigError: A package declares the name but cannot be imported, or brings no such metric.
    """
    spec = SPECS.get((family, name))
    return spec if spec is not None or family == "trec" else _load(name)


def plugin_names() -> list[str]:
    """List the metrics of installed packages, by name; those that this package has itself are not heard."""
    return sorted(name for name in _points() if ("rag", name) not in SPECS)


def usable() -> list[Spec]:
    """Load the metrics of installed packages, without those that cannot be used."""
    specs = []
    for name in plugin_names():
        with suppress(ConfigError):
            specs += [spec for spec in [spec_of("rag", name)] if spec is not None]
    return specs


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
            "tell whoever wrote it"
        )
    return spec
