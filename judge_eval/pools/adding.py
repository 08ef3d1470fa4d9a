"""What each run of a pool adds to the others."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from judge_eval.pools.pool import Pool
from judge_eval.record import Record
from judge_eval.runs.scoring.aggregate import fill_clusters
from judge_eval.stats import Figure, Resampler
from judge_eval.stats._arrays import group_codes

MOST_SYSTEMS = 10
MOST_TAGS = 20
"""How many tags, the most frequent ones, are told apart."""


class FoundBy(Record):
    """The relevant chunks that exactly these systems have within K."""

    systems: tuple[str, ...]
    """None of them: the pool knows these chunks from elsewhere, or from below K."""
    chunks: int


class Coverage(Record):
    """How much of the pool's relevant chunks some systems have together within K."""

    systems: tuple[str, ...]
    share: Figure
    """Chunks of all questions together; the interval resamples questions."""
    gain: Figure | None = None
    """For one system: by how much all systems cover more than all others do."""
    only_questions: int = 0
    """For one system: questions to which it alone has something relevant."""


class TagCoverage(Record):
    """The coverage of questions with a tag."""

    tag: str
    relevant: int
    shares: tuple[float, ...]
    """Of each system, then of all together."""


class Added(Record):
    """What each system adds, by the first K ranks."""

    k: int
    relevant: int
    """Of the pool."""
    found_by: tuple[FoundBy, ...]
    """The most frequent first."""
    each: tuple[Coverage, ...]
    best: tuple[Coverage, ...]
    """The best pair and the best three, if there are more systems; then all."""
    tags: tuple[TagCoverage, ...] = ()


def what_each_adds(pool: Pool, k: int, *, seed: int = 0) -> Added | None:
    """Say what each system adds to the others; None for one system, or more than 10.

    Args:
        pool: The pool; only relevant chunks count.
        k: How many ranks of each list count.
        seed: Of the bootstrap over questions, or their clusters.
    """
    relevant, names = pool.relevant, [system.name for system in pool.systems]
    if not 2 <= len(names) <= MOST_SYSTEMS or not relevant.any():
        return None
    hits, rows = pool.found(k)[relevant], pool.rows[relevant]
    systems = range(len(names))
    sizes = [size for size in (2, 3) if size < len(names)]
    best = [max(combinations(systems, size), key=lambda some: int(hits[:, some].any(axis=1).sum())) for size in sizes]
    sets: list[Sequence[int]] = [[s] for s in systems]
    sets += [[other for other in systems if other != s] for s in systems]
    sets += [*best, systems]
    unions = [hits[:, list(some)].any(axis=1) for some in sets]
    covered = np.column_stack([np.ones(len(rows)), *unions]).astype(np.float64)
    draws = Resampler(_by_cluster(pool, rows, covered), seed=seed)

    def share(plus: int, minus: int | None = None) -> Figure:
        def of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
            less = 0.0 if minus is None else sums[:, minus]
            with np.errstate(invalid="ignore"):  # draws without a relevant chunk have no share, and are left out
                shares: NDArray[np.float64] = (sums[:, plus] - less) / sums[:, 0]
            return shares

        estimate = draws.estimate(of)
        ends = estimate.interval
        if ends is not None and ends.low == ends.high:  # what never varied has no interval of zero width
            estimate = Figure(estimate.value, None, estimate.n)
        return estimate

    together, m = len(sets), len(names)
    answers = np.zeros((len(pool.questions), m), dtype=np.bool_)
    np.logical_or.at(answers, rows, hits)
    alone = answers & (answers.sum(axis=1) == 1)[:, None]
    each = tuple(
        Coverage(
            systems=(names[s],),
            share=share(1 + s),
            gain=share(together, 1 + m + s),
            only_questions=int(alone[:, s].sum()),
        )
        for s in systems
    )
    tops = [
        Coverage(systems=tuple(names[s] for s in some), share=share(1 + 2 * m + place))
        for place, some in enumerate([*best, systems])
    ]
    patterns = Counter(map(tuple, hits.tolist()))
    return Added(
        k=k,
        relevant=len(rows),
        found_by=tuple(
            FoundBy(systems=tuple(n for n, has in zip(names, pattern, strict=True) if has), chunks=count)
            for pattern, count in patterns.most_common()
        ),
        each=each,
        best=tuple(tops),
        tags=tuple(_by_tag(pool, rows, hits)),
    )


def _by_cluster(pool: Pool, rows: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum rows of values by question, or by cluster where questions share one."""
    codes, groups = group_codes(fill_clusters(pool.clusters), len(pool.questions))
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, codes[rows], values)
    return sums


def _by_tag(pool: Pool, rows: NDArray[np.int64], has: NDArray[np.bool_]) -> list[TagCoverage]:
    often = Counter(tag for tags in pool.tags for tag in set(tags))
    out = []
    for tag, _ in often.most_common(MOST_TAGS):
        here = has[np.array([tag in tags for tags in pool.tags])[rows]]
        if len(here):
            shares = [*here.mean(axis=0).tolist(), float(here.any(axis=1).mean())]
            out.append(TagCoverage(tag=tag, relevant=len(here), shares=tuple(shares)))
    return sorted(out, key=lambda each: each.tag)
