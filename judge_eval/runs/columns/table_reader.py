"""Reading the table of a run, once: from its Parquet files if they match the results, else from these."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias
from weakref import WeakKeyDictionary

from judge_eval.runs.columns.parquet import table_from_parts
from judge_eval.runs.columns.verdict_table import Places, TableBuilder, VerdictTable, table_from
from judge_eval.runs.folder.journal import ResultsFile, read_result
from judge_eval.runs.folder.labels import Labelled, given_labels
from judge_eval.runs.folder.lines import ResultLine, decode
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run, scale_of

AnyResult: TypeAlias = TraceResult | ResultLine
_TABLES: WeakKeyDictionary[Sequence[TraceResult], dict[str, VerdictTable]] = WeakKeyDictionary()
"""The tables of results that are in use, by the key of their clusters."""


def verdict_table(
    run: Run,
    metrics: Sequence[str] | None = None,
    cluster: str | None = None,
    *,
    labels: int | None = None,
    take: Callable[[AnyResult], None] | None = None,
    parts: bool = True,
) -> VerdictTable:
    """Return the table of a run.

    Args:
        run: The run.
        metrics: Those of its metrics whose scores are wanted; None takes all.
        cluster: The key of `metadata` that groups traces; None takes the run's own.
        labels: The least label that counts as relevant, which puts the labels that were given on the run's page in
            place of those of the dataset; None takes the dataset's.
        take: Called with each result, if the table is not known and the results are read for it.
        parts: Read the Parquet files if they match; False if all results are wanted anyway.
    """
    key, results = cluster or run.manifest.intervals.cluster, run.results
    if isinstance(results, Labelled):
        later, plain = results.labels, Run(run.manifest, results.plain, run.folder)
    else:
        given = {} if labels is None or run.folder is None else given_labels(run.folder, labels, scale_of(run))
        later, plain = {name: label.label for name, label in given.items() if label.label is not None}, run
    table = _table(plain, key, take, parts)
    table = table if metrics is None else table.only(metrics)
    return table.with_labels(later) if later else table


def light_results(run: Run, places: Places | None = None) -> Iterator[AnyResult]:
    """Yield the results, or those at some places, without what only people read: in a third of the time."""
    results = run.results
    if not isinstance(results, ResultsFile) or not results.is_checked:
        yield from results if places is None else run.results_at(places)
        return
    for _, line, number in results.lines(places):
        yield _light(line, results, number)


def _light(line: bytes, results: ResultsFile, number: int) -> AnyResult:
    try:
        return decode(line)
    except ValueError:  # the strict reader says what is wrong with it
        return read_result(line, results.path, number, checked=True)


def keep_table(results: Sequence[TraceResult], cluster: str, table: VerdictTable) -> None:
    """Keep the table that was computed of results, for as long as these are in use."""
    _TABLES.setdefault(results, {})[cluster] = table


def _table(run: Run, cluster: str, take: Callable[[AnyResult], None] | None, parts: bool) -> VerdictTable:
    results, metrics = run.results, run.manifest.metrics
    known = {} if isinstance(results, list | tuple) else _TABLES.get(results, {})
    if cluster in known and (not isinstance(results, ResultsFile) or results.unchanged()):
        return known[cluster]
    if not isinstance(results, ResultsFile):
        return table_from(results, metrics, cluster)
    table = table_from_parts(run, metrics, cluster) if parts else None
    table = table or _read(results, metrics, cluster, take)
    keep_table(results, cluster, table)
    return table


def _read(
    results: ResultsFile, metrics: Sequence[str], cluster: str, take: Callable[[AnyResult], None] | None
) -> VerdictTable:
    builder = TableBuilder(metrics, cluster)
    fast = results.is_checked  # else a key that stands twice must be found

    def add(line: bytes, number: int) -> None:
        result = _light(line, results, number) if fast else read_result(line, results.path, number)
        builder.add(result)
        if take is not None:
            take(result)

    order = results.read(add)
    table = builder.done()
    return table if order is None else table.at(order)
