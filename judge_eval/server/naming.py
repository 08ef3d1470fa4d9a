"""Which run a request means: by its label, and which others it may be compared with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeAlias

from fastapi import APIRouter

from judge_eval.errors import DataError, MetricError, RunError
from judge_eval.pages.comparepage import SideBySide
from judge_eval.runs.folder.records import Manifest
from judge_eval.server.library import Library
from judge_eval.server.models import ApiRecord, RunName, RunSummary
from judge_eval.server.submissions import notes_of

OFFERED = 200
"""The most baselines that are offered."""

BaselineName: TypeAlias = RunName | Literal["none"] | None
"""A run; `none`; nothing means the run that was named when the other was judged, where it is here."""


class OfferedBaseline(ApiRecord):
    """A run that another can be compared with."""

    id: str
    label: str | None
    created: datetime
    dataset: str
    same: bool
    """Whether it judged data of the same name or content."""


def baseline_of(library: Library, run_id: str, asked: BaselineName) -> tuple[SideBySide | None, str | None]:
    """Put a run beside its baseline.

    Args:
        library: The folder of runs.
        run_id: The run.
        asked: What the request says of the baseline.

    Returns:
        Both runs, or None without a baseline; and where the one that the run remembers cannot be used, why.

    Raises:
        MissingRunError: There is no run of that name.
        RunError: A run that was asked for is damaged.
    """
    if asked == "none":
        return None, None
    folder, manifest = library.find(run_id)
    remembered = manifest.baseline or notes_of(folder).get("baseline")
    if asked is not None and str(asked) != remembered:
        return library.side_by_side(str(asked), run_id), None
    if remembered is None:
        return None, None
    try:
        return library.side_by_side(remembered, run_id), None
    except (DataError, MetricError, RunError):
        library.table(run_id)  # what is wrong with the run itself is told as that
        return None, f"The run was judged against {remembered[:8]}, which is not here or cannot be read."


def offered_baselines(library: Library, run_id: str) -> list[OfferedBaseline]:
    """List the runs that a run can be compared with: those of the same data first, then the newest."""
    _, own = library.find(run_id)
    ended = [m for _, m in library.runs() if m.id != own.id and m.status not in ("submitted", "running")]
    ended.sort(key=lambda m: (not _same_data(own, m), -m.created.timestamp()))
    return [
        OfferedBaseline(
            id=m.id, label=m.label, created=m.created, dataset=m.dataset.name, same=_same_data(own, m)
        )
        for m in ended[:OFFERED]
    ]


def _same_data(one: Manifest, other: Manifest) -> bool:
    a, b = one.dataset, other.dataset
    return a.name == b.name or (bool(a.digest) and a.digest == b.digest)


def make_naming_routes(library: Library, summary: Callable[[str], RunSummary]) -> APIRouter:
    """Make the routes that tell runs apart.

    Args:
        library: The folder of runs.
        summary: Says of a run what the list says.
    """
    api = APIRouter()

    @api.get("/named", tags=["runs"])
    def get_named(name: RunName) -> RunSummary:
        """Find a run by its UUID, or by `label:NAME` the newest of that label, whatever signs it holds."""
        return summary(library.find(str(name))[1].id)

    @api.get("/runs/{run_id}/baselines", tags=["runs"])
    def get_baselines(run_id: RunName) -> list[OfferedBaseline]:
        """List the runs that this one can be compared with, those of the same data first."""
        return offered_baselines(library, str(run_id))

    return api
