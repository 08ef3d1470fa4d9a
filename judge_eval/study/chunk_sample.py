"""Choosing single chunks of a run for people to label."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judge_eval.errors import DataError
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.stats._arrays import Floats
from judge_eval.stats.sampling import unequal_sample
from judge_eval.study.chunk_means import expected_metric, uses_chunks
from judge_eval.study.sample import Chosen, mixed_shares

GUESSES = {True: 0.75, False: 0.1, None: 0.4}
"""How likely a chunk is taken to be relevant by its verdict before there is a label; None: it has none."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkWorth:
    """The chunks of a run that can be labelled, and what the label of each is expected to tell."""

    results: Sequence[TraceResult]
    spots: Sequence[tuple[int, str]]
    """The place of each one's trace, and its id."""
    worth: Floats


def choose_chunks(
    run: Run, size: int, *, metric: str | None = None, seed: int = 0, worth: ChunkWorth | None = None
) -> list[Chosen]:
    """Choose single chunks at random, for labels that a correction may rest on; equal seeds choose equally.

    Without a metric every chunk has the same chance. With one (AP or RR), four fifths of the chances go by
    how far the label can move the metric of its trace times sqrt(q (1 - q)), q a guess by the verdict: what
    such labels tell of the mean is most. The chances are stated and exact either way. Chunks are drawn down
    to the deepest rank that a metric reads which single labels help; chunks with failed verdicts too. Returns
    the traces with a chosen chunk in a random order, in which one may stop, each with the chances of its chosen chunks.
    `worth` is that of the chunks (`chunk_worth`), where it is known.
    """
    made = worth or chunk_worth(run, metric)
    if not 0 < size <= len(made.spots):
        raise DataError(f"{size} chunks were requested; {len(made.spots)} chunks of this run can be labelled")
    sample = unequal_sample(mixed_shares(made.worth).tolist(), size, seed=seed)
    chosen: dict[int, dict[str, float]] = {}
    for spot in sample.chosen:
        place, chunk = made.spots[spot]
        chosen.setdefault(place, {})[chunk] = sample.probabilities[spot]
    places = np.random.default_rng(seed).permutation(list(chosen)).tolist()
    return [Chosen(made.results[place], 1.0, chosen[place]) for place in places]


def chunk_worth(run: Run, metric: str | None = None) -> ChunkWorth:
    """Collect the chunks of a run that can be labelled, with what a metric (None: none) expects of their labels."""
    if metric is not None and expected_metric(parse_metric(metric)) is None:
        raise DataError(f"{metric}: a choice of chunks can be directed at AP or RR; leave the metric out")
    names = [metric] if metric else [name for name in run.manifest.metrics if uses_chunks(name)]
    cutoffs = [parse_metric(name).cutoff for name in names]
    depth = max((c for c in cutoffs if c is not None), default=None) if None not in cutoffs else None
    results = run.results
    spots, worth = [], []
    known: dict[tuple[bool | None, ...], Floats] = {}  # by the verdicts of a trace
    for place, result in enumerate(results):
        outcomes = result.outcomes[:depth]
        verdicts = tuple(o.relevant if o.kind == "verdict" else None for o in outcomes)
        if verdicts not in known:
            known[verdicts] = _moved(metric, verdicts) if metric and outcomes else np.ones(len(outcomes))
        for outcome, value in zip(outcomes, known[verdicts].tolist(), strict=True):
            spots.append((place, outcome.chunk_id))
            worth.append(value)
    return ChunkWorth(results, spots, np.array(worth))


def _moved(metric: str, verdicts: Sequence[bool | None]) -> Floats:
    """Return how far the label of each chunk is expected to move the metric of its trace, shape (K,)."""
    expecting = expected_metric(parse_metric(metric))
    assert expecting is not None
    guess, count = np.array([GUESSES[verdict] for verdict in verdicts]), len(verdicts)
    lists = np.tile(guess, (2, count, 1))
    for side in (0, 1):
        lists[side, np.arange(count), np.arange(count)] = side
    offsets = np.arange(2 * count + 1, dtype=np.int64) * count
    table = GradeTable(np.zeros(lists.size, dtype=np.int8), offsets, maximum=1, probable=lists.ravel())
    ends = expecting.compute(table).reshape(2, count)
    result: Floats = np.abs(ends[1] - ends[0]) * np.sqrt(guess * (1 - guess))
    return result
