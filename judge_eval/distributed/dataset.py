"""Judging a Ray dataset: rows that are traces in, rows that are results out."""

from __future__ import annotations

import json
from typing import Any

from judge_eval.distributed.cluster import load_ray
from judge_eval.distributed.worker import Worker, share_of
from judge_eval.engine import Item
from judge_eval.evaluator import Evaluator
from judge_eval.runs.judging.outcomes import results_of
from judge_eval.schema import Trace


def judge_dataset(dataset: Any, evaluator: Evaluator, *, workers: int = 2, batch_size: int = 64) -> Any:
    """Judge every row of a Ray dataset.

    Nothing is judged before the result is consumed. With a cache that the workers share, a block that Ray
    runs again (its node died) pays only for what was in flight.

    Args:
        dataset: A `ray.data.Dataset` whose columns are the fields of a `Trace` (`query`, `reference`,
            `chunks`, ...), and `position` where the rows have an order to keep; other columns are ignored.
        evaluator: How to judge; its limits are divided among the workers.
        workers: How many actors judge.
        batch_size: How many traces are judged at once by each.

    Returns:
        A `ray.data.Dataset` with the columns `position`, `trace_id`, `failed` (chunks without a verdict),
        one for each metric (null where failed verdicts leave none), and `result`: the line that a run's
        `results.jsonl` would hold.

    Raises:
        ConfigError: Ray is not installed, or an option cannot be divided among workers.
    """
    ray = load_ray()
    share_of(evaluator.options, workers)
    return dataset.map_batches(
        _Judging,
        fn_constructor_args=(evaluator, workers),
        batch_size=batch_size,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=workers),
    )


class _Judging:
    """An actor of the pool."""

    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        self._worker = Worker(evaluator, workers)

    def __call__(self, batch: Any) -> Any:
        import pyarrow as pa

        evaluator = self._worker.evaluator
        items = []
        for place, row in enumerate(batch.to_pylist()):
            trace = _trace(row)
            evaluator.check(trace)
            items.append(Item(int(row.get("position") or 0) if "position" in row else place, trace, {}))
        block = self._worker.judge(items)
        if block.error is not None:
            raise block.error
        judged = sorted(block.judged, key=lambda one: one.position)
        results = results_of(judged, evaluator.scorer)
        columns = {
            "position": pa.array([one.position for one in results], pa.int64()),
            "trace_id": pa.array([one.trace_id for one in results], pa.string()),
            "failed": pa.array([one.failed for one in results], pa.int64()),
        }
        for name in evaluator.scorer.names:
            columns[name] = pa.array([one.scores[name] for one in results], pa.float64())
        columns["result"] = pa.array([one.model_dump_json() for one in results], pa.string())
        return pa.table(columns)


def _trace(row: dict[str, Any]) -> Trace:
    """Read a row: what is null is left out, since a table gives every row every column."""
    fields = {name: value for name, value in row.items() if name in Trace.model_fields and value is not None}
    chunks = fields.get("chunks")
    if isinstance(chunks, str):
        fields["chunks"] = json.loads(chunks)
    elif isinstance(chunks, list):
        fields["chunks"] = [
            {name: value for name, value in chunk.items() if value is not None}
            if isinstance(chunk, dict)
            else chunk
            for chunk in chunks
        ]
    return Trace.parse(fields)
