"""A cell as a test: its marks, its folder and server, and what it comes to."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.matrix.answers import Answering
from tests.matrix.case import Case, RefusedError
from tests.matrix.features import Feature
from tests.matrix.inside import Desk
from tests.matrix.kinds import Kind
from tests.matrix.tables import KNOWN, REFUSED

PARAGRAPHS = [
    re.sub(r"\s+", " ", paragraph).lower()
    for path in sorted((Path(__file__).parents[2] / "docs").rglob("*.md"))
    for paragraph in path.read_text(encoding="utf-8").split("\n\n")
]
"""Of the documentation."""


def cell(kind: Kind, feature: Feature, *marks: Any) -> Any:
    """Make the parameter of a cell, with the marks that the tables and the feature ask for beside others."""
    name = (kind.name, feature.name)
    known = [pytest.mark.xfail(strict=True, reason=KNOWN[name])] if name in KNOWN else []
    foreign = [pytest.mark.foreign] if feature.service else []
    return pytest.param(kind, feature, id="-with-".join(name), marks=[*marks, *known, *foreign])


@contextmanager
def opened(kind: Kind, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> Iterator[Case]:
    """Set a cell up: a folder, and a server on loopback."""
    desk = Desk.at(folder, patch, capture)
    patch.setenv("OPENAI_API_KEY", "k")
    with Answering() as server:
        yield Case(kind, server, desk)


def check(feature: Feature, case: Case) -> None:
    """See that the feature holds, or is refused as tables and docs say."""
    for package in feature.needs:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"could not import {package}")
    refusal = REFUSED.get((case.kind.name, feature.name))
    if refusal is None:
        feature.check(case)
        return
    with pytest.raises(RefusedError, match=re.escape(refusal.message)):
        feature.check(case)
    words = [word.lower() for word in refusal.documented]
    assert any(all(word in paragraph for word in words) for paragraph in PARAGRAPHS), "the docs do not say so"
