"""Metrics as values whose text parses back to them, and the registered metrics by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from judge_eval.errors import ConfigError, MetricError, MissingVerdictError, UnknownNameError
from judge_eval.lazy import modules_in
from judge_eval.metrics import families
from judge_eval.metrics.bounds import Bounding, Bounds, bounds
from judge_eval.metrics.claim_table import ClaimTable
from judge_eval.metrics.filling import expected_values, fill_chances
from judge_eval.metrics.spec import DEDUP, Parameter, Spec, Value, check_values
from judge_eval.metrics.table import GradeTable, IntValues, Values, taken, without_repeats
from judge_eval.safe_text import type_of
from judge_eval.settings import ValueLimits, ends

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Missing = Literal["error", "exclude", "bounds"]
T = TypeVar("T")
MAX_CUTOFF = 10**9
DECIMALS = 6
"""Decimals of a parameter that is a share."""
ROUNDING = 1e-12
"""Bounds that differ by less are equal."""


@dataclass(frozen=True)
class Metric:
    """A named value such as `AP@5`, `NDCG(gain=exp)@10`, `ClaimRecall@500w` or `map_cut_5`.

    Args:
        name: The name without cutoff: `"AP"`, `"map_cut"`.
        cutoff: K, how many ranks count; None where the whole list does.
        params: Pairs of parameter and value; those at their default are dropped, the rest is sorted.
        family: `"rag"` (spelled `P@5`) or `"trec"` (spelled `P_5`).
        words: B, how many words of the list count (spelled `@500w`); None where `cutoff` says what does.

    Raises:
        UnknownNameError: There is no such metric, parameter or value.
    """

    name: str
    cutoff: int | None = None
    params: tuple[tuple[str, Value], ...] = ()
    family: Literal["rag", "trec"] = "rag"
    words: int | None = None
    spec: Spec = field(init=False, repr=False, compare=False)
    """The definition behind the name."""
    values: Mapping[str, Value | None] = field(init=False, repr=False, compare=False)
    """The value of each parameter, those at their default too."""

    def __post_init__(self) -> None:
        spec = spec_of(self.family, self.name)
        if spec is None:
            raise UnknownNameError("metric", self.name, [*(name for _, name in SPECS), *plugin_names()])
        if self.words is not None:
            if spec.in_words is None or self.cutoff is not None:
                known = " and ".join(f"{each.name}@{self.words}w" for each in SPECS.values() if each.in_words)
                raise misnamed(f"{self.name}@{self.words}w", f"{known} count words")
            spec = spec.in_words
        object.__setattr__(self, "spec", spec)
        params, by_name = dict(self.params), {each.name: each for each in spec.parameters}
        for name, value in params.items():
            if not by_name:
                raise misnamed(f"{spec.name}({name}={value})", f"{spec.name} takes no parameters")
            if name not in by_name:
                raise UnknownNameError(f"parameter of {spec.name}", name, by_name)
            _check_parameter(spec.name, by_name[name], value)
        values = {each.name: params.get(each.name, each.default) for each in spec.parameters}
        kept = tuple((name, value) for name, value in values.items() if value != by_name[name].default)
        object.__setattr__(self, "params", kept)
        object.__setattr__(self, "values", values)
        k = self.cutoff if self.words is None else self.words
        if k is not None and (isinstance(k, bool) or not 1 <= k <= MAX_CUTOFF):
            raise misnamed(str(self), f"a cutoff is a whole number of at least 1, as in {self._spelled(5)!r}")
        if spec.cutoff == "required" and k is None:
            raise misnamed(str(self), f"it needs a cutoff, as in {self._spelled(5)!r}")
        if spec.cutoff == "none" and self.cutoff is not None:
            raise misnamed(f"{self.name} with a cutoff", f"it has none; write {self._spelled(None)!r}")
        if k is None and params.get("norm") == "k":
            raise misnamed(str(self), f"norm=k needs a cutoff, as in {self._spelled(5)!r}")

    def __str__(self) -> str:
        return self._spelled(self.cutoff)

    @property
    def needs_total(self) -> bool:
        """Whether it needs the number of relevant chunks that exist."""
        return self.spec.needs_total or self.values.get("norm") in ("min", "total") or self.needs_pool

    @property
    def needs_pool(self) -> bool:
        """Whether it needs the grades of all judged chunks (on a binary scale a total is enough for NDCG)."""
        return self.spec.needs_pool or self.values.get("ideal") == "judged"

    @property
    def depth(self) -> int | None:
        """How many ranks can change the value; None if the whole list can.

        Chunks below the cutoff count if an ideal list contains them, or if they can raise the number of
        relevant chunks.
        """
        total = self.needs_pool or (self.needs_total and self.spec.reads == "relevance")
        whole = self.values.get("ideal") == "retrieved" or total
        return None if whole else self.cutoff

    @property
    def limits(self) -> ValueLimits:
        """The least and the greatest value that it can have; None if there is none."""
        return self.spec.limits

    @property
    def installed(self) -> bool:
        """Whether it comes from another package; then its values are checked."""
        own = SPECS.get((self.family, self.name))
        return own is None or (self.spec is not own and self.spec is not own.in_words)

    @property
    def definition(self) -> str:
        """The formula with every parameter, as results keep it."""
        parts = [f"{self}: {self.spec.formula}"]
        for parameter in self.spec.parameters:
            value = self.values[parameter.name]
            if parameter.choices:
                chosen = parameter.choices[str(value)]
                parts.append(f"ideal list: {chosen}" if parameter.name == "ideal" else chosen)
            elif parameter.number == "share":
                parts.append(f"{parameter.text} = {parameter_text(value)}")
            else:
                least = "the scale's threshold" if value is None else f"grade >= {value}"
                parts.append(f"relevant: {least}")
        if self.words is not None:
            parts.append(f"B = {self.words} words of title and text, repeated ones counted (in Chinese, ... each sign)")
        elif self.cutoff is not None:
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
            missing: What to do with a row in which a failed verdict could change the value. `"exclude"`: its
                value is NaN. `"error"`: raise. `"bounds"`: return the least and the greatest possible value.

        Returns:
            float64, one value a row; under `"bounds"` a pair of such arrays (`bounds` also says which are
            exact). NaN if there is nothing to measure: a reference without a claim. A query without a
            relevant chunk has the value 0, as in trec_eval.

        Raises:
            MetricError: The metric is undefined for this table, for instance because no total is known.
            MissingVerdictError: Under `"error"`, with the rows named.
            ValueError: `missing` is not one of the three.
        """
        if missing not in ("error", "exclude", "bounds"):
            raise ValueError(f"missing={missing!r}; it is 'error', 'exclude' or 'bounds'")
        table = self._looked_at(table)
        if not self.misses(table) and missing != "bounds":
            return self._compute(table)
        limits = self._bounds(table)
        if missing == "bounds":
            return limits.low, limits.high
        open_ = np.flatnonzero(limits.high > limits.low)
        if missing == "error" and len(open_):
            gaps = int(self._gaps(table)[open_].sum())
            raise MissingVerdictError(
                f"{self}: {gaps} failed verdicts in {table.names(open_)}; judge them again, or "
                "use missing='exclude' or 'bounds'"
            )
        values = limits.low
        values[open_] = np.nan
        return values

    def misses(self, table: GradeTable) -> bool:
        """Return whether the judge failed on a grade, or on a claim's cell, that this metric reads."""
        if self.spec.evidence is not None:
            return True  # its bounds say, at no more cost than its values
        if self.spec.claims:
            return table.claims is not None and table.claims.has_missing
        return table.has_missing

    def bounds(self, table: GradeTable) -> Bounds:
        """Return the least and the greatest value of each row, over all grades its failed verdicts can have.

        They are equal if no failed verdict can change the value. They are exact unless a row has more than
        20,000 completions that differ to the metric (on a scale of four grades: from 45 failed verdicts on,
        for NDCG); then no value lies beyond them, but they may be too wide. The bounds of an installed metric
        over the judge's probabilities are its limits, infinite if it has none.

        Raises:
            MetricError: The metric is undefined for this table, for instance because no total is known.
        """
        return self._bounds(self._looked_at(table))

    def expected(self, table: GradeTable, counts: NDArray[np.int64]) -> Values:
        """Return the value of each row, and where failed verdicts leave it open its expected value.

        `filling.fill_chances` says how likely the failed verdicts have which grade. With more than 1,024 ways to fill
        a row it is the mean of 1,024 random ones (with a fixed seed). Each value lies within its `bounds`.

        Args:
            table: The grades.
            counts: How often each grade stands at each rank of the run, as `filling.rank_counts` returns.

        Returns:
            float64, one value a row. NaN in open rows of a metric over claims, and of an installed one over
            probabilities: for these only bounds are known.

        Raises:
            MetricError: The metric is undefined for this table.
        """
        table = self._looked_at(table)
        low, high, _ = self._bounds(table)
        open_ = np.flatnonzero(high > low)
        values = low.copy()
        if self.spec.bounds is not None or (self.spec.probabilities and self.installed):
            values[open_] = np.nan
        elif len(open_):
            part = taken(table, open_)
            values[open_] = self._filled(part, fill_chances(part, counts))
            values = np.clip(values, low, high)
        return values

    def expected_given(self, table: GradeTable, chances: Values) -> Values:
        """Return the expected value of each row if its missing grades have these chances, independent of each other.

        Args:
            table: The grades; of a metric over claims or probabilities there is no such value.
            chances: float64, shape (missing grades, grades of the scale), in the order of the table.

        Returns:
            float64, one value a row. With more than 1,024 ways to fill a row, the mean of 1,024 random ones.

        Raises:
            MetricError: The metric is undefined for this table.
        """
        return self._filled(self._looked_at(table), chances)

    def _filled(self, table: GradeTable, chances: Values) -> Values:
        two_levels = self.spec.reads == "relevance" and self.values.get("rel") in (None, table.relevant)
        return expected_values(table, self._question(table), chances, two_levels)

    def _question(self, table: GradeTable) -> Bounding:
        below = self.depth is None or table.rest is not None
        return Bounding(self._compute, self.spec.reads, self.cutoff, ends(self.limits), below)

    def _looked_at(self, table: GradeTable) -> GradeTable:
        if DEDUP not in self.spec.parameters or self.values[DEDUP.name] != "text":
            return table
        try:
            return without_repeats(table)
        except MetricError as error:
            raise MetricError(f"{self}: {error}") from None

    def _bounds(self, table: GradeTable) -> Bounds:
        if self.spec.bounds is not None:
            extremes = self._called(self.spec.bounds, table)
            if self.installed:
                for values in extremes[:2]:
                    check_values(str(self), values, table, self.limits)
            _join(*extremes[:2])
            return extremes
        values = self._called(self.spec.compute, table)
        gaps = self._gaps(table)
        if self.installed:
            values = check_values(str(self), values, table, self.limits, gaps == 0).copy()
        extremes = Bounds(values, values.copy(), np.ones(len(table), dtype=np.bool_))
        rows = np.flatnonzero(gaps)
        if len(rows):
            if self.spec.probabilities and self.installed:  # a failed verdict could have any probability
                low, high, exact = (np.full(len(rows), value) for value in (*ends(self.limits), False))
            else:
                low, high, exact = bounds(table, rows, self._question(table))
            _join(low, high)
            for whole, part in zip(extremes, (low, high, exact), strict=True):
                whole[rows] = part
        return extremes

    def _gaps(self, table: GradeTable) -> IntValues:
        if self.spec.claims and table.claims is not None:
            return table.claims.missing()
        return table.missing_within(self.depth if table.rest is None else None)

    def _compute(self, table: GradeTable) -> Values:
        values = self._called(self.spec.compute, table)
        return check_values(str(self), values, table, self.limits) if self.installed else values

    def _called(self, function: Callable[..., T], table: GradeTable) -> T:
        cutoff = self.cutoff if self.words is None else self.words
        try:
            return function(table, cutoff, **self._arguments(table.minimum))
        except MetricError as error:
            raise MetricError(f"{self}: {error}") from None
        except Exception as error:
            if not self.installed:
                raise
            raise MetricError(f"{self}: its package raised {type(error).__name__}: {error}") from error

    def _arguments(self, lowest: int) -> dict[str, Value]:
        """Return the parameters as the function takes them: grades are counted from the lowest of the scale."""
        params = dict(self.params)
        for parameter in self.spec.parameters:
            value = params.get(parameter.name)
            if parameter == DEDUP:
                params.pop(DEDUP.name, None)  # see `_looked_at`
            elif lowest and isinstance(value, int) and parameter.number == "grade":
                if value <= lowest:
                    raise MetricError(f"{parameter.name}={value} must be above the scale's lowest grade, {lowest}")
                params[parameter.name] = value - lowest
        return params

    def _spelled(self, cutoff: int | None) -> str:
        inside = ",".join(f"{name}={parameter_text(value)}" for name, value in self.params)
        inside = f"({inside})" if inside else ""
        if self.words is not None:
            return f"{self.name}{inside}@{self.words}w"
        if self.family == "trec":
            return f"{self.name}{'' if cutoff is None else f'_{cutoff}'}{inside}"
        return f"{self.name}{inside}{'' if cutoff is None else f'@{cutoff}'}"


def _check_parameter(metric: str, parameter: Parameter, value: Value) -> None:
    name = parameter.name
    spelled = f"{metric}({name}={value})"
    if parameter.choices:
        if value not in parameter.choices:
            raise UnknownNameError(f"{name} of {metric}", str(value), parameter.choices)
    elif parameter.number == "share":
        if isinstance(value, bool | str) or not 0 <= value <= 1 or round(value, DECIMALS) != value:
            raise misnamed(
                spelled, f"{name} is a number from 0 to 1 with at most {DECIMALS} decimals, as in {name}=0.5"
            )
    elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 127:
        raise misnamed(spelled, f"{name} is the least relevant grade, a whole number from 1, as in {name}=2")


def parameter_text(value: Value | None) -> str:
    """Write a parameter's value: a share without an exponent or trailing zeros."""
    return f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _join(low: Values, high: Values) -> None:
    finite = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):
        near = finite & (high - low <= ROUNDING * np.maximum(1.0, np.abs(high)))
    high[near] = low[near]


def misnamed(text: str, why: str) -> UnknownNameError:
    """Make the error for a metric's name that is not right, with the reason."""
    return UnknownNameError("metric", text, (), why)


def metric_names() -> Mapping[str, str]:
    """List every metric: how it is written (with K for its cutoff), and its formula."""
    listing = {}
    for spec in (*SPECS.values(), *usable()):
        mark = {"optional": "@K", "required": "_K", "none": ""}[spec.cutoff]
        listing[f"{spec.name}{mark}"] = spec.formula
        if spec.in_words is not None:
            listing[f"{spec.name}@Bw"] = spec.in_words.formula
    return listing


def beyond(metric: Metric, value: float) -> str | None:
    """Return why a mean of the metric cannot have a value; None if it can."""
    least, greatest = ends(metric.limits)
    if value < least:
        return f"the value must be at least {least:g}, as {metric} is"
    return f"the value must be at most {greatest:g}, as {metric} is" if value > greatest else None


def try_metric(metric: Metric, relevant: int, maximum: int) -> None:
    """Compute the metric of an installed package on a small table, before any judge is paid.

    The table holds every list of up to three chunks with the lowest, highest and threshold grades, and a few
    of twelve.

    Raises:
        MetricError: It returns something else than its `Spec` states, or raises an error.
    """
    if not metric.installed:
        return
    levels = sorted({0, relevant - 1, relevant, maximum})
    rows = [list(row) for length in range(4) for row in product(levels, repeat=length)]
    rows += [[grade] * 12 for grade in levels]
    rows += [[0] * 11 + [maximum], [maximum] + [0] * 11, [0, maximum] * 6]
    more: dict[str, Any] = {"repeats": [[False] * len(row) for row in rows]}
    if metric.spec.probabilities:
        likely = [[(grade + 1) / (maximum + 2) for grade in row] for row in rows]
        more["probable"] = likely
        more["expected"] = [[maximum * p for p in row] for row in likely]
        if maximum > 1:
            even = [1 / (maximum + 1)] * (maximum + 1)
            more["chances"] = [[even for _ in row] for row in rows]
    if metric.spec.claims:
        words = [[["full" if grade >= relevant else "none", "partial"] for grade in row] for row in rows]
        more["claims"] = ClaimTable.from_rows(words, [[True, False] for _ in rows], [[False, False] for _ in rows])
    if metric.needs_pool:
        more["rest"] = [[maximum, 0] for _ in rows]
    else:
        more["totals"] = [sum(grade >= relevant for grade in row) for row in rows]
    metric.compute(GradeTable.from_rows(rows, relevant=relevant, maximum=maximum, **more))


SHAPE = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*)\s*(?:\((?P<inside>[^()]*)\))?\s*(?:@(?P<k>.*))?"
)
TREC_CUT = re.compile(r"(?P<name>[A-Za-z_]+)_(?P<k>[0-9]+)")
WHOLE = re.compile(r"[1-9][0-9]*")
SHARE = re.compile(r"[01]?\.[0-9]+|0")


def parse_metric(text: str | Metric) -> Metric:
    """Read a metric's name; `parse_metric(str(m)) == m`.

    Upper and lower case matter, since `map` is trec_eval's and `MAP` the RAG literature's.

    Args:
        text: A metric, or a name such as `AP@5`, `NDCG(gain=exp)@10`, `HitRate@500w`, `map_cut_5`, `P_5(rel=2)`.

    Raises:
        UnknownNameError: There is no such metric, parameter or value; the message says what would be right.
    """
    if isinstance(text, Metric):
        return text
    if not isinstance(text, str):
        raise MetricError(f"a metric is a name such as 'AP@5' or a `Metric`, not {type_of(text)}")
    stripped = text.strip()
    shape = SHAPE.fullmatch(stripped)
    if shape is None:
        raise misnamed(text, "write a name, its parameters and its cutoff, as in 'AP@5' or 'NDCG(gain=exp)@10'")
    name, inside, k = shape["name"], shape["inside"], shape["k"]
    params = _parameters(stripped, inside)
    if k is None:
        cut = TREC_CUT.fullmatch(name)
        if cut and ("trec", cut["name"]) in SPECS:
            return Metric(cut["name"], _cutoff(stripped, cut["k"], f"{cut['name']}_5"), params, "trec")
    family: Literal["rag", "trec"] = "rag"
    name = ALIASES.get(name, name)
    if ("rag", name) not in SPECS:
        if k is None and ("trec", name) in SPECS:
            family = "trec"
        elif spec_of("rag", name) is None:
            raise _unknown(stripped, name, k)
    if k is not None and k.endswith("w") and WHOLE.fullmatch(k[:-1]):
        return Metric(name, None, params, family, _cutoff(stripped, k[:-1], f"{name}@500w"))
    return Metric(name, None if k is None else _cutoff(stripped, k, f"{name}@5"), params, family)


def _cutoff(text: str, digits: str, example: str) -> int:
    if not WHOLE.fullmatch(digits) or len(digits) > len(str(MAX_CUTOFF)) or int(digits) > MAX_CUTOFF:
        raise misnamed(text, f"a cutoff is a whole number of at least 1, as in {example!r}")
    return int(digits)


def _parameters(text: str, inside: str | None) -> tuple[tuple[str, Value], ...]:
    if inside is None:
        return ()
    params: dict[str, Value] = {}
    for part in inside.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise misnamed(text, "parameters are written name=value with commas between, as in 'NDCG(gain=exp)@10'")
        if name in params:
            raise misnamed(text, f"{name} is given twice")
        params[name] = int(value) if WHOLE.fullmatch(value) and len(value) < 10 else value
        if SHARE.fullmatch(value):
            params[name] = float(value)
    return tuple(params.items())


def _unknown(text: str, name: str, k: str | None) -> UnknownNameError:
    loose = re.fullmatch(r"(.*?)[_@ ]?([1-9][0-9]*)", name)
    bare, number = (loose[1], loose[2]) if k is None and loose and loose[1] else (name, k)
    if number is not None and not WHOLE.fullmatch(number):
        number = "5"
    at = "" if number is None else f"@{number}"
    spellings = []
    for (family, known), spec in SPECS.items():
        if family == "rag":
            spellings.append((known, known + at))
        elif number is None or spec.cutoff != "none":
            spellings.append((known, f"{known}_{number or 5}" if spec.cutoff == "required" else known))
    spellings += [(alias, known + at) for alias, known in ALIASES.items()]
    spellings += [(installed, installed + at) for installed in plugin_names()]
    candidates: dict[str, list[str]] = {}
    for known, spelled in spellings:
        candidates.setdefault(_fold(known), []).append(spelled)
    folded = _fold(bare)
    near = [folded] if folded in candidates else difflib.get_close_matches(folded, candidates, n=2)
    meant = list(dict.fromkeys(spelled for key in near for spelled in candidates[key]))
    if not meant:
        return UnknownNameError("metric", text, {name for group in candidates.values() for name in group})
    error = misnamed(text, "did you mean " + " or ".join(repr(spelled) for spelled in meant[:3]) + "?")
    error.known = meant
    return error


def _fold(name: str) -> str:
    return name.casefold().replace("_cut", "").replace("_", "").replace("-", "")


GROUP = "judge_eval.metrics"


SPECS: Mapping[tuple[str, str], Spec] = {
    (spec.family, spec.name): spec for family in modules_in(families) for spec in family.SPECS
}
"""By family and name; `P` is in both families, spelled `P@5` and `P_5`."""

ALIASES: Mapping[str, str] = {
    alias: name for family in modules_in(families) for alias, name in getattr(family, "ALIASES", {}).items()
}
"""Other spellings of RAG names; a metric prints its own name."""


def spec_of(family: Literal["rag", "trec"], name: str) -> Spec | None:
    """Return the `Spec` of a name, or None; no other package can change what `AP@5` means."""
    spec = SPECS.get((family, name))
    return spec if spec is not None or family == "trec" else _load(name)


def plugin_names() -> list[str]:
    """List the metrics of installed packages by name, without those whose name this package has."""
    return sorted(name for name in _points() if ("rag", name) not in SPECS)


def usable() -> list[Spec]:
    """Load the metrics of installed packages, without those that cannot be used."""
    specs = []
    for name in plugin_names():
        with suppress(ConfigError):
            specs.append(_load(name))
    return [spec for spec in specs if spec is not None]


@cache
def _points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _load(name: str) -> Spec | None:
    point = _points().get(name)
    if point is None:
        return None
    try:
        spec = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"metric {name!r} cannot be used: {error}; install what it needs") from None
    if not isinstance(spec, Spec) or (spec.family, spec.name) != ("rag", name):
        raise ConfigError(
            f"metric {name!r}: {point.value} is not a `Spec` of the family 'rag' with this name; "
            "report it to its author"
        )
    return spec
