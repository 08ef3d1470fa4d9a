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

    `metric` is one of the run's metrics over grades; None takes the one that is shown first. Returns None if the judge
    was not asked several times about each chunk, the metric needs more than grades, nothing varies, or there are fewer
    than two traces with a value in every sample.
    """
    samples = [{**part, "name": None, "sample": None} for part in parts_of(run.manifest.judge)]
    if not samples or any(each != samples[0] for each in samples):
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


def member_agreement(run: Run) -> MemberAgreement | None:
    """Measure how far the members agree; None where the run has no votes, or those of a cascade."""
    # The judges of a cascade meet only where the first was not sure, which tells nothing of the rest. Blank
    # chunks, which no judge is asked about, are left out.
    if stages_of(run.manifest.judge):
        return None
    threshold = scale_of(run).relevant
    names: list[str] = []
    rows = list[tuple[str, bool | None, list[int | None]]]()
    for result in run.results:
        names = names or list(result.votes)
        for place, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True)):
            if result.votes and not chunk.is_blank:
                decided = outcome.relevant if outcome.kind == "verdict" else None
                rows.append((result.trace_id, decided, [result.votes[name][place] for name in names]))
    if not rows:
        return None
    traces, panel = [trace for trace, _, _ in rows], np.array([decided for _, decided, _ in rows], dtype=np.float64)
    grades = np.array([votes for _, _, votes in rows], dtype=np.float64).T
    there = ~np.isnan(grades)
    several = there.sum(axis=0) >= 2
    some = grades[:, several]
    relevant = np.where(np.isnan(some), np.nan, some >= threshold)
    where = [trace for trace, kept in zip(traces, several.tolist(), strict=True) if kept]
    flips, unequal = (
        mean_interval(
            (np.nanmax(each, axis=0) != np.nanmin(each, axis=0)).astype(float), clusters=where, limits=(0.0, 1.0)
        )
        for each in (relevant, some)
    )
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
        flips=flips,
        unequal=unequal,
        alpha=alpha_interval(grades, traces, "ordinal", replicates=1000),
        kappas=kappas,
    )
