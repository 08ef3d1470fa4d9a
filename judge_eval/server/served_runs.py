"""What requests read of one run: its traces and rows, its labels, its baseline, and the sample that people label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from judge_eval.errors import DataError, MetricError, RunError
from judge_eval.pages.blind import sampled_row
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.rows import TraceRow
from judge_eval.pages.runpage import live_page, run_page
from judge_eval.runs.folder.labels import people_labels
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.schema import Scale
from judge_eval.server.library import IndexingError, Library
from judge_eval.server.models import BaselineName, OfferedBaseline
from judge_eval.spelling import option
from judge_eval.study.agree import agree
from judge_eval.study.people import LabelSample
from judge_eval.trials.floor_judge import floor_of
from judge_eval.views.agreement import agreement_data


class MissingTraceError(RunError):
    """The run has no such trace or chunk."""


class RunRows(NamedTuple):
    """The traces of a run as rows."""

    metrics: tuple[str, ...]
    rows: list[TraceRow]
    results: Callable[[Collection[int]], Iterable[TraceResult]]
    """Reads the results at some positions, and maybe others."""


class ServedRuns:
    """Reads the runs of a library one by one, with the sample and the floor that the server was started with."""

    def __init__(self, library: Library, sample: LabelSample | None = None, floor: str | None = None) -> None:
        self.library, self._sample, self._floor = library, sample, floor
        self._ranks: dict[tuple[str, str], list[int]] = {}  # of the chunks of the sample, by run and trace

    def page(self, run_id: str, baseline: BaselineName) -> dict[str, Any]:
        """Return the figures of a run's page, beside its baseline if it has one."""
        followed = self.library.followed(run_id)
        if followed is not None:
            return live_page(self.library.find(run_id)[1], followed.metrics)
        table = self.library.table(run_id, patient=False)
        compared, problem = baseline_of(self.library, run_id, baseline)
        if compared is None:
            page = self.library.derived(table, "page", lambda: run_page(table))
            return {**page, "problem": problem} if problem else page
        return self.library.derived(compared, "page", lambda: run_page(table, compared))

    def agreement(self, run_id: str) -> dict[str, Any]:
        """Return how far the judge of a run agrees with its labels, and whether it beats the server's floor."""
        table = self.library.table(run_id)

        def measured() -> dict[str, Any]:
            below = None if self._floor is None else floor_of(self._floor, table.run)
            return agreement_data(agree(table.run, None, floor=below))

        return self.library.derived(table, "agreement", measured)

    def rows(self, run_id: str, baseline: BaselineName, *, newest: bool = False) -> RunRows:
        """Return the rows of a run, beside its baseline if it has one; of a run under way the `newest` first."""
        followed = self.library.followed(run_id)
        if followed is not None:
            return RunRows(followed.metrics, followed.rows[:: -1 if newest else 1], followed.results)
        table = self.library.table(run_id, patient=False)
        compared, _ = baseline_of(self.library, run_id, baseline)
        return RunRows(table.metrics, table.rows if compared is None else compared.rows, lambda _: table.run.results)

    def result(self, run_id: str, trace_id: str) -> tuple[Manifest, Scale, tuple[str, ...], TraceResult]:
        """Return a trace's result, with the manifest, scale and metrics of its run.

        Raises:
            MissingTraceError: The run has no such trace.
        """
        followed = self.library.followed(run_id)
        if followed is not None:
            result = followed.find(trace_id)
            if result is None:
                raise MissingTraceError("this run does not have a trace with this id yet")
            return followed.manifest, followed.scale, followed.metrics, result
        table = self.library.table(run_id)
        places = self.library.derived(table, "places", lambda: {row.id: k for k, row in enumerate(table.rows)})
        if trace_id not in places:
            raise MissingTraceError("this run does not have a trace with this id")
        return table.run.manifest, table.scale, table.metrics, table.run.results[places[trace_id]]

    def sample(self, run_id: str) -> LabelSample:
        """Return the sample of a run that the server was started with.

        Raises:
            MissingTraceError: There is none, or it is of another run.
        """
        if self._sample is None or not self.library.find(run_id)[1].id.startswith(self._sample.run):
            raise MissingTraceError(f"the server needs a sample of this run: start it with {option('sample', 'FILE')}")
        return self._sample

    def sampled_rows(self, run_id: str, rows: Iterable[TraceRow]) -> list[TraceRow]:
        """Return the rows of the sample, in its order, with its chunks alone."""
        picked = self.sample(run_id).chunks
        by_id = {row.id: row for row in rows if row.id in picked}
        return [sampled_row(by_id[trace], self._ranks_of(run_id, trace)) for trace in picked if trace in by_id]

    def _ranks_of(self, run_id: str, trace_id: str) -> list[int]:
        """Return where the chunks of the sample stand in the list of a trace, from 0."""
        if (run_id, trace_id) not in self._ranks:
            picked = self.sample(run_id).chunks[trace_id]
            chunks = self.result(run_id, trace_id)[3].trace.chunks
            self._ranks[run_id, trace_id] = [rank for rank, chunk in enumerate(chunks) if chunk.id in picked]
        return self._ranks[run_id, trace_id]

    def own_labels(self, run_id: str, by: str, *, sample: bool) -> dict[tuple[str, str], int]:
        """Return the labels that a person gave here, or without a name somebody did, by trace and chunk."""
        if sample and not by:  # of a sample nobody sees a verdict before they have said who they are
            return {}
        labels = people_labels(self.library.find(run_id)[0])
        mine = ((key, label) for key, each in labels.items() for label in each if label.by == by and not label.final)
        return {key: label.label for key, label in mine if label.label is not None}

    def labelled_chunks(self, run_id: str, own: Iterable[tuple[str, str]], *, sample: bool) -> Counter[str]:
        """Count the labelled chunks of each trace, those of the sample alone if it is asked for."""
        if not sample:
            return Counter(trace for trace, _ in own)
        picked = self.sample(run_id).chunks
        return Counter(trace for trace, chunk in own if chunk in picked.get(trace, ()))


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
