"""A run that judged a sample of its chunks: with which chance each was drawn."""

from collections import Counter

from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run

STRATUM = "pool_stratum"
"""The key of a chunk's metadata with the stratum that it was drawn from; 0 holds those drawn for sure."""


def is_sampled(run: Run) -> bool:
    """Tell whether a run judged a sample of its chunks."""
    return "pool_sample" in run.manifest.judge


def strata_of(result: TraceResult) -> list[int]:
    """Return the stratum of each chunk."""
    codes = [chunk.metadata.get(STRATUM) for chunk in result.trace.chunks]
    return [code if isinstance(code, int) else 0 for code in codes]


def drawn_weights(result: TraceResult) -> list[float]:
    """Return one over each chunk's chance to be drawn; 0 of a chunk that was not."""
    strata = strata_of(result)
    drawn = [outcome.kind == "verdict" or outcome.why != "unsampled" for outcome in result.outcomes]
    sizes, taken = Counter(strata), Counter(code for code, taken in zip(strata, drawn, strict=True) if taken)
    return [sizes[code] / taken[code] if there else 0.0 for code, there in zip(strata, drawn, strict=True)]
