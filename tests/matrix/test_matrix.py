"""Each kind of judge with each feature gives what the kind gives alone, or is refused as the docs say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.matrix.case import Case
from tests.matrix.cells import cell, check, opened
from tests.matrix.features import FEATURES, Feature
from tests.matrix.kinds import KINDS, Kind
from tests.matrix.tables import KNOWN, REFUSED
from tests.support.examples import SHARE

QUICK = [feature for feature in FEATURES if not feature.needs and not feature.service]
"""Features that need nothing beyond the group `test`."""
BY_DEFAULT = {(KINDS[n % len(KINDS)].name, QUICK[n % len(QUICK)].name) for n in range(max(len(QUICK), len(KINDS)))}
"""The part that runs by default: each kind and each quick feature once at least."""
CELLS = [
    cell(kind, feature, *([] if (kind.name, feature.name) in BY_DEFAULT else [pytest.mark.slow]))
    for number, kind in enumerate(KINDS)
    for place, feature in enumerate(FEATURES)
    if feature.service != "ray"  # they are in tests/distributed
    and ((number + place) % 2 == 0 or SHARE == 1 or (kind.name, feature.name) in BY_DEFAULT | REFUSED.keys())
]
"""Every second cell and all refusals; every cell with `JUDGE_EVAL_EXAMPLES=all`."""


@pytest.fixture
def case(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Case]:
    """Set a cell up."""
    with opened(kind, tmp_path, monkeypatch, capsys) as case:
        yield case


@pytest.mark.parametrize(("kind", "feature"), CELLS)
def test_each_kind_with_each_feature(kind: Kind, feature: Feature, case: Case) -> None:
    """The feature's function says what must hold; a refusal is the one that the tables and the docs name."""
    check(feature, case)


def test_the_tables_name_cells_that_exist() -> None:
    """A kind or a feature that was renamed leaves nothing behind, and no cell stands in both tables."""
    existing = {(kind.name, feature.name) for kind in KINDS for feature in FEATURES}
    assert REFUSED.keys() | KNOWN.keys() <= existing
    assert not REFUSED.keys() & KNOWN.keys()
