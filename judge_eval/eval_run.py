"""The run that a user holds: a run, with what else can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from judge_eval.data.reading import is_url
from judge_eval.errors import ConfigError
from judge_eval.notebook import as_html
from judge_eval.runs.folder.run import Run
from judge_eval.safe_text import value_kind

if TYPE_CHECKING:
    from judge_eval.compare.comparison import Comparison
    from judge_eval.compare.options import Gates
    from judge_eval.export.push import Pushed
    from judge_eval.metrics import Metric
    from judge_eval.pools.pool import Pool
    from judge_eval.runs.folder.records import SliceBy


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
    def load(cls, folder: str | Path) -> Self:
        """Open the run in a folder or behind a URL; its results are read on demand.

        Raises:
            RunError: There is no run in the folder, or one of a later version.
        """
        path = Path(folder)
        if is_url(folder):
            from judge_eval.runs.keeping.mirror import run_at

            path = run_at(str(folder))
        return cls.at(path)

    def compare(
        self, *others: Run, metrics: Sequence[str] | None = None, by: Sequence[SliceBy] = (), gates: Gates | None = None
    ) -> Comparison:
        """Compare this run, as the baseline, with others on their common traces.

        Args:
            others: The candidates, one or more.
            metrics: Names of metrics; those of this run if None.
            by: Also test each change by tag, language, length or source of the traces.
            gates: Limits that will be checked; the slices that they name are compared too.

        Returns:
            Paired differences with intervals and tests, and the traces that changed; a notebook shows it.

        Raises:
            ConfigError: One of the others is not a run.
            RunError: The runs have no trace in common.
        """
        from judge_eval.compare.compare import compare

        for other in others:
            if not isinstance(other, Run):
                raise ConfigError(f"compare takes runs, not {value_kind(other)}; read a run with EvalRun.load(folder)")
        return compare(self, *others, metrics=metrics, by=by, gates=gates)

    def scored_against(self, pool: Pool, metrics: Sequence[str | Metric] | None = None) -> Self:
        """Score this run against a pool of several runs, without a call.

        The traces that the pool has are scored by the pool's verdicts; a chunk that is not in the pool keeps
        its own, and enters this run's ideal lists and recalls. Each recall is one of the pool.

        Args:
            pool: What `Pool.of` made of several runs.
            metrics: Names or values of metrics; None takes `Recall`, `AP(norm=total)` and `NDCG(ideal=judged)`
                at 10 (less if all lists are shorter), `Rprec` and `bpref`.

        Raises:
            RunError: The run has no question of the pool, or was judged on another scale.
        """
        from judge_eval.pools.scoring import scored_against

        return scored_against(self, pool, metrics)

    def to_pandas(self) -> Any:
        """Return one pandas DataFrame: what was evaluated, with what came of it beside it.

        Where rows in memory were evaluated, it has their columns and their index; else, and where several rows made one
        trace, a row a trace, with `id`, `query`, `reference`, `answer`, `chunks` (their texts), `relevant_total` and
        `tags`. Then come a column a metric (missing where failed verdicts leave no value), `verdicts`, a list of the
        chunks' grades with None if there is no verdict, and `reasons`, a list of the judge's reasons, or of why there
        is no verdict. Rows that were not judged (beyond `limit`, skipped as invalid) hold nothing there, and a row that
        holds several traces stands there once for each. Columns of the input that bear these names give way.

        Raises:
            ConfigError: pandas is not installed, or cannot hold what was evaluated.
        """
        from judge_eval.export.frames import to_pandas

        return to_pandas(self, self._input)

    def to_polars(self) -> Any:
        """Return one Polars DataFrame with the columns that `to_pandas` has.

        Raises:
            ConfigError: Polars is not installed, or cannot hold what was evaluated.
        """
        from judge_eval.export.frames import to_polars

        return to_polars(self, self._input)

    def to_dataset(self) -> Any:
        """Return one `datasets.Dataset` with the columns that `to_pandas` has.

        Raises:
            ConfigError: The package `datasets` is not installed, or cannot hold what was evaluated.
        """
        from judge_eval.export.frames import to_dataset

        return to_dataset(self, self._input)

    def verdicts_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
        """Return a frame with a row a chunk, in rank order: grade, reason and evidence, or why there is none.

        Args:
            library: Which one's frame. In that of pandas, where a pandas frame was evaluated, each row has
                the index of the row that its trace is from.

        Raises:
            ConfigError: The library is not installed.
        """
        from judge_eval.export.frames import table_frame

        return table_frame(self, "verdicts", self._input, library)

    def claims_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
        """Return a frame with a row a claim and trace: whether it is covered, and what each rank says of it.

        `covered` is missing if a missing verdict could have shown the claim covered; `cover` says which it is of
        `covered`, `partly`, `missing` and `unknown`. `full_ranks`, `partial_ranks`, `conflicting_ranks` and
        `failed_ranks` are lists of ranks from 1. A run that was not judged by claims has no rows.

        Args:
            library: Which one's frame. In that of pandas, where a pandas frame was evaluated, each row has
                the index of the row that its trace is from.

        Raises:
            ConfigError: The library is not installed.
        """
        from judge_eval.export.frames import table_frame

        return table_frame(self, "claims", self._input, library)

    def to_mlflow(self, *, tracking_uri: str | None = None, experiment: str | None = None) -> str:
        """Log this run to MLflow, into the active MLflow run if there is one, and return its id.

        Args:
            tracking_uri: Where MLflow keeps its runs; what MLflow is set to where None.
            experiment: The experiment's name; what MLflow is set to where None.

        Raises:
            ConfigError: MLflow is not installed, or it refuses.
        """
        from judge_eval.export.mlflow import log_run

        return log_run(self, tracking_uri=tracking_uri, experiment=experiment)

    def push_scores(self, service: Literal["langfuse", "langsmith"]) -> Pushed:
        """Send the score of each metric and trace to the trace it came from, and return what became of them.

        The environment names the address and holds the keys: `LANGFUSE_BASE_URL`, `LANGFUSE_PUBLIC_KEY` and
        `LANGFUSE_SECRET_KEY`; `LANGSMITH_ENDPOINT` and `LANGSMITH_API_KEY`. What is sent twice is there once. A score
        that failed verdicts leave open is not sent.

        Raises:
            ConfigError: A key is missing, or the address cannot be read.
            DataError: No trace of the run names one of the service.
            FatalCallError: The service cannot be reached, or takes no score.
        """
        from judge_eval.export.formats import service_of
        from judge_eval.export.push import push_scores

        return push_scores(self, service_of(service))

    def _repr_html_(self) -> str:
        return as_html(self)
