"""The distributions that tests and intervals need, and Fisher's exact test, to the last digits."""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from judge_eval.stats._arrays import Floats

_STANDARD = NormalDist()
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def normal_cdf(z: float) -> float:
    """Return P(Z <= z) of the standard normal distribution, accurate in both tails."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def normal_ppf(p: float) -> float:
    """Return the z with P(Z <= z) = p, 0 < p < 1."""
    _check_probability(p)
    return _STANDARD.inv_cdf(p)


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return P(X <= x) of the beta distribution: the regularised incomplete beta function, a and b > 0."""
    if not (a > 0 and b > 0):
        raise ValueError(f"beta: the shapes must be positive, got {a} and {b}")
    return _incomplete_beta(a, b, x, 1 - x)[0]


def beta_ppf(p: float, a: float, b: float) -> float:
    """Return the x with `beta_cdf(x, a, b) == p`, 0 < p < 1."""
    _check_probability(p)
    beta_cdf(0.5, a, b)

    # Bisection on the logarithms keeps the relative accuracy of values close to 0. It matches the smaller
    # tail, whose probability is known to more digits.
    def excess(x: float, y: float) -> float:
        lower, upper = _incomplete_beta(a, b, x, y)
        return lower - p if p < 0.5 else (1 - p) - upper

    if beta_cdf(0.5, a, b) < p:
        return 1 - _log_bisect(lambda y: -excess(1 - y, y))
    return _log_bisect(lambda x: excess(x, 1 - x))


def binomial_cdf(k: int, n: int, p: float) -> float:
    """Return P(X <= k) of the number of successes in n >= 0 trials, accurate in the lower tail."""
    if n < 0 or not 0 <= p <= 1:
        raise ValueError(f"binomial: n must be 0 or more and p between 0 and 1, got {n} and {p}")
    if k < 0 or k >= n:
        return 0.0 if k < 0 else 1.0
    return _incomplete_beta(n - k, k + 1, 1 - p, p)[0]


def t_sf(t: float, df: float) -> float:
    """Return P(T > t) of Student's t distribution with df > 0 degrees of freedom, accurate in the tail."""
    if not df > 0:
        raise ValueError(f"t: the degrees of freedom must be positive, got {df}")
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    outer, central = _t_split(abs(t), df)
    if t < 0:
        return 0.5 + 0.5 * central
    return 0.5 * outer if outer < 0.5 else 0.5 - 0.5 * central


@lru_cache(maxsize=1024)
def t_ppf(p: float, df: float) -> float:
    """Return the t with P(T <= t) = p, 0 < p < 1, for df > 0 degrees of freedom."""
    _check_probability(p)
    t_sf(0.0, df)
    if p == 0.5:
        return 0.0
    tail = min(p, 1 - p)
    # Near the median the tail probability hardly moves; there the central probability is matched instead.
    if tail < 0.25:
        value = root_of(lambda t: 2 * tail - _t_split(t, df)[0], 0.0, 1.0)
    else:
        value = root_of(lambda t: _t_split(t, df)[1] - 2 * abs(p - 0.5), 0.0, 1.0)
    return value if p > 0.5 else -value


def t_power(shift: float, df: float, alpha: float = 0.05) -> float:
    """Return the power of the two-sided t test, from the noncentral t distribution."""
    # P(|T| > t(1 - alpha/2)) where T = (Z + shift) / S, integrated over the distribution of S = sqrt(chi2(df) / df) by
    # Gauss-Legendre quadrature. `shift` is the true difference in units of its standard error (the noncentrality).
    critical = t_ppf(1 - alpha / 2, df)
    spread = 12 / math.sqrt(2 * df)
    low, high = max(0.0, 1 - spread), 1 + spread
    nodes, weights = legendre(300)
    s = low + (high - low) * (nodes + 1) / 2
    log_density = (df - 1) * np.log(s) - df * (s * s - 1) / 2
    # Normalised weights need no gamma function.
    density = weights * np.exp(log_density - log_density.max())
    density /= density.sum()
    above = np.array([normal_cdf(shift - critical * each) + normal_cdf(-shift - critical * each) for each in s])
    return float(min(1.0, density @ above))


@lru_cache(maxsize=2)
def legendre(points: int) -> tuple[Floats, Floats]:
    """Return the nodes in (-1, 1) and the weights of Gauss-Legendre quadrature."""
    # By Newton's method from Tricomi's approximation of the roots. NumPy's own takes the eigenvalues of a matrix, in
    # ten times as long, and leaves threads of the linear algebra library spinning.
    nodes = -np.cos(np.pi * (np.arange(1, points + 1) - 0.25) / (points + 0.5))
    for _ in range(5):  # each doubles the number of right digits
        before, value = np.ones(points), nodes
        for degree in range(2, points + 1):
            before, value = value, ((2 * degree - 1) * nodes * value - (degree - 1) * before) / degree
        slope = points * (nodes * value - before) / (nodes**2 - 1)
        nodes = nodes - value / slope
    return nodes, 2 / ((1 - nodes**2) * slope**2)


def _check_probability(p: float) -> None:
    if not 0 < p < 1:
        raise ValueError(f"a probability strictly between 0 and 1 is needed, got {p}")


def _t_split(t: float, df: float) -> tuple[float, float]:
    """Return P(|T| > t) and P(|T| <= t) for t >= 0, each with its own relative accuracy."""
    if t * t > 1e300:
        t = 1e150
    x = df / (df + t * t)
    return _incomplete_beta(df / 2, 0.5, x, t * t / (df + t * t))


def _incomplete_beta(a: float, b: float, x: float, y: float) -> tuple[float, float]:
    """Return I_x(a, b) and its complement, given x and y = 1 - x (each exact, for the sake of both tails)."""
    if x <= 0:
        return 0.0, 1.0
    if y <= 0:
        return 1.0, 0.0
    power = math.exp(_log_power(a, b, x, y))
    if x < (a + 1) / (a + b + 2):
        lower = power * _continued_fraction(a, b, x, y)
        return lower, 1 - lower
    upper = power * _continued_fraction(b, a, y, x)
    return 1 - upper, upper


def _log_power(a: float, b: float, x: float, y: float) -> float:
    """Return ln(x^a y^b / B(a, b)); Stirling's series subtracts its large terms before they are rounded."""
    if a < b:
        a, b, x, y = b, a, y, x
    if a < 10:
        return a * math.log(x) + b * math.log(y) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    shift = x * b - a * y
    head = a * _log_ratio(shift / a, x * (a + b) / a)
    rest = _stirling(a + b) - _stirling(a)
    if b < 10:
        rest += b * math.log(y * (a + b)) - b - math.lgamma(b)
        return head + rest - 0.5 * math.log1p(b / a)
    tail = b * _log_ratio(-shift / b, y * (a + b) / b)
    return head + tail + rest - _stirling(b) + 0.5 * (math.log(b / (2 * math.pi)) - math.log1p(b / a))


def _log_ratio(excess: float, ratio: float) -> float:
    return math.log1p(excess) if abs(excess) < 0.5 else math.log(ratio)


def _stirling(z: float) -> float:
    """Return what Stirling's formula leaves out of ln Gamma(z), for z >= 10."""
    return sum(c / z ** (2 * k + 1) for k, c in enumerate(_STIRLING))


def _continued_fraction(a: float, b: float, x: float, y: float) -> float:
    """Evaluate the continued fraction of Didonato and Morris (1992) for I_x(a, b), by Lentz's algorithm."""

    # It takes y = 1 - x beside x, so that no digit of a small y is lost.
    def partial(m: int) -> float:
        outer = (a + m) * (a * y - b * x + 1 + m * (2 - x)) / (a + 2 * m + 1)
        return m + m * (b - m) * x / (a + 2 * m - 1) + outer if m else outer

    tiny = 1e-300
    value = partial(0) or tiny
    c, d = value, 0.0
    for m in range(1, 100_000):
        over = (a + m - 1) * (a + b + m - 1) * m * (b - m) * x * x / (a + 2 * m - 1) ** 2
        under = partial(m)
        d = 1 / ((under + over * d) or tiny)
        c = (under + over / c) or tiny
        value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return 1 / value


def root_of(rising: Callable[[float], float], low: float, high: float) -> float:
    """Find where a rising function crosses 0, to the last bit; `high` is doubled until it lies beyond."""
    while rising(high) < 0 and high < 1e150:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _log_bisect(rising: Callable[[float], float]) -> float:
    """Find where a rising function of (0, 1) crosses 0, to the last bits of the logarithm."""
    log_x = root_of(lambda u: rising(math.exp(u - 700.0)), 0.0, 700.0)
    return math.exp(log_x - 700.0)


def fisher_greater(successes: int, size: int, all_successes: int, n: int) -> float:
    """Return the one-sided p of Fisher's exact test (1935) that a group has no greater share than the rest.

    The chance that a group of this size, drawn at random among n units, has so many successes or more (hypergeometric).
    """
    rest = all_successes - successes
    if not (0 <= successes <= size and 0 <= rest <= n - size):
        raise ValueError(f"{successes} of {size} and {all_successes} of {n} are not counts of a part and all")

    def log_choose(m: int, k: int) -> float:
        return math.lgamma(m + 1) - math.lgamma(k + 1) - math.lgamma(m - k + 1)

    whole = log_choose(n, size)
    terms = (
        log_choose(all_successes, k) + log_choose(n - all_successes, size - k) - whole
        for k in range(successes, min(size, all_successes) + 1)
    )
    return min(1.0, math.fsum(map(math.exp, terms)))
