"""Whether two runs cut the same documents into other chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import OtherCutsError
from judge_eval.metrics.words import WordNumbers, grams, word_numbers
from judge_eval.quotes import SHORTEST
from judge_eval.runs.columns.verdict_table import AnyResult, Places, VerdictTable, light_results, verdict_table
from judge_eval.runs.folder.lines import text_read
from judge_eval.runs.folder.run import Run

MOST_SHARE: Final = 0.1
"""A greater share of recut chunks says that the documents were cut differently."""
FEWEST_SHARED: Final = 10
"""With fewer chunks whose text both runs retrieved, only lengths can tell."""
APART: Final = 2.0
"""By such a factor the median lengths differ at least where only they tell."""
MOST_READ: Final = 500
"""Of more common traces so many, at equal distances, are read."""
FIRST_READ: Final = 50
"""So many of these, at equal distances, are read first."""
FEWEST_CLEAR: Final = 500
"""With so many of their chunks that share text, a small share of recut ones is clear."""
CLEAR_SHARE: Final = 0.01
"""Such a share, a tenth of the one that says that the cuts differ."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """How much of the text that two runs both retrieved lies in the same chunks."""

    same: int
    """Chunks whose words are those of a chunk of the other list."""
    recut: int
    """Other chunks of which half of the runs of 8 words, or more, stand in chunks of the other list."""
    median_words: tuple[float, float]
    """Of the chunks of each run that were read; 0 where no chunk had to be."""
    sampled: bool
    """Whether only some of the common traces were read."""

    @property
    def share(self) -> float | None:
        """Which share of the chunks with shared text is cut otherwise; None without any."""
        return self.recut / (self.same + self.recut) if self.same + self.recut else None

    @property
    def differ(self) -> bool:
        """Whether the documents were cut differently."""
        return self.same + self.recut >= FEWEST_SHARED and self.recut > MOST_SHARE * (self.same + self.recut)

    @property
    def perhaps(self) -> bool:
        """Whether only the lengths of chunks say so, since the runs share too little text."""
        least, greatest = sorted(self.median_words)
        return self.same + self.recut < FEWEST_SHARED and least > 0 and greatest >= APART * least


SAME_CUT: Final = Cuts(0, 0, (0.0, 0.0), sampled=False)


def cuts_between(runs: tuple[Run, Run], tables: Sequence[VerdictTable], a: Places, b: Places) -> Cuts:
    """Hold the chunks of common traces against each other.

    A chunk of title and text that stands in both lists is the same without being read, so that runs over the same
    chunks cost nothing. Of the other traces some are read first: if nearly none of their chunks is cut otherwise, as
    of two retrievers over one index, no more are. `a` and `b` are the places of the common traces in the two runs.
    """
    step = max(1, -(-len(a) // MOST_READ))
    a, b = a[::step], b[::step]
    keys = [_keys(table, places) for table, places in zip(tables, (a, b), strict=True)]
    shared = [np.isin(own, other) for own, other in (keys, keys[::-1])]
    rows = [np.repeat(np.arange(len(a)), t.sizes[p]) for t, p in zip(tables, (a, b), strict=True)]
    unlike = np.unique(np.concatenate([row[~known] for row, known in zip(rows, shared, strict=True)]))
    alike = [int(known[~np.isin(row, unlike)].sum()) for row, known in zip(rows, shared, strict=True)]
    first = np.arange(len(unlike)) % max(1, len(unlike) // FIRST_READ) == 0
    same, recut, lengths = _held(runs, a[unlike[first]], b[unlike[first]])
    left = not first.all()
    if left and not (same + recut >= FEWEST_CLEAR and recut <= CLEAR_SHARE * (same + recut)):
        more = _held(runs, a[unlike[~first]], b[unlike[~first]])
        same, recut, left = same + more[0], recut + more[1], False
        lengths = lengths[0] + more[2][0], lengths[1] + more[2][1]
    medians = [float(np.median(each)) if each else 0.0 for each in lengths]
    return Cuts(same + sum(alike), recut, (medians[0], medians[1]), step > 1 or left)


def _held(runs: tuple[Run, Run], a: Places, b: Places) -> tuple[int, int, tuple[list[int], list[int]]]:
    """Read traces and count their chunks that are the same and cut otherwise; also the words of each run's chunks."""
    same, recut, lengths = 0, 0, (list[int](), list[int]())
    sides = (light_results(runs[0], a), light_results(runs[1], b)) if a.size else ((), ())
    for pair in zip(*sides, strict=True):
        first, second = (_chunks(result) for result in pair)
        for own, other, into in ((first, second, lengths[0]), (second, first, lengths[1])):
            whole = {chunk.tobytes() for chunk in other}
            alike_here = [chunk.tobytes() in whole for chunk in own]
            same += sum(alike_here)
            into += map(len, own)
            if not all(alike_here):
                stands = _standing(own, other)
                recut += sum(half and not same_words for half, same_words in zip(stands, alike_here, strict=True))
    return same, recut, lengths


def refuse_other_cuts(runs: Sequence[Run], why: str) -> None:
    """Raise an `OtherCutsError` if a run cuts the documents of the first otherwise; `why` ends the message."""
    for other in runs[1:]:
        tables = [verdict_table(run, ()) for run in (runs[0], other)]
        _, a, b = np.intersect1d(tables[0].questions, tables[1].questions, return_indices=True)
        order = np.argsort(a)
        cuts = cuts_between((runs[0], other), tables, a[order], b[order])
        if cuts.differ:
            raise OtherCutsError(
                f"runs {runs[0].name} and {other.name} cut the same documents differently ({cuts.share:.0%} of the "
                f"text that both retrieved lies in other chunks), and {why}"
            )


def _keys(table: VerdictTable, places: Places) -> NDArray[np.uint64]:
    """Return a number for title and text of each chunk of some traces, and which of these it is of."""
    rows, chunks, _ = table.chunks_of(places)
    return table.passages[chunks] ^ (rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _chunks(result: AnyResult) -> list[WordNumbers]:
    return [words for words in word_numbers(map(text_read, result.trace.chunks)) if len(words)]


def _standing(own: Sequence[WordNumbers], other: Sequence[WordNumbers]) -> list[bool]:
    """Say of each chunk whether half of its runs of 8 words, or more, stand in a chunk of the other list."""
    (shingles, of), (there, _) = (_shingles(chunks) for chunks in (own, other))
    there = np.sort(there)
    nearest = np.minimum(np.searchsorted(there, shingles), max(0, len(there) - 1))
    stands = there[nearest] == shingles if len(there) else np.zeros(len(shingles), dtype=np.bool_)
    every, hits = np.bincount(of, minlength=len(own)), np.bincount(of[stands], minlength=len(own))
    half: list[bool] = ((every > 0) & (2 * hits >= every)).tolist()
    return half


def _shingles(chunks: Sequence[WordNumbers]) -> tuple[WordNumbers, Places]:
    """Return the runs of 8 words of some chunks as numbers, and which chunk each is of."""
    words = np.concatenate([*chunks, np.empty(0, dtype=np.uint64)])
    of = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
    made = grams(words, np.zeros(len(words), dtype=np.int64), SHORTEST)
    inside = np.flatnonzero(of[: len(made)] == of[SHORTEST - 1 :])
    return made[inside], of[inside]
