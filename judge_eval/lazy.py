"""Public names that are loaded when they are first used, so that importing a package is fast."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

_IMPORT = re.compile(r"^from (\S+) import (\w+) as \w+$", re.MULTILINE)


def modules_in(package: ModuleType) -> list[Any]:
    """Import the modules of a package, in the order of their names."""
    from pkgutil import iter_modules  # which takes time to import

    names = sorted(module.name for module in iter_modules(package.__path__))
    return [import_module(f"{package.__name__}.{name}") for name in names]


def attach(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__all__`, `__getattr__` and `__dir__` from `__init__.pyi`, the only list of a package's names."""
    module = sys.modules[package]
    spec: Any = module.__spec__
    stub = spec.loader.get_data(f"{spec.origin}i").decode()  # the loader reads a zipped package too
    modules = {name: home for home, name in _IMPORT.findall(stub)}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(module, name, value)
        return value

    return sorted(modules), load, lambda: sorted(modules)
