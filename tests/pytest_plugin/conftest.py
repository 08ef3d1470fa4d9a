"""What a pytest inside a pytest must not forget."""

from collections.abc import Callable

import pytest
from _pytest.pytester import SysModulesSnapshot


@pytest.fixture(autouse=True)
def modules_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget an inner run's tests alone, not the modules they import.

    A module that is imported a second time has other classes of the same names, so a later inner run would
    fail or pass by what ran before it.
    """

    def stays(name: str) -> bool:
        return not name.startswith(("test_", "conftest"))

    def snapshot(preserve: Callable[[str], bool] | None = None) -> SysModulesSnapshot:
        return SysModulesSnapshot(preserve=stays)

    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot", snapshot)
