"""Names of a package that are loaded when they are first used, so that importing it costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def attach(package: str, modules: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package.

    Args:
        package: Its name.
        modules: By module, named from the package on, the names that come from it.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
