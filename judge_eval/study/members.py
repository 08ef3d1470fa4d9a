"""How far the members of a panel, or the samples of a repeated judge, agree."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from judge_eval.record import Record
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.figure import Figure
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.stats import alpha_interval, cohen_kappa, mean_interval


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


def member_agreement(run: Run) -> MemberAgreement | None:
    """Measure how far the members agree; None where the run has no votes, or those of a cascade."""
    # The judges of a cascade meet only where the first was not sure, which tells nothing of the rest. Blank
    # chunks, which no judge is asked about, are left out.
    if run.manifest.judge.get("mode") == "cascade":
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
        flips=Figure.of(mean_interval(flips.astype(float), clusters=where, limits=(0.0, 1.0))),
        unequal=Figure.of(mean_interval(unequal.astype(float), clusters=where, limits=(0.0, 1.0))),
        alpha=Figure.of(alpha_interval(grades, traces, "ordinal", replicates=1000)),
        kappas=kappas,
    )
