"""A run in hand: its manifest, its results, its means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from judge_eval.errors import DataError, MetricError, RunError, UnknownNameError
from judge_eval.files import read_plain
from judge_eval.record import data_error
from judge_eval.runs.folder.journal import (
    ADVICE,
    MANIFEST,
    MOST_MANIFEST,
    AskedTrace,
    ReadResults,
    ResultsFile,
    check_length,
    is_as_written,
    later_format,
)
from judge_eval.runs.folder.records import RESULTS, Aggregate, Manifest, SliceBy, Status, TraceResult
from judge_eval.safe_text import counted
from judge_eval.schema import BINARY, NoVerdict, Scale

if TYPE_CHECKING:
    from judge_eval.data.memory import InputRows

T = TypeVar("T")
_BLOCK = 256


class ChangedResults(ReadResults):
    """Results that `change` makes of `plain` ones, one of each; `places` says which of these count, None takes all."""

    def __init__(
        self,
        plain: Sequence[TraceResult],
        change: Callable[[Sequence[TraceResult]], Sequence[TraceResult]],
        places: NDArray[np.int64] | None = None,
    ) -> None:
        self.plain, self._change, self._places = plain, change, places

    def __len__(self) -> int:
        return len(self.plain if self._places is None else self._places)

    def at(self, places: NDArray[np.int64], calls: bool = True) -> Iterator[TraceResult]:
        """Yield the results at many places; see `Run.results_at`."""
        places = places if self._places is None else self._places[places]
        for block in blocks(results_at(self.plain, places, calls), _BLOCK):
            yield from self._change(block)


def results_at(results: Sequence[TraceResult], places: NDArray[np.int64], calls: bool = True) -> Iterator[TraceResult]:
    """Yield the results at many places; see `Run.results_at`."""
    if isinstance(results, ReadResults):
        return results.at(places, calls)
    return (results[place] for place in places.tolist())


def blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split an iterable into lists of at most `size` items."""
    if size < 1:
        raise MetricError(f"a block must have at least 1 item, got {size}")
    rest = iter(items)
    while block := list(islice(rest, size)):
        yield block


AnyRun = TypeVar("AnyRun", bound="Run")
"""Run, or what is made of it: a function gives back the kind it was given."""


class Run:
    """Everything that was judged, how, and what came of it; users hold it as an `EvalRun`, which says more."""

    def __init__(self, manifest: Manifest, results: Sequence[TraceResult], folder: Path | None = None) -> None:
        self.manifest, self.results, self.folder = manifest, results, folder
        self._input: InputRows | None = None

    @classmethod
    def of(cls, run: Run, rows: InputRows | None = None) -> Self:
        """Return another run as one of this class, with the rows in memory that it was made of."""
        made = cls(run.manifest, run.results, run.folder)
        made._input = rows
        return made

    @classmethod
    def at(cls, folder: Path, manifest: Manifest | None = None) -> Self:
        """Open the run in a folder; its results are read and checked on demand.

        Raises:
            RunError: The folder has no run, one of a later version, or one that was changed.
        """
        manifest = manifest or load_manifest(folder)
        check_length(folder / RESULTS, manifest)
        return cls(manifest, ResultsFile(folder / RESULTS, manifest), folder)

    def replace(self, manifest: Manifest | None = None, results: Sequence[TraceResult] | None = None) -> Self:
        """Return the run with another manifest or other results."""
        changed = Run(manifest or self.manifest, self.results if results is None else results, self.folder)
        return self.of(changed, self._input)

    def sliced(self, *by: SliceBy) -> Self:
        """Return the run so that all that shows it shows every figure by slice too."""
        return self.replace(
            self.manifest.replace(intervals=self.manifest.intervals.replace(by=tuple(dict.fromkeys(by))))
        )

    def __getitem__(self, metric: str) -> float | None:
        """Return a metric's mean over the traces that have a value, or None if none has.

        Raises:
            UnknownNameError: The run has no such metric; `rescore` computes others.
        """
        return self.aggregate(metric).mean

    def __iter__(self) -> Iterator[str]:
        """Yield the names of its metrics, so that `dict(run)` maps each to its mean."""
        return iter(self.manifest.aggregates)

    def __contains__(self, metric: object) -> bool:
        """Return whether it has a metric."""
        return metric in self.manifest.aggregates

    def keys(self) -> tuple[str, ...]:
        """Return the names of its metrics."""
        return tuple(self.manifest.aggregates)

    def aggregate(self, metric: str) -> Aggregate:
        """Return a metric's mean with its interval, counts and bounds.

        Raises:
            UnknownNameError: The run has no such metric.
        """
        aggregate = self.manifest.aggregates.get(metric)
        if aggregate is None:
            from judge_eval.metrics import parse_metric

            aggregate = self.manifest.aggregates.get(str(parse_metric(metric)))
        if aggregate is None:
            raise UnknownNameError("metric in this run", metric, self.manifest.aggregates)
        return aggregate

    @property
    def id(self) -> str:
        """The run's UUID."""
        return self.manifest.id

    @property
    def label(self) -> str | None:
        """What people call it."""
        return self.manifest.label

    @property
    def name(self) -> str:
        """What people call it: its label, else the start of its id."""
        return self.manifest.name

    @property
    def href(self) -> str | None:
        """Where it belongs: a pull request, a commit, a job."""
        return self.manifest.href

    @property
    def tags(self) -> tuple[str, ...]:
        """Words to group and filter by."""
        return self.manifest.tags

    @property
    def status(self) -> Status:
        """How far it got."""
        return self.manifest.status

    @property
    def created(self) -> datetime:
        """When it was started, in UTC."""
        return self.manifest.created

    @property
    def aggregates(self) -> dict[str, Aggregate]:
        """Every metric's mean with its interval, counts and bounds."""
        return self.manifest.aggregates

    def results_at(self, places: NDArray[np.int64], calls: bool = True) -> Iterator[TraceResult]:
        """Yield the results at many places, in the order of `places`; without `calls` faster, and with none perhaps."""
        return results_at(self.results, places, calls)

    def questions(self, places: NDArray[np.int64] | None = None) -> Iterator[AskedTrace]:
        """Yield what each result is about, or those at some places."""
        if isinstance(self.results, ResultsFile):
            return self.results.questions(places)
        results = self.results if places is None else self.results_at(places)
        return (AskedTrace.of(result.trace) for result in results)

    def failures(self) -> Iterator[tuple[str, NoVerdict]]:
        """Yield every chunk without a verdict, with the id of its trace."""
        for result in self.results:
            for outcome in result.outcomes:
                if outcome.kind == "no_verdict":
                    yield result.trace_id, outcome

    def __repr__(self) -> str:
        means = ", ".join(f"{name}={a.shown}" for name, a in self.aggregates.items())
        kind, traces = type(self).__name__, counted(self.manifest.tally.traces, "trace")
        return f"<{kind} {self.name!r} {self.status}: {traces}, {means}>"


def load_manifest(folder: Path) -> Manifest:
    """Read a run's manifest and check its digest."""
    manifest = read_manifest(folder)
    if not is_as_written(manifest):
        what = "its contents are not what was written when the run ended"
        raise RunError(f"{what}; {ADVICE}", file=folder / MANIFEST)
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Read a run's manifest without checking its digest."""
    path = folder / MANIFEST
    try:
        data = read_plain(path, MOST_MANIFEST)
    except FileNotFoundError:
        raise RunError(f"no run in this folder: it has no {MANIFEST}; name a run's folder or id", file=folder) from None
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror or error}", file=path) from None
    try:
        return Manifest.from_json(data, kept=True)
    except ValueError as error:
        if later_format(data):
            raise RunError("written by another version of the format; upgrade judge-eval", file=path) from None
        first = data_error(error) if isinstance(error, ValidationError) else error
        raise RunError(f"not a run's manifest: {first}", file=path) from None


def scale_of(run: Run) -> Scale:
    """Return the scale a run was judged on; raises `DataError` if its manifest holds none that can be read."""
    scale = run.manifest.judge.get("scale")
    try:
        return Scale.parse(scale) if scale is not None else BINARY
    except DataError as error:
        raise error.at(file=str((run.folder or Path()) / MANIFEST), field="judge.scale") from None
