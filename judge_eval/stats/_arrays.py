"""Inputs made into checked NumPy arrays."""

import math
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]


def numbers(values: npt.ArrayLike, name: str) -> Floats:
    """Return a one-dimensional array of finite numbers."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name}: one dimension is needed, got shape {array.shape}")
    if not np.isfinite(array).all():
        first = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name}[{first}] is missing or not finite; leave it out and count it beside the figure")
    return array


def verdicts(values: npt.ArrayLike, name: str) -> Floats:
    """Return a one-dimensional array of zeros and ones."""
    array = numbers(values, name)
    if not np.isin(array, (0.0, 1.0)).all():
        raise ValueError(f"{name}: only 0 and 1 are verdicts here; binarise grades first")
    return array


def pair(first: npt.ArrayLike, second: npt.ArrayLike, names: tuple[str, str]) -> tuple[Floats, Floats]:
    """Return two arrays of finite numbers of equal length."""
    a, b = numbers(first, names[0]), numbers(second, names[1])
    if a.size != b.size:
        raise ValueError(f"{names[0]} has {a.size} values, {names[1]} has {b.size}; they must be paired")
    return a, b


def group_codes(ids: Iterable[Hashable] | None, n: int, name: str = "clusters") -> tuple[Ints, int]:
    """Return the group of each of n units, numbered in order of appearance, and how many groups there are."""
    # `ids` has one id a unit; None puts each unit into a group of its own. `name` is theirs in a message.
    if ids is None:
        return np.arange(n, dtype=np.int64), n
    seen: dict[Hashable, int] = {}
    codes = np.fromiter((seen.setdefault(_plain(id_), len(seen)) for id_ in ids), dtype=np.int64)
    if codes.size != n:
        raise ValueError(f"{name}: {codes.size} ids for {n} values; each value needs one")
    return codes, len(seen)


def group_sums(values: Floats, codes: Ints, groups: int) -> Floats:
    """Return the sum of the values of each group, shape (groups,)."""
    return np.bincount(codes, weights=values, minlength=groups).astype(np.float64)


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise a `ValueError` if an option is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}: {value!r} is not one of {', '.join(map(repr, choices))}")


def check_level(level: float) -> float:
    """Return a confidence level, which must be strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level: {level} is not between 0 and 1; 0.95 is usual")
    return level


def block_sizes(total: int, width: int) -> Iterator[int]:
    """Yield the number of rows of each block, so that a block has at most four million numbers."""
    step = max(1, 4_000_000 // max(1, width))
    for start in range(0, total, step):
        yield min(step, total - start)


def defined(value: float | np.floating | Floats) -> float | None:
    """Return a single number as a plain float, or None if it is NaN."""
    plain = float(value)
    return None if math.isnan(plain) else plain


def _plain(id_: Hashable) -> Hashable:
    # NaN differs from itself: each missing id would be a group of its own.
    if id_ is None or id_ != id_:
        raise ValueError("a group id is missing; give each unit without a group its own id")
    return id_
