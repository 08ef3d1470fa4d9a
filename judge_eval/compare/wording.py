"""Which part of a loss is the wording's, if one retriever searched the same questions in several wordings."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judge_eval.compare.changes import Moved, Pairing, words_metric
from judge_eval.compare.comparison import Difference, WordingAgainst, WordingSplit
from judge_eval.note import Note
from judge_eval.runs.columns.verdict_table import cluster_codes
from judge_eval.runs.folder.describing import judge_differences
from judge_eval.runs.scoring.aggregate import known_metric
from judge_eval.stats import imbens_manski

RANGE = (0.0, 1.0)
"""Of the metrics whose loss is what they lack of 1."""


def wording_splits(
    moves: Sequence[Moved], differences: Sequence[Difference]
) -> tuple[tuple[WordingSplit, ...], list[Note]]:
    """Split the baseline's loss by metric into what another wording finds and what every wording loses, with notes.

    loss = 1 - M(d) = (mean of max_v m(v, t) - M(d)) + (1 - mean of max_v m(v, t)), over the wordings v that were run,
    the baseline's d among them. Candidates with another judge, other cuts or the baseline's wordings take no part, nor
    does one whose retriever returned something else for a question that was searched in the same words.
    """
    some, notes = list[Moved](), list[Note]()
    for moved in moves:
        alike = moved.pairing.same_searches
        if alike.all() or moved.cuts.differ or judge_differences(*(run.manifest for run in moved.runs)):
            continue
        if others := int(_other_lists(moved.pairing, np.flatnonzero(alike)).sum()):
            notes.append(Note(kind="other retriever", candidate=moved.candidate, count=others))
        else:
            some.append(moved)
    return tuple(_splits(some, differences)) if some else (), notes


def _other_lists(pairing: Pairing, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which of some pairs have other chunks, or the same in another order."""
    first, second = pairing.first, pairing.second
    a, b = pairing.a[pairs], pairing.b[pairs]
    differ: NDArray[np.bool_] = first.sizes[a] != second.sizes[b]
    same = np.flatnonzero(~differ)
    rows, a_chunks, _ = first.chunks_of(a[same])
    _, b_chunks, _ = second.chunks_of(b[same])
    unlike = first.passages[a_chunks] != second.passages[b_chunks]
    differ[same] = np.bincount(rows[unlike], minlength=len(same)) > 0
    return differ


def _splits(some: Sequence[Moved], differences: Sequence[Difference]) -> Iterator[WordingSplit]:
    first = some[0].pairing.first
    for column, name in enumerate(first.metrics):
        metric = known_metric(name)
        if metric is None or words_metric(name) is not None or metric.limits != RANGE or metric.spec.less_is_better:
            continue
        # A candidate's values in the baseline's rows, NaN where it lacks the question.
        sides = [each.after.at(each.pairing.b, column).spread(each.pairing.a, len(first)) for each in some]
        deployed = some[0].before.at(np.arange(len(first)), column)
        known = ~np.any([np.isnan(side.value) for side in (deployed, *sides)], axis=0)
        rows = np.flatnonzero(known)
        if not rows.size:
            continue
        base, others = deployed.at(rows), [side.at(rows) for side in sides]
        least, best, most = (
            np.max([getattr(side, end) for side in others], axis=0) for end in ("low", "value", "high")
        )
        clusters = cluster_codes(first.clusters[rows])
        common: dict[str, Any] = {"clusters": clusters, "limits": RANGE}
        other = imbens_manski(
            np.maximum(0, least - base.high), np.maximum(0, most - base.low), np.maximum(0, best - base.value), **common
        )
        every = imbens_manski(
            1 - np.maximum(most, base.high), 1 - np.maximum(least, base.low), 1 - np.maximum(best, base.value), **common
        )
        yield WordingSplit(
            metric=name,
            mean=float(base.value.mean()),
            n=len(rows),
            clusters=other.traces if clusters is not None else None,
            other=float(other.value or 0.0),
            other_interval=other.interval,
            every=float(every.value or 0.0),
            every_interval=every.interval,
            against=tuple(
                _against(moved.candidate, base.value, each.value, differences, name)
                for moved, each in zip(some, others, strict=True)
            ),
        )


def _against(
    place: int, base: NDArray[np.float64], other: NDArray[np.float64], differences: Sequence[Difference], metric: str
) -> WordingAgainst:
    change = other - base
    printed = next((d for d in differences if (d.candidate, d.metric) == (place, metric)), None)
    return WordingAgainst(
        candidate=place,
        net=float(change.mean()),
        interval=None if printed is None or printed.n != len(base) else printed.interval,
        more=float(np.maximum(change, 0).mean()),
        less=float(np.maximum(-change, 0).mean()),
        questions_more=int((change > 0).sum()),
        questions_less=int((change < 0).sum()),
    )
