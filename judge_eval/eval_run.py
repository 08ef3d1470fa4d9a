"""The run that a user holds: a run, with what else can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from judge_eval.data.remote import is_url
from judge_eval.runs.folder.run import Run

if TYPE_CHECKING:
    from judge_eval.comparison.record import Comparison
    from judge_eval.export.tables import Frames


class EvalRun(Run):
    """A run: everything that was judged, how, and what came of it.

    `run["AP@5"]` is the mean of a metric; `run.results` holds the traces in the dataset's order, each with
    its outcomes, reasons and scores.

    Args:
        manifest: Everything but the results.
        results: One for each trace, in the dataset's order.
        folder: Where it is kept; None for a run in memory.
    """

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return a run from within as the one that users hold."""
        return cls(run.manifest, run.results, run.folder)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open the run in a folder, or behind a URL; its results are read as they are asked for.

        Raises:
            RunError: There is no run in the folder, or one of a later version.
        """
        path = Path(folder)
        if is_url(folder):
            from judge_eval.runs.keeping.mirroring import run_at

            path = run_at(str(folder))
        return cls.at(path)

    def compare(self, *others: Run, metrics: Sequence[str] | None = None, seed: int = 0) -> Comparison:
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

    def _repr_html_(self) -> str:
        from judge_eval.pages.fragment import run_html

        return run_html(self)
