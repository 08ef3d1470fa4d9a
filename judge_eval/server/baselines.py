"""The baseline of a run's page: the one in force, and those that are offered."""

from judge_eval.errors import DataError, MetricError, RunError
from judge_eval.pages.compared import ComparedRuns
from judge_eval.runs.folder.records import Manifest
from judge_eval.server.library import IndexingError, Library
from judge_eval.server.models import BaselineName, OfferedBaseline

OFFERED = 200
"""The most baselines that are offered."""


def baseline_of(library: Library, run_id: str, asked: BaselineName) -> tuple[ComparedRuns | None, str | None]:
    """Compare a run with its baseline, if any; say why a remembered baseline is unusable, if it is."""
    if asked == "none":
        return None, None
    _, manifest = library.find(run_id)
    remembered = manifest.baseline_id
    if asked is not None and str(asked) != remembered:
        return library.compared(str(asked), run_id), None
    if remembered is None:
        return None, None
    try:
        return library.compared(remembered, run_id), None
    except IndexingError:
        raise
    except (DataError, MetricError, RunError):
        library.table(run_id)  # a fault of the run itself is raised
        fault = "which is not in this folder or cannot be read."
        return None, f"The run was judged against {remembered[:8]}, {fault}"


def offered_baselines(library: Library, run_id: str) -> list[OfferedBaseline]:
    """List the runs that a run can be compared with: those of the same data first, then the newest."""
    _, own = library.find(run_id)
    ended = [m for _, m in library.runs() if m.id != own.id and m.status not in ("submitted", "running")]
    ended.sort(key=lambda m: (not _same_data(own, m), -m.created.timestamp()))
    return [
        OfferedBaseline(id=m.id, label=m.label, created=m.created, dataset=m.dataset.name, same=_same_data(own, m))
        for m in ended[:OFFERED]
    ]


def _same_data(first: Manifest, second: Manifest) -> bool:
    a, b = first.dataset, second.dataset
    return a.name == b.name or (bool(a.digest) and a.digest == b.digest)
