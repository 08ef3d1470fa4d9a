"""Metrics as values whose text parses back to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar, overload

import numpy as np

from judge_eval.errors import MetricError, MissingVerdictError, UnknownNameError
from judge_eval.metrics.bounds import Bounding, Bounds, bounds
from judge_eval.metrics.completing import without_repeats
from judge_eval.metrics.plugins import plugin_names, spec_of, usable
from judge_eval.metrics.spec import Spec, Value
from judge_eval.metrics.specs import DEDUP, SPECS
from judge_eval.metrics.table import GradeTable, IntValues, Values

Missing = Literal["error", "exclude", "bounds"]
T = TypeVar("T")
MAX_CUTOFF = 10**9
DECIMALS = 6
"""Of a parameter that is a share."""
ENDLESS = ("DCG", "EDCG", "Novelty")
"""These have no greatest value."""
ROUNDING = 1e-12
"""Bounds nearer than this are one value, computed in two orders."""


@dataclass(frozen=True)
class Metric:
    """A named value such as `AP@5`, `NDCG(gain=exp)@10` or `map_cut_5`.

    Args:
        name: The name without cutoff: `"AP"`, `"map_cut"`.
        cutoff: K, how many ranks count; None where the whole list does.
        params: Pairs of parameter and value; those at their default are dropped, the rest is sorted.
        family: `"rag"` (spelled `P@5`) or `"trec"` (spelled `P_5`).

    Raises:
        UnknownNameError: There is no such metric, parameter or value.
    """

    name: str
    cutoff: int | None = None
    params: tuple[tuple[str, Value], ...] = ()
    family: Literal["rag", "trec"] = "rag"
    spec: Spec = field(init=False, repr=False, compare=False)
    """What the name stands for."""

    def __post_init__(self) -> None:
        spec = spec_of(self.family, self.name)
        if spec is None:
            raise UnknownNameError("metric", self.name, [*(name for _, name in SPECS), *plugin_names()])
        object.__setattr__(self, "spec", spec)
        given = dict(self.params)
        for name, value in given.items():
            self._check(spec, name, value)
        kept = tuple(
            (parameter.name, given[parameter.name])
            for parameter in spec.parameters
            if parameter.name in given and given[parameter.name] != parameter.default
        )
        object.__setattr__(self, "params", kept)
        k = self.cutoff
        if k is not None and (isinstance(k, bool) or not 1 <= k <= MAX_CUTOFF):
            raise misnamed(str(self), f"a cutoff is a whole number of at least 1, as in {self._spelled(5)!r}")
        if spec.cutoff == "required" and k is None:
            raise misnamed(str(self), f"it needs a cutoff, as in {self._spelled(5)!r}")
        if spec.cutoff == "none" and k is not None:
            raise misnamed(f"{self.name} with a cutoff", f"it has none; write {self._spelled(None)!r}")
        if k is None and given.get("norm") == "k":
            raise misnamed(str(self), f"norm=k needs a cutoff, as in {self._spelled(5)!r}")

    def __str__(self) -> str:
        return self._spelled(self.cutoff)

    @property
    def needs_total(self) -> bool:
        """Whether it is undefined where the number of relevant chunks that exist is unknown."""
        return self.spec.needs_total or self._value("norm") in ("min", "total") or self.needs_pool

    @property
    def needs_pool(self) -> bool:
        """Whether it needs the grades of all judged chunks (on a binary scale a total tells NDCG enough)."""
        return self.spec.needs_pool or self._value("ideal") == "judged"

    @property
    def depth(self) -> int | None:
        """How many ranks can change the value; None where the whole list can.

        What was retrieved below the cutoff counts where an ideal list is made of it, and where it can be more
        than the relevant chunks that were said to exist.
        """
        whole = self._value("ideal") == "retrieved" or (self.needs_total and self.spec.reads == "relevance")
        return None if whole else self.cutoff

    @property
    def limits(self) -> tuple[float, float | None]:
        """The least and the greatest value it can take; None where there is no greatest."""
        return (0.0, None if self.name in ENDLESS else 1.0)

    @property
    def definition(self) -> str:
        """One text that names the formula with every parameter; shown to users and kept with results."""
        parts = [f"{self}: {self.spec.formula}"]
        for parameter in self.spec.parameters:
            value = self._value(parameter.name)
            if parameter.choices:
                chosen = parameter.choices[str(value)]
                parts.append(f"ideal list: {chosen}" if parameter.name == "ideal" else chosen)
            elif parameter.number == "share":
                parts.append(f"{parameter.text} = {parameter_text(value)}")
            else:
                parts.append(
                    "relevant: " + ("the scale's threshold" if value is None else f"grade >= {value}")
                )
        if self.cutoff is not None:
            parts.append(f"K = {self.cutoff}")
        elif self.spec.cutoff == "optional":
            parts.append("K = the length of the list")
        return "; ".join(parts)

    @overload
    def compute(self, table: GradeTable, missing: Literal["error", "exclude"] = "exclude") -> Values: ...

    @overload
    def compute(self, table: GradeTable, missing: Literal["bounds"]) -> tuple[Values, Values]: ...

    def compute(self, table: GradeTable, missing: Missing = "exclude") -> Values | tuple[Values, Values]:
        """Compute one value a row.

        Args:
            table: The grades.
            missing: What to do with a row in which a verdict failed, and its grade would change the value.
                `"exclude"`: its value is NaN, which stands for "no value" in memory and is never written.
                `"error"`: raise. `"bounds"`: return the least and the greatest value it can have.

        Returns:
            float64, one value a row; under `"bounds"` a pair of such arrays (`bounds` also says where they
            are exact). All are NaN where there is nothing to measure: where a reference makes no claim. The
            mean over rows counts a query without a relevant chunk as its value, 0, as trec_eval's does.

        Raises:
            MetricError: The metric is undefined for this table, for instance because no total is known.
            MissingVerdictError: Under `"error"`, with the rows named.
            ValueError: `missing` is none of the three.
        """
        if missing not in ("error", "exclude", "bounds"):
            raise ValueError(f"missing={missing!r}; it is 'error', 'exclude' or 'bounds'")
        table = self._looked_at(table)
        if not self.misses(table) and missing != "bounds":
            return self._compute(table)
        found = self._bounds(table)
        if missing == "bounds":
            return found.low, found.high
        open_ = np.flatnonzero(found.high > found.low)
        if missing == "error" and len(open_):
            gaps = int(self._gaps(table)[open_].sum())
            raise MissingVerdictError(
                f"{self}: {gaps} failed verdicts in {table.names(open_)}; judge them again, or "
                "use missing='exclude' or 'bounds'"
            )
        values = found.low
        values[open_] = np.nan
        return values

    def misses(self, table: GradeTable) -> bool:
        """Tell whether the judge failed where this metric looks: at a chunk's grade, or at a claim's cell."""
        return (
            table.claims is not None and table.claims.has_missing if self.spec.claims else table.has_missing
        )

    def bounds(self, table: GradeTable) -> Bounds:
        """Return the least and the greatest value of each row, over all grades its failed verdicts can have.

        Equal where no verdict failed, and where none that failed can change the value. Exact unless a row
        has more than 20,000 completions that differ to the metric (on a scale of four grades: from 45 failed
        verdicts on, for NDCG); then nothing lies beyond them, but they may be too wide. So it is with a
        metric of an installed package over the judge's probabilities: its range is all that is known.

        Raises:
            MetricError: The metric is undefined for this table, for instance because no total is known.
        """
        return self._bounds(self._looked_at(table))

    def _looked_at(self, table: GradeTable) -> GradeTable:
        """Return the table as the metric sees it."""
        if DEDUP not in self.spec.parameters or self._value(DEDUP.name) != "text":
            return table
        try:
            return without_repeats(table)
        except MetricError as error:
            raise MetricError(f"{self}: {error}") from None

    def _bounds(self, table: GradeTable) -> Bounds:
        if self.spec.bounds is not None:
            found = self._called(self.spec.bounds, table)
            _join(*found[:2])
            return found
        values = self._compute(table)
        found = Bounds(values, values.copy(), np.ones(len(table), dtype=np.bool_))
        rows = np.flatnonzero(self._gaps(table))
        if len(rows):
            least, most = self.limits
            limits = least, np.inf if most is None else most
            if self.spec.soft and self.spec.reads == "anything":  # grades alone do not show what it can be
                low, high, exact = (np.full(len(rows), value) for value in (*limits, False))
            else:
                below = self.depth is None or table.rest is not None
                question = Bounding(self._compute, self.spec.reads, self.cutoff, limits, below)
                low, high, exact = bounds(table, rows, question)
            _join(low, high)
            for whole, part in zip(found, (low, high, exact), strict=True):
                whole[rows] = part
        return found

    def _gaps(self, table: GradeTable) -> IntValues:
        """Count the failed verdicts that can change each row's value.

        What the judge says of any rank makes the pool, where that is the list itself and what it lacks.
        """
        if self.spec.claims and table.claims is not None:
            return table.claims.missing()
        return table.missing_within(self.depth if table.rest is None else None)

    def _compute(self, table: GradeTable) -> Values:
        return self._called(self.spec.compute, table)

    def _called(self, function: Callable[..., T], table: GradeTable) -> T:
        try:
            seen_to = {DEDUP.name} if DEDUP in self.spec.parameters else set()
            own = {name: value for name, value in self.params if name not in seen_to}
            return function(table, self.cutoff, **own)
        except MetricError as error:
            raise MetricError(f"{self}: {error}") from None

    def _value(self, name: str) -> Value | None:
        parameter = self.spec.parameter(name)
        return dict(self.params).get(name, parameter.default) if parameter else None

    def _spelled(self, cutoff: int | None) -> str:
        inside = ",".join(f"{name}={parameter_text(value)}" for name, value in self.params)
        inside = f"({inside})" if inside else ""
        if self.family == "trec":
            return f"{self.name}{'' if cutoff is None else f'_{cutoff}'}{inside}"
        return f"{self.name}{inside}{'' if cutoff is None else f'@{cutoff}'}"

    @staticmethod
    def _check(spec: Spec, name: str, value: Value) -> None:
        parameter = spec.parameter(name)
        if parameter is None:
            known = [parameter.name for parameter in spec.parameters]
            if not known:
                raise misnamed(f"{spec.name}({name}={value})", f"{spec.name} takes no parameters")
            raise UnknownNameError(f"parameter of {spec.name}", name, known)
        if parameter.choices:
            if value not in parameter.choices:
                raise UnknownNameError(f"{name} of {spec.name}", str(value), parameter.choices)
        elif parameter.number == "share":
            if isinstance(value, bool | str) or not 0 <= value <= 1 or round(value, DECIMALS) != value:
                raise misnamed(
                    f"{spec.name}({name}={value})",
                    f"{name} is a number from 0 to 1 with at most {DECIMALS} decimals, as in {name}=0.5",
                )
        elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 127:
            raise misnamed(
                f"{spec.name}({name}={value})",
                f"{name} is the least relevant grade, a whole number from 1, as in {name}=2",
            )


def parameter_text(value: Value | None) -> str:
    """Write a parameter's value as it is read: a share without an exponent or idle zeros."""
    return f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _join(low: Values, high: Values) -> None:
    """Make bounds one value where rounding alone holds them apart."""
    near = high - low <= ROUNDING * np.maximum(1.0, np.abs(high))
    high[near] = low[near]


def misnamed(text: str, why: str) -> UnknownNameError:
    """Make the error for a metric that is named nearly right, with a reason in place of near names."""
    error = UnknownNameError("metric", text, ())
    error.args = (f"no metric {text!r}; {why}",)
    return error


def metric_names() -> Mapping[str, str]:
    """List every metric: how it is written (with K for its cutoff), and its formula."""
    listing = {}
    for spec in (*SPECS.values(), *usable()):
        mark = {"optional": "@K", "required": "_K", "none": ""}[spec.cutoff]
        listing[f"{spec.name}{mark}"] = spec.formula
    return listing
