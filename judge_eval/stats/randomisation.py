"""Randomisation tests, with the corrections that many comparisons need."""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from judge_eval.stats._arrays import Floats, block_sizes, numbers
from judge_eval.stats.distributions import normal_range_sf

_EXACT_LIMIT = 16
_LEAST_P = 1e-15
_NORMAL_FROM = 1000
"""From how many traces on, weighted by how much their values vary, the shuffled means are taken for normal."""


@dataclass(frozen=True, slots=True)
class Randomisation:
    """The outcome of a sign-flip test."""

    p: float
    """Two-sided, in (0, 1]."""
    exact: bool
    """Whether every assignment of signs was enumerated."""
    assignments: int
    """How many assignments were compared with the observed one."""

    def __str__(self) -> str:
        return f"p={self.p:.4g} ({'exact' if self.exact else 'Monte Carlo'}, {self.assignments} assignments)"


@dataclass(frozen=True, slots=True)
class PairDifference:
    """One pair of systems in a Tukey HSD test."""

    first: int
    """Column of the first system, counted from 0."""
    second: int
    difference: float
    """Mean of the second minus mean of the first."""
    p: float
    """Adjusted for all pairs, in (0, 1]."""

    def __str__(self) -> str:
        return f"{self.second} - {self.first}: {self.difference:+.4g}, p={self.p:.4g}"


def sign_flip_test(differences: npt.ArrayLike, *, permutations: int = 9999, seed: int = 0) -> Randomisation:
    """Test whether paired differences are symmetric about 0, by flipping their signs (Fisher 1935).

    All assignments of signs are enumerated where at most 16 differences are not 0 (a flipped 0 changes
    nothing, so that this is exact for the others too). Else `permutations` assignments are drawn, and
    p = (b + 1) / (m + 1) with b the draws at least as extreme (Phipson and Smyth 2010).

    Args:
        differences: One number a trace; or the sum of a cluster's differences, to flip whole clusters.
        permutations: Draws where the test is not exact, >= 1.
        seed: Seed of the draws.

    Returns:
        The outcome; p is 1 where there is no difference at all.

    Raises:
        ValueError: A difference is missing, or permutations is not positive.
    """
    d = numbers(differences, "differences")
    d = d[d != 0]
    if permutations < 1:
        raise ValueError(f"permutations: {permutations} is not positive")
    # Sums in another order differ in their last bits and must count as equal.
    bound = abs(float(d.sum())) - 1e-12 * float(np.abs(d).sum())
    if d.size <= _EXACT_LIMIT:
        sums = np.zeros(1)
        for each in d:
            sums = np.concatenate([sums + each, sums - each])
        return Randomisation(float((np.abs(sums) >= bound).mean()), True, sums.size)
    rng = np.random.default_rng(seed)
    extreme, width = 0, -(-d.size // 8)
    # A byte of random bits picks the sum of up to eight differences: a fraction of the work of single bits.
    picked = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
    table = np.pad(d, (0, 8 * width - d.size)).reshape(width, 8) @ picked.T
    sizes = block_sizes(permutations, d.size)
    blocks = (rng.integers(0, 256, size=(rows, width), dtype=np.uint8) for rows in sizes)
    while some := list(islice(blocks, 32)):
        draws = np.ascontiguousarray(np.concatenate(some).T)
        sums = np.full(draws.shape[1], -d.sum())
        for byte, drawn in zip(
            2 * table, draws, strict=True
        ):  # one row of the table at a time stays in the CPU's cache
            sums += byte.take(drawn)
        extreme += int((np.abs(sums) >= bound).sum())
    return Randomisation((extreme + 1) / (permutations + 1), False, permutations)


def exact_sign_flip(differences: npt.ArrayLike) -> float:
    """Return the exact p of the sign-flip test (Fisher 1935) of whole numbers, however many there are.

    Under every assignment of signs the sum is a sum of independent variables, each d or -d with even chances; the
    characteristic function of one is cos(dt), so the distribution of the sum is the inverse Fourier transform of their
    product. If each difference is 1 or -1, this is the exact McNemar test (Mosteller 1952). The error is below 1e-12.

    Args:
        differences: A whole number for each unit.

    Returns:
        The two-sided p, in (0, 1]; 1 if there is no difference.

    Raises:
        ValueError: A difference is not a whole number.
    """
    d = numbers(differences, "differences")
    if (d != np.round(d)).any():
        raise ValueError("differences: each must be a whole number")
    sizes, counts = np.unique(np.abs(d[d != 0]).astype(np.int64), return_counts=True)
    most = int(sizes @ counts)
    points = 1 << (2 * most).bit_length()  # a power of two, for a fast transform
    angles = 2 * np.pi * np.arange(points) / points
    waves = np.ones(points)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        waves *= np.cos(size * angles) ** count
    chances = np.fft.fft(waves).real / points
    seen = abs(int(d.sum()))
    inside = float(chances[:seen].sum() + chances[points - seen + 1 :].sum()) if seen else 0.0
    return float(np.clip(1.0 - inside, _LEAST_P, 1.0))


def tukey_hsd(values: npt.ArrayLike, *, permutations: int = 9999, seed: int = 0) -> list[PairDifference]:
    """Compare all pairs of systems by the randomised paired Tukey HSD test (Carterette 2012).

    In each draw the values of every trace are shuffled among the systems, and the range of the system means
    is taken; a pair's p is the share of draws whose range reaches the pair's difference, observed one
    included. It holds the chance of any false difference among all pairs at the level.

    With 1,000 traces or more whose values differ, the means of shuffled values are normal but for an error that is
    below that of the draws. Then p is that of the range of normals with the same variance, and nothing is drawn.

    Args:
        values: Shape (traces, systems), at least one trace and two systems, finite.
        permutations: Draws, >= 1; no p is below 1 / (permutations + 1).
        seed: Seed of the draws.

    Returns:
        The pairs (0, 1), (0, 2), ..., (1, 2), ...

    Raises:
        ValueError: The shape does not fit, or a value is missing.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < 2:
        raise ValueError(f"values: shape (traces, systems) with two systems or more is needed, got {table.shape}")
    if not np.isfinite(table).all():
        raise ValueError("values: a value is missing or not finite; keep the traces that all systems have")
    if permutations < 1:
        raise ValueError(f"permutations: {permutations} is not positive")
    means = table.mean(axis=0)
    firsts, seconds = np.triu_indices(table.shape[1], 1)
    gaps = np.abs(means[firsts] - means[seconds])
    spread = table.var(axis=1)
    if float(spread.sum()) ** 2 >= _NORMAL_FROM * float((spread**2).sum()) > 0:
        ps = _normal_ps(gaps, spread, table.shape[1], 1 / (permutations + 1))
    else:
        # Equal values can't be shuffled. Of many traces only the others are drawn.
        part = table[spread > 0] if len(table) > _NORMAL_FROM and spread.any() else table
        ps = _drawn_ps(gaps * (len(table) / len(part)), part, permutations, seed)
    return [
        PairDifference(int(i), int(j), float(means[j] - means[i]), float(p))
        for i, j, p in zip(firsts, seconds, ps, strict=True)
    ]


def _normal_ps(gaps: Floats, spread: Floats, systems: int, least: float) -> Floats:
    """Return the p of each gap between means of shuffled values; `spread` is the variance of each trace's values."""
    # Of one trace's shuffled values each has the variance s, and each two the covariance -s / (k - 1): up to what they
    # share, they are k independent values of variance s k / (k - 1), and the range does not depend on what they share.
    scale = np.sqrt(spread.sum() * systems / (systems - 1)) / spread.size
    return np.array([max(least, normal_range_sf(gap / scale, systems)) for gap in gaps.tolist()])


def _drawn_ps(gaps: Floats, table: Floats, permutations: int, seed: int) -> Floats:
    """Return the p of each gap between means of shuffled values."""
    rng = np.random.default_rng(seed)
    bounds = gaps - 1e-12 * max(1e-300, float(np.abs(table).max()))
    reached = np.zeros(gaps.size, dtype=np.int64)
    for rows in block_sizes(permutations, table.size):
        shuffled = rng.permuted(np.broadcast_to(table, (rows, *table.shape)), axis=2).mean(axis=1)
        ranges: Floats = np.ptp(shuffled, axis=1)
        reached += (ranges[:, None] >= bounds).sum(axis=0)
    ps: Floats = (reached + 1) / (permutations + 1)
    return ps


def holm(p_values: npt.ArrayLike) -> tuple[float, ...]:
    """Adjust p values for several comparisons by Holm's step-down method (1979).

    Args:
        p_values: Shape (m,), each in [0, 1].

    Returns:
        The adjusted p values in the order given; a comparison is significant where its value is <= alpha.

    Raises:
        ValueError: A p value is missing or outside [0, 1].
    """
    p = numbers(p_values, "p_values")
    if ((p < 0) | (p > 1)).any():
        raise ValueError("p_values: each must lie in [0, 1]")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return tuple(adjusted.tolist())
