"""Estimates of ranking metrics where only a sample of each question's pool was judged."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, Ints

Flags = npt.NDArray[np.bool_]

SURE = 3
"""The first ranks that are drawn for sure, whatever they take."""
LEFT = 14
"""How many chunks deeper ranks leave to be sampled; of a sample of less than twice as many they leave half."""
STRATUM = 4
"""How many chunks of each stratum are drawn, about."""
TILT = 8.0
"""How much more often the likeliest chunks are drawn than the least likely ones. A much steeper design makes the total
of relevant chunks noisy, and with it every ratio."""
_E = 1e-5


def drawn_surely(ranks: npt.ArrayLike, size: int, k: int) -> Flags:
    """Return which chunks are drawn for sure: those of the first `SURE` ranks, and of more if they leave enough.

    Ranks down to `k` are, one after the other, as long as they leave `LEFT` chunks or half of the sample: then P and
    DCG at K are exact, and systems keep their order by them. More would leave too few for what recall rests on.

    Args:
        ranks: The best rank of each chunk in any list, from 1.
        size: How many chunks are drawn in all.
        k: The cutoff of the metrics.
    """
    best = np.asarray(ranks)
    most = size - min(LEFT, size / 2)
    fitting = [depth for depth in range(SURE + 1, k + 1) if (best <= depth).sum() <= most]
    result: Flags = best <= max(fitting, default=SURE)
    return result


def draw_strata(likely: npt.ArrayLike, sure: npt.ArrayLike, size: int, numbers: npt.ArrayLike) -> tuple[Flags, Ints]:
    """Draw a sample of a question's pool: some chunks surely, of the others a fixed number of each stratum.

    Strata are neighbours in the order of `likely`; of each about `STRATUM` are drawn without replacement, and at
    least 2 (1 of a stratum of 1), so that all pairs have a chance too.

    Args:
        likely: How likely each chunk is to be relevant, in any unit.
        sure: Which chunks are drawn for sure.
        size: How many to draw, those included; fewer than those and 2 are drawn as these.
        numbers: A number of each chunk, independent and uniform from 0 to 1: of a stratum the least are drawn. A chunk
            that keeps its number from list to list makes their samples overlap (Ohlsson 1995).

    Returns:
        Which chunks are drawn, and the stratum of each; 0 holds those that are drawn for sure.
    """
    drawn = np.array(sure, dtype=np.bool_)
    strata = np.zeros(drawn.size, dtype=np.int64)
    order = np.argsort(-np.asarray(likely, dtype=np.float64), kind="stable")
    rest = order[~drawn[order]]
    left = min(max(2, size - int(drawn.sum())), rest.size)
    if not left:
        return drawn, strata
    count = max(1, left // STRATUM)
    rates = np.cumsum(np.linspace(TILT, 1.0, rest.size))
    codes = np.minimum((rates / rates[-1] * count * (1 - 1e-9)).astype(np.int64), count - 1)
    sizes = np.bincount(codes, minlength=count)
    order_of = np.asarray(numbers, dtype=np.float64)
    for code in range(count):  # what a small stratum does not need goes to those that follow
        take = min(max(2, round(left / (count - code))), int(sizes[code]))
        here = rest[codes == code]
        drawn[here[np.argsort(order_of[here], kind="stable")[:take]]] = True
        left -= take
    strata[rest] = codes + 1
    return drawn, strata


class Sampled(NamedTuple):
    """An estimate for one question."""

    value: float
    variance: float
    """Of the sampling alone."""


class SampledPool:
    """The pool of one question, of which a stratified sample was judged.

    Sums are weighted by 1 / (the chance to be judged), Horvitz and Thompson (1952): P@K, DCG@K and the count of
    relevant chunks are unbiased. AP, Recall and NDCG are ratios; the bias of these is reduced as by Beale (1962), and
    that of Recall goes where the sample holds at most one relevant chunk by chance.

    Args:
        grades: One of each chunk, -1 if it was not judged.
        strata: The stratum of each chunk, a number from 0; within one all have the same chance.
        relevant: The least grade that counts as relevant.
    """

    def __init__(self, grades: npt.ArrayLike, strata: npt.ArrayLike, relevant: int = 1) -> None:
        self.grades, self.strata = np.asarray(grades, dtype=np.int64), np.asarray(strata, dtype=np.int64)
        self.judged = self.grades >= 0
        self.hits = self.grades >= relevant
        self._count = int(self.strata.max(initial=-1)) + 1
        self.sizes, self.seen = self._by(np.ones(self.grades.size)), self._by(self.judged)
        rates = self.sizes / np.maximum(self.seen, 1)
        self.weights = np.where(self.judged, rates[self.strata], 0.0)
        self._pairs = rates * (self.sizes - 1) / np.maximum(self.seen - 1, 1)
        self._spread = self.sizes * (self.sizes - self.seen) / np.maximum(self.seen * (self.seen - 1), 1)

    def _by(self, values: npt.ArrayLike) -> Floats:
        sums: Floats = np.bincount(self.strata, np.asarray(values, dtype=np.float64), self._count).astype(np.float64)
        return sums

    def total(self, values: npt.ArrayLike) -> float:
        """Return the estimated sum of a value over the whole pool; values of unjudged chunks are not read."""
        return float((self.weights * values).sum())

    @property
    def relevant(self) -> float:
        """How many relevant chunks the pool holds."""
        return self.total(self.hits)

    def covariance(self, first: Floats, second: Floats) -> float:
        """Return the covariance of two estimated sums, by stratified sampling without replacement."""
        a, b = (np.where(self.judged, each, 0.0) for each in (first, second))
        inner = self._by(a * b) - self._by(a) * self._by(b) / np.maximum(self.seen, 1)
        return float((self._spread * inner).sum())

    def _ratio(self, above: float, below: float, ups: Floats, downs: Floats) -> Sampled:
        """Return a ratio of sums; `ups` and `downs` say by how much each chunk's weight moves them."""
        if below <= 0 or above <= 0:
            return Sampled(0.0, 0.0)
        plain = above / below
        shrink = 1 + self.covariance(downs, downs) / below**2
        value = plain * (1 + self.covariance(ups, downs) / (above * below)) / shrink
        move = (ups - plain * downs) / below
        return Sampled(value, self.covariance(move, move))

    def estimates(self, ranked: npt.ArrayLike, k: int) -> dict[str, Sampled]:
        """Return P, Recall, AP, DCG and NDCG of a list at K, with the variance of the sampling.

        Args:
            ranked: The list as places in the pool, best first; -1 is a chunk outside the pool, not relevant.
            k: The cutoff; `AP` is over the whole list.
        """
        places = np.asarray(ranked, dtype=np.int64)
        ranks = np.zeros(self.grades.size)
        ranks[places[places >= 0]] = np.flatnonzero(places >= 0) + 1
        top = (ranks > 0) & (ranks <= k)
        hits = self.hits.astype(np.float64)
        gains = np.where(top & self.judged, self.grades, 0) / np.log2(np.maximum(ranks, 1) + 1)
        precision, dcg = hits * top / k, np.maximum(gains, 0.0)
        ideal, steps = self._ideal(k)
        listed = places[places >= 0]
        above, ups = self._precisions(listed[self.hits[listed]], ranks)
        return {
            f"P@{k}": Sampled(self.total(precision), self.covariance(precision, precision)),
            f"Recall@{k}": self._recall(top, k),
            "AP": self._ratio(above, self.relevant, ups, hits),
            f"DCG@{k}": Sampled(self.total(dcg), self.covariance(dcg, dcg)),
            f"NDCG@{k}": self._ratio(self.total(dcg), ideal, dcg, steps),
        }

    def _recall(self, top: Flags, k: int) -> Sampled:
        """Return the share of the relevant chunks that stand in the top K.

        A sample often misses the last relevant chunk of a question with few, and the ratio is too high then. But
        1 / R = integral of t^(R - 1) over [0, 1], and with weight w the term 1 + w (t - 1) of a relevant chunk drawn by
        chance is an unbiased estimate of t to the number of those it stands for, as long as it is the only one. With r
        others that were drawn for sure, each of these counts 1 / r - w / (r (r + 1)), and the chunk itself w / (r + 1).
        It is taken where at most K chunks are relevant: with more the ratio is as good, and less noisy.
        """
        above, below = (self.hits & top).astype(np.float64), self.hits.astype(np.float64)
        ratio = self._ratio(self.total(above), self.relevant, above, below)
        by_chance = self.hits & (self.weights > 1)
        if not self.hits.any() or by_chance.sum() > 1 or self.relevant > k:
            return ratio
        sure = self.hits & ~by_chance
        r, w = int(sure.sum()), float(self.weights[by_chance].sum())
        value = int((sure & top).sum()) * (1 / r - w / (r * (r + 1))) if r else 0.0
        return Sampled(value + w * int((by_chance & top).sum()) / (r + 1), ratio.variance)

    def _precisions(self, hits: Ints, ranks: Floats) -> tuple[float, Floats]:
        """Return the sum of precisions at relevant ranks, and by how much each chunk's weight moves it."""
        # A pair within a stratum has the chance n (n - 1) / (N (N - 1)); a chunk with itself its own chance.
        at, weights, strata = ranks[hits], self.weights[hits], self.strata[hits]
        pairs = np.where(strata[:, None] == strata, self._pairs[strata], weights[:, None] * weights)
        pairs = np.where(at[:, None] > at, pairs / at[:, None], 0.0)
        ups = np.zeros(self.grades.size)
        ups[hits] = 1 / at + (pairs.sum(axis=1) + pairs.sum(axis=0)) / weights
        return float((weights / at).sum() + pairs.sum()), ups

    def _ideal(self, k: int) -> tuple[float, Floats]:
        """Return the DCG of the best list, by the estimated number of chunks that reach each grade."""
        sums, steps = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2.0, k + 2)))]), np.zeros(self.grades.size)
        ideal = 0.0
        for grade in range(1, int(self.grades.max(initial=0)) + 1):
            reach = (self.grades >= grade).astype(np.float64)
            reaching, spread = self.total(reach), self.covariance(reach, reach) ** 0.5
            # The sum is concave in a count that is only estimated, so it is too low on average; undone to second order.
            around = np.interp([reaching, reaching - spread, reaching + spread], np.arange(k + 1.0), sums)
            ideal += float(2 * around[0] - (around[1] + around[2]) / 2)
            if reaching < k:
                steps += reach / np.log2(int(reaching) + 2)
        return ideal, steps


def x_inferred_ap(pool: SampledPool, ranked: npt.ArrayLike) -> float:
    """Return xinfAP (Yilmaz, Kanoulas and Aslam 2008), as sample_eval.pl of TREC computes it."""
    places = np.asarray(ranked, dtype=np.int64)
    count = len(pool.sizes)
    above, judged, good = np.zeros(count), np.zeros(count), np.zeros(count)
    sums = np.zeros(count)
    for rank, place in enumerate(places.tolist(), 1):
        if place < 0:
            continue
        stratum = pool.strata[place]
        if pool.hits[place]:
            sums[stratum] += (1 + (above * (good + _E) / (judged + 3 * _E)).sum()) / rank
        above[stratum] += 1
        judged[stratum] += pool.judged[place]
        good[stratum] += pool.hits[place]
    relevant = pool._by(pool.hits)
    shares = relevant * pool.sizes / np.maximum(pool.seen, 1)
    return float((shares * sums / np.maximum(relevant, 1)).sum() / max(shares.sum(), 1e-300))


def inferred_ndcg(pool: SampledPool, ranked: npt.ArrayLike) -> float:
    """Return infNDCG (Yilmaz, Kanoulas and Aslam 2008) of the whole list, as sample_eval.pl of TREC computes it."""
    places = np.asarray(ranked, dtype=np.int64)
    at = np.flatnonzero(places >= 0)
    listed, count = places[at], len(pool.sizes)
    strata, grades = pool.strata[listed], np.maximum(pool.grades[listed], 0)
    pooled = np.bincount(strata, minlength=count)
    judged = np.bincount(strata, weights=pool.judged[listed], minlength=count)
    gains = np.bincount(strata, weights=grades / np.log2(at + 2.0), minlength=count)
    dcg = (pooled * gains / np.maximum(judged, 1)).sum()
    rates, levels = pool.sizes / np.maximum(pool.seen, 1), range(int(pool.grades.max(initial=0)), 0, -1)
    best = [g for g in levels for _ in range(int((pool._by(pool.grades == g) * rates).sum() + 0.5))]
    ideal = (np.array(best) / np.log2(np.arange(2.0, len(best) + 2))).sum()
    return float(dcg / ideal) if ideal else 0.0
