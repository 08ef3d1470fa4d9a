"""A run as a labelled dataset in our own JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from judge_eval.data.writing import trace_line
from judge_eval.runs.folder.run import Run


def labelled_lines(run: Run) -> Iterator[str]:
    """Yield the traces as they were read, a line each, with the verdicts beside the chunks.

    A chunk's `metadata.judge_eval` holds the outcome; its `label` stays what people said. The file can be
    judged again as it is: outcomes are never shown to a judge.
    """
    for result in run.results:
        chunks = tuple(
            chunk.model_copy(
                update={
                    "metadata": {**chunk.metadata, "judge_eval": outcome.model_dump(exclude={"chunk_id"})}
                }
            )
            for chunk, outcome in zip(result.trace.chunks, result.outcomes, strict=True)
        )
        metadata: dict[str, Any] = {
            **result.trace.metadata,
            "judge_eval": {"scores": result.scores, "run": run.id},
        }
        yield trace_line(result.trace.model_copy(update={"chunks": chunks, "metadata": metadata})).decode()
