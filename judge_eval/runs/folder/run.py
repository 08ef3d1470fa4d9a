"""A run in hand: its manifest, its results, its means."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from judge_eval.data.remote import is_url
from judge_eval.errors import RunError, UnknownNameError
from judge_eval.runs.folder.journal import MANIFEST, RESULTS, read_result, whole_lines
from judge_eval.runs.folder.records import FORMAT, Aggregate, Manifest, Status, TraceResult
from judge_eval.schema import NoVerdict

if TYPE_CHECKING:
    from judge_eval.comparison.record import Comparison
    from judge_eval.export.tables import Frames


class ResultsFile(Sequence[TraceResult]):
    """The results in a run's folder, read one by one as they are asked for.

    Args:
        path: The `results.jsonl`; a torn last line is passed over, and of two lines about one trace the
            later counts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: NDArray[np.int64] | None = None

    @property
    def places(self) -> NDArray[np.int64]:
        """Offset and line number of each result in order, shape (n, 2): 16 bytes a trace."""
        return self._index()

    @places.setter
    def places(self, known: NDArray[np.int64]) -> None:
        self._entries = known

    def _index(self) -> NDArray[np.int64]:
        if self._entries is None:
            offsets, positions = array("q"), array("q")
            for number, (offset, line) in enumerate(whole_lines(self.path), 1):
                offsets.append(offset)
                positions.append(_position(line, self.path, number))
            where = np.array(positions, dtype=np.int64)
            entries = np.column_stack([np.array(offsets, dtype=np.int64), np.arange(1, where.size + 1)])
            if (np.diff(where) <= 0).any():
                order = np.argsort(where, kind="stable")
                last = np.append(np.diff(where[order]) > 0, True)
                entries = entries[order[last]]
            self._entries = entries
        return self._entries

    def __len__(self) -> int:
        return len(self._index())

    @overload
    def __getitem__(self, index: int) -> TraceResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[TraceResult]: ...
    def __getitem__(self, index: int | slice) -> TraceResult | list[TraceResult]:
        entries = self._index()[index]
        if entries.ndim == 1:
            return next(self._read(entries[np.newaxis]))
        return list(self._read(entries))

    def __iter__(self) -> Iterator[TraceResult]:
        return self._read(self._index())

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield position and bytes of every result's line, in order, without reading what is in it."""
        for number, line in self._lines(self._index()):
            yield _position(line, self.path, number), line

    def _read(self, entries: NDArray[np.int64]) -> Iterator[TraceResult]:
        for number, line in self._lines(entries):
            yield read_result(line, self.path, number)

    def _lines(self, entries: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
        with self.path.open("rb") as file:
            at = 0
            for start in range(0, len(entries), 4096):
                for offset, number in entries[start : start + 4096].tolist():
                    if offset != at:  # seeking throws away what was read ahead
                        file.seek(offset)
                    line = file.readline()
                    at = offset + len(line)
                    yield number, line


def _position(line: bytes, path: Path, number: int) -> int:
    """Read the position off the start of a line, without reading all of it."""
    head = line[:60]
    start = head.find(b'"position":')
    digits = head[start + 11 :].split(b",", 1)[0].strip() if start >= 0 else b""
    return int(digits) if digits.isdigit() else read_result(line, path, number).position


class EvalRun:
    """A run: everything that was judged, how, and what came of it.

    `run["AP@5"]` is the mean of a metric; `run.results` holds the traces in the dataset's order, each with
    its outcomes, reasons and scores.

    Args:
        manifest: Everything but the results.
        results: One for each trace, in the dataset's order.
        folder: Where it is kept; None for a run in memory.
    """

    def __init__(
        self, manifest: Manifest, results: Sequence[TraceResult], folder: Path | None = None
    ) -> None:
        self.manifest, self.results, self.folder = manifest, results, folder

    @classmethod
    def load(cls, folder: str | Path) -> EvalRun:
        """Open the run in a folder, or behind a URL; its results are read as they are asked for.

        Raises:
            RunError: There is no run in the folder, or one of a later version.
        """
        path = Path(folder)
        if is_url(folder):
            from judge_eval.runs.keeping.mirroring import run_at

            path = run_at(str(folder))
        return cls(load_manifest(path), ResultsFile(path / RESULTS), path)

    def __getitem__(self, metric: str) -> float | None:
        """Return a metric's mean over the traces that have a value; None where none has.

        Raises:
            UnknownNameError: The run has no such metric; `rescore` computes others.
        """
        return self.aggregate(metric).mean

    def aggregate(self, metric: str) -> Aggregate:
        """Return a metric's mean with its interval, counts and bounds.

        Raises:
            UnknownNameError: The run has no such metric.
        """
        found = self.manifest.aggregates.get(metric)
        if found is None:
            from judge_eval.metrics import parse_metric

            found = self.manifest.aggregates.get(str(parse_metric(metric)))
        if found is None:
            raise UnknownNameError("metric in this run", metric, self.manifest.aggregates)
        return found

    @property
    def id(self) -> str:
        """The run's UUID."""
        return self.manifest.id

    @property
    def label(self) -> str | None:
        """What people call it."""
        return self.manifest.label

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

    def compare(self, *others: EvalRun, metrics: Sequence[str] | None = None, seed: int = 0) -> Comparison:
        """Compare this run, as the baseline, with others on the traces they have in common.

        Args:
            others: The candidates, one or more.
            metrics: Names of metrics; those of this run where None.
            seed: Of the randomisation tests.

        Returns:
            Paired differences with intervals and tests, and the traces that changed; a notebook shows it.

        Raises:
            RunError: There is no trace in common.
        """
        from judge_eval.comparison.compare import compare

        return compare(self, *others, metrics=metrics, seed=seed)

    def failures(self) -> Iterator[tuple[str, NoVerdict]]:
        """Yield every chunk without a verdict, with the id of its trace."""
        for result in self.results:
            for outcome in result.outcomes:
                if outcome.kind == "no_verdict":
                    yield result.trace_id, outcome

    def to_pandas(self) -> Frames:
        """Return two pandas frames: `traces`, one row each, and `verdicts`, one row a chunk.

        Raises:
            ConfigError: pandas is not installed.
        """
        from judge_eval.export.tables import to_pandas

        return to_pandas(self)

    def to_polars(self) -> Frames:
        """Return two Polars frames: `traces`, one row each, and `verdicts`, one row a chunk.

        Raises:
            ConfigError: Polars is not installed.
        """
        from judge_eval.export.tables import to_polars

        return to_polars(self)

    def to_mlflow(self, *, tracking_uri: str | None = None, experiment: str | None = None) -> str:
        """Log this run to MLflow, into the active MLflow run where there is one, and return its id.

        Args:
            tracking_uri: Where MLflow keeps its runs; what MLflow is set to where None.
            experiment: The experiment's name; what MLflow is set to where None.

        Raises:
            ConfigError: MLflow is not installed, or it refuses.
        """
        from judge_eval.export.mlflow import log_run

        return log_run(self, tracking_uri=tracking_uri, experiment=experiment)

    def __repr__(self) -> str:
        means = ", ".join(
            f"{name}={'none' if a.mean is None else format(a.mean, '.4f')}"
            for name, a in self.aggregates.items()
        )
        name = self.label or self.id[:8]
        return f"<EvalRun {name!r} {self.status}: {self.manifest.tally.traces} traces, {means}>"

    def _repr_html_(self) -> str:
        from judge_eval.pages.fragment import run_html

        return run_html(self)


def load_manifest(folder: Path) -> Manifest:
    """Read a run's manifest.

    Raises:
        RunError: There is none, it is damaged, or a later version wrote it.
    """
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise RunError(f"no run in {folder}: it has no {MANIFEST}; name a run's folder or id") from None
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        if b'"v": ' in (data := path.read_bytes()) and not data.lstrip().startswith(
            b'{\n  "v": %d,' % FORMAT
        ):
            raise RunError(f"{path}: written by another version of the format; upgrade judge-eval") from None
        raise RunError(f"{path}: not a run's manifest: {str(error).splitlines()[0]}") from None
