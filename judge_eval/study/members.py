"""How far the members of a panel, or the samples of a repeated judge, agree."""

from itertools import combinations

import numpy as np

from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.record import Record
from judge_eval.registry import parts_of, stages_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import main_metric
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.stats import alpha_interval, cohen_kappa, mean_interval
from judge_eval.stats.figure import Figure


class MemberFigures(Record):
    """One member."""

    name: str
    n: int
    """Chunks it gave a verdict on."""
    failed: int
    """Chunks it gave none on."""
    relevant: float | None
    """The share it calls relevant."""
    dissents: int
    """Chunks on whose relevance the panel decided against it."""


class MemberAgreement(Record):
    """How far the members agree."""

    members: tuple[MemberFigures, ...]
    chunks: int
    """Chunks with two verdicts or more."""
    flips: Figure
    """The share of those on whose relevance the members do not all agree; resampled by trace (CR1 t)."""
    unequal: Figure
    """The share of those on which the grades are not all equal."""
    alpha: Figure
    """Krippendorff's ordinal alpha of all members."""
    kappas: dict[str, float | None]
    """Cohen's kappa of each two members, over the chunks both graded, by `first / second`."""


class VarianceSplit(Record):
    """Where the uncertainty of a mean comes from, if each trace is judged by one sample."""

    metric: str
    traces: int
    """Traces with a value in every sample."""
    samples: int
    by_traces: float
    """The share of the mean's variance that is between traces, 0 to 1: more traces lower it."""
    by_judge: float
    """That is between samples, the same in all traces: only more samples lower it."""
    residual: float
    """The rest: both lower it."""


def variance_split(run: Run, metric: str | None = None) -> VarianceSplit | None:
    """Split the variance of a mean by a two-way analysis of variance without replication (Fisher 1925).

    Args:
        run: A run whose judge was asked several times about each chunk.
        metric: One of its metrics over grades; None takes the one that is shown first.

    Returns:
        The shares; None if the judge is no repeated one, the metric needs more than grades, nothing varies, or there
        are fewer than two traces with a value in every sample.
    """
    if not _is_repeated(run):
        return None
    name = metric or main_metric(run.manifest.metrics)
    parsed = None if name is None else parse_metric(name)
    if (
        parsed is None
        or parsed.spec.claims
        or parsed.spec.evidence
        or parsed.spec.probabilities
        or parsed.needs_total
        or ("dedup", "text") in parsed.params
    ):
        return None
    scale, names, rows = scale_of(run), list[str](), list[list[int | None]]()
    for result in run.results:
        names = names or list(result.votes)
        if result.votes:
            rows += [list(result.votes[each]) for each in names]
    if len(names) < 2 or not rows:
        return None
    table = GradeTable.on_scale(rows, scale.grades, scale.relevant, repeats=[[False] * len(row) for row in rows])
    values = parsed.compute(table).reshape(-1, len(names))
    values = values[~np.isnan(values).any(axis=1)]
    n, k = values.shape
    if n < 2:
        return None
    mean, by_trace, by_sample = values.mean(), values.mean(axis=1), values.mean(axis=0)
    rest = values - by_trace[:, None] - by_sample + mean
    residual = float((rest**2).sum()) / ((n - 1) * (k - 1))
    between = max(0.0, (k * float(((by_trace - mean) ** 2).sum()) / (n - 1) - residual) / k)
    judge = max(0.0, (n * float(((by_sample - mean) ** 2).sum()) / (k - 1) - residual) / n)
    total = between / n + judge + residual / n
    if not total:
        return None
    return VarianceSplit(
        metric=str(parsed), traces=n, samples=k,
        by_traces=between / n / total, by_judge=judge / total, residual=residual / n / total,
    )  # fmt: skip


def _is_repeated(run: Run) -> bool:
    """Tell whether the members of a panel are samples of one judge."""
    judges = [{**part, "name": None, "sample": None} for part in parts_of(run.manifest.judge)]
    return bool(judges) and all(judge == judges[0] for judge in judges)


def member_agreement(run: Run) -> MemberAgreement | None:
    """Measure how far the members agree; None where the run has no votes, or those of a cascade."""
    # The judges of a cascade meet only where the first was not sure, which tells nothing of the rest. Blank
    # chunks, which no judge is asked about, are left out.
    if stages_of(run.manifest.judge):
        return None
    threshold = scale_of(run).relevant
    names: list[str] = []
    columns: list[list[int | None]] = []
    traces: list[str] = []
    decided: list[bool | None] = []
    for result in run.results:
        if not result.votes:
            continue
        if not names:
            names = list(result.votes)
            columns = [[] for _ in names]
        for place, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True)):
            if chunk.is_blank:
                continue
            traces.append(result.trace_id)
            decided.append(outcome.relevant if outcome.kind == "verdict" else None)
            for column, name in zip(columns, names, strict=True):
                column.append(result.votes[name][place])
    if not traces:
        return None
    grades = np.array(columns, dtype=np.float64)
    there = ~np.isnan(grades)
    several = there.sum(axis=0) >= 2
    some = grades[:, several]
    relevant = np.where(np.isnan(some), np.nan, some >= threshold)
    where = [trace for trace, kept in zip(traces, several.tolist(), strict=True) if kept]
    flips = (np.nanmax(relevant, axis=0) != np.nanmin(relevant, axis=0)) if where else np.array([])
    unequal = (np.nanmax(some, axis=0) != np.nanmin(some, axis=0)) if where else np.array([])
    panel = np.array(decided, dtype=np.float64)
    members = []
    for name, row, own in zip(names, grades, there, strict=True):
        both = own & ~np.isnan(panel)
        members.append(
            MemberFigures(
                name=name,
                n=int(own.sum()),
                failed=int((~own).sum()),
                relevant=float((row[own] >= threshold).mean()) if own.any() else None,
                dissents=int(((row[both] >= threshold) != (panel[both] > 0)).sum()),
            )
        )
    kappas = {}
    for i, j in combinations(range(len(names)), 2):
        both = there[i] & there[j]
        pair = cohen_kappa(grades[i][both], grades[j][both]) if both.any() else None
        kappas[f"{names[i]} / {names[j]}"] = pair
    return MemberAgreement(
        members=tuple(members),
        chunks=len(where),
        flips=mean_interval(flips.astype(float), clusters=where, limits=(0.0, 1.0)),
        unequal=mean_interval(unequal.astype(float), clusters=where, limits=(0.0, 1.0)),
        alpha=alpha_interval(grades, traces, "ordinal", replicates=1000),
        kappas=kappas,
    )
