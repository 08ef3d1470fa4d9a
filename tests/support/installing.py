"""Metrics and providers that seem to come from an installed package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from judge_eval import registry
from judge_eval.metrics import Spec
from judge_eval.metrics import metric as plugins

_LOAD = plugins._load.__wrapped__  # what is loaded in one test is not of another


class Point:
    """An entry point that needs no package on the disk."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value, self._loaded = name, f"a_package:{name}", value

    def load(self) -> Any:
        """Return what the package brings."""
        return self._loaded


def install_metrics(monkeypatch: pytest.MonkeyPatch, *specs: Spec) -> None:
    """Let these metrics be found by their names."""
    points = {spec.name: Point(spec.name, spec) for spec in specs}
    monkeypatch.setattr(plugins, "_points", lambda: points)
    monkeypatch.setattr(plugins, "_load", _LOAD)


def install_providers(monkeypatch: pytest.MonkeyPatch, providers: Mapping[str, Any]) -> None:
    """Let these providers be found by their names, beside those that are there."""
    _install(monkeypatch, "backends", providers)


def install_judges(monkeypatch: pytest.MonkeyPatch, judges: Mapping[str, Any]) -> None:
    """Let these kinds of judges be found by their names."""
    _install(monkeypatch, "judges", judges)


def _install(monkeypatch: pytest.MonkeyPatch, group: str, things: Mapping[str, Any]) -> None:
    before = registry._installed
    points = {**before(group), **{name: Point(name, value) for name, value in things.items()}}
    monkeypatch.setattr(registry, "_installed", lambda named: points if named == group else before(named))
