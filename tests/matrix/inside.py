"""All that the matrix takes from inside the package and from the other tests: names that may move."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.delimiters import KEPT_IN
from judge_eval.judges import Cascade, Claims, Decision, Listwise, Panel, Pointwise
from tests.support.batch_server import BatchServer
from tests.support.canned import Canned
from tests.support.chat_answers import completion, decide, shape_of
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.decision_server import DecisionServer
from tests.support.desk import Desk
from tests.support.postgres import VARIABLE, schema_of_its_own

__all__ = [
    "KEPT_IN",
    "BatchServer",
    "Canned",
    "Cascade",
    "ChatServer",
    "Claims",
    "Decision",
    "DecisionServer",
    "Desk",
    "Listwise",
    "Panel",
    "Pointwise",
    "Shell",
    "completion",
    "database",
    "decide",
    "on_ray",
    "served",
    "shape_of",
]


def served(folder: Path, evaluator: Evaluator | None = None) -> AbstractContextManager[str]:
    """Serve a folder of runs, with a judge where one is given; yields the address."""
    from judge_eval.server.server_settings import ServerSettings
    from tests.support.serving import serving

    return serving(ServerSettings(folder), evaluator)


def on_ray(evaluator: Evaluator) -> Any:
    """Drive an evaluator by two workers of the cluster that this process is connected to."""
    from judge_eval.distributed import RayDriver

    return RayDriver(evaluator, workers=2)


NAMES = (VARIABLE, "JUDGE_EVAL_REQUIRE_CONFORMANCE")
SETTINGS = {name: os.environ[name] for name in NAMES if name in os.environ}
"""What says where the database of the tests is; a cell knows nothing of the caller's settings."""


@contextmanager
def database() -> Iterator[str]:
    """Make a schema in the test database and yield its URL; skips where there is none."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        with schema_of_its_own() as url:
            for name in SETTINGS:
                patch.delenv(name)
            yield url
