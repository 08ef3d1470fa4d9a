"""What holds for every test."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import USUAL

# Threads that share a small matrix spin more than they compute, and take the cores of the other workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A busy machine is no fault: no case has a time, neither to be drawn nor to be run.
settings.register_profile("home", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=USUAL)
# A change is judged by the same cases every time; what new cases find belongs to whoever runs them at home.
settings.register_profile("ci", settings.get_profile("home"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")

# What a script starts in the background ignores Ctrl-C, and so would each process that is tested here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(50_000, 20, 50)  # to collect tests makes many objects and no garbage

FOREIGN = "pytestmark = pytest.mark.foreign"
"""The line that says that all of a module's tests need other packages or services."""


@pytest.fixture(autouse=True)
def _nothing_negotiated() -> None:
    """No test starts with what another has learned of a server, whose port may be used again."""
    if (memory := sys.modules.get("judge_eval.llm.http.text_server")) is not None:
        memory.FORMS.clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests that need other packages or services be asked for."""
    parser.addoption("--foreign", action="store_true", help="also run tests that need the group `foreign`")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out whole modules that need other packages, which may not be there to import."""
    if config.getoption("--foreign") or collection_path.suffix != ".py":
        return None
    return FOREIGN in collection_path.read_text(encoding="utf-8").splitlines() or None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """Let each worker import a share of a folder's modules first: what one has compiled the others find."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker and isinstance(collector, pytest.Directory):
        modules = [child for child in report.result or () if isinstance(child, pytest.Module)]
        for module in modules[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
            with contextlib.suppress(module.CollectError, pytest.skip.Exception):  # reported when it is collected
                _ = module.obj
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out single tests that need other packages or services."""
    if config.getoption("--foreign"):
        return
    kept = [item for item in items if item.get_closest_marker("foreign") is None]
    left_out = [item for item in items if item.get_closest_marker("foreign") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.fixture(scope="session")
def conformance_data() -> Path:
    """The folder of real data; where it is absent its tests are skipped, or fail if they are required."""
    named = os.environ.get("JUDGE_EVAL_CONFORMANCE_DATA")
    folder = Path(named) if named else Path(__file__).parents[1].parent / "shared" / "data"
    if folder.is_dir():
        return folder
    message = f"no conformance data at {folder}; set JUDGE_EVAL_CONFORMANCE_DATA to its folder"
    if os.environ.get("JUDGE_EVAL_REQUIRE_CONFORMANCE") == "1":
        pytest.fail(message)
    pytest.skip(message)
