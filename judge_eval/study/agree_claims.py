"""How well a judge by claims agrees with people: cells, claims covered together, recall of traces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import Field, ValidationError

from judge_eval.data.files.containers import kind_of, rows
from judge_eval.errors import DataError
from judge_eval.record import Record, data_error
from judge_eval.runs.columns.graded_trace import cluster_of
from judge_eval.runs.folder.judgedclaims import ClaimVerdict, answers_on_claims, verdict_of
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import fill_clusters
from judge_eval.schema import ClaimSupport
from judge_eval.stats import agreement_of, mean_interval
from judge_eval.stats._arrays import group_codes
from judge_eval.stats.figure import Figure
from judge_eval.stats.rank_correlation import spearman
from judge_eval.study.matching import by_unit

LEVELS: Final[Mapping[ClaimVerdict, int]] = {"none": 0, "contradicts": 0, "partial": 1, "full": 2}
"""The three levels of a cell; a chunk that contradicts a claim does not support it."""
FIGURES: Final = ("kappa", "kappa_quadratic", "kappa_ge1", "kappa_ge2", "accuracy", "precision_ge1", "recall_ge1")
"""What is measured of cells."""
OF_TOGETHER: Final = ("kappa", "accuracy", "precision_ge1", "recall_ge1")


class LabelledClaims(Record):
    """What people say of one trace's claims: a line of the file."""

    trace: str
    chunks: dict[str, tuple[ClaimSupport, ...]]
    """By chunk id: the claims that it supports or contradicts; the others are left alone."""
    together: dict[str, bool] = Field(default_factory=dict)
    """By claim: whether all chunks cover it, read as one text."""


class Recall(Record):
    """The share of each trace's claims that a chunk supports in full, by the judge and by people."""

    judge: float
    """The mean."""
    people: float
    difference: Figure
    """Judge minus people."""
    spearman: float | None
    """Rank correlation over traces; None if one of the two does not vary."""


class ClaimAgreement(Record):
    """How well a run's cells agree with people's."""

    judge: str
    labels: str
    cells: int
    """Cells (chunk and claim) with both."""
    traces: int
    failed: int
    """Labelled cells without a verdict; they are in no figure."""
    elsewhere: int
    """Labelled traces, chunks or claims that the run does not hold."""
    figures: dict[str, Figure]
    """Of the three levels none, partial and full; `_ge1` is any support, `_ge2` full support."""
    confusion: tuple[tuple[int, ...], ...]
    """Row: the judge's level; column: people's."""
    together: dict[str, Figure] = Field(default_factory=dict)
    """Of claims of which both say whether all chunks cover them; empty if there is none."""
    recall: Recall | None = None
    """Of traces whose cells are all labelled and judged; None under two."""


def read_claim_labels(path: str | Path) -> dict[str, LabelledClaims]:
    """Read labelled cells, by trace id: one JSON object a line, one line a trace."""
    name, labels = str(path), dict[str, LabelledClaims]()
    for record in rows(Path(path), kind_of(Path(path), name), name, lambda _: True):
        try:
            line = LabelledClaims.model_validate(record.get())
        except ValidationError as error:
            fault = data_error(error)
            raise DataError(str(fault), file=name, line=record.line, field=fault.field) from None
        if labels.setdefault(line.trace, line) is not line:
            raise DataError(f"two lines are of trace {line.trace!r}", file=name, line=record.line)
    return labels


def holds_claim_labels(path: str | Path) -> bool:
    """Tell whether a file holds labelled cells: JSON Lines whose `chunks` are an object."""
    place = Path(path)
    if place.suffix.lower() not in (".jsonl", ".ndjson"):
        return False
    first = next(iter(rows(place, kind_of(place, str(path)), str(path), lambda _: True)), None)
    return first is not None and isinstance(first.get().get("chunks"), dict)


@dataclass(slots=True)
class _Counts:
    """What is collected trace by trace."""

    tables: list[np.ndarray[Any, Any]] = field(default_factory=list)
    together: list[np.ndarray[Any, Any]] = field(default_factory=list)
    clusters: list[str | None] = field(default_factory=list)
    recalls: list[tuple[float, float]] = field(default_factory=list)
    recall_clusters: list[str | None] = field(default_factory=list)
    failed: int = 0
    elsewhere: int = 0


def agree_on_claims(run: Run, labels: Mapping[str, LabelledClaims], source: str, *, seed: int = 0) -> ClaimAgreement:
    """Measure the cells of a run by claims against people's; claims are matched by trace id and id."""
    counts, left = _Counts(), dict(labels)
    for result in run.results:
        if (line := left.pop(result.trace_id, None)) is not None:
            _count(counts, result, line, cluster_of(result.trace, run.manifest.intervals.cluster))
    counts.elsewhere += len(left)
    tables = np.array(counts.tables)
    if not tables.size or not tables.sum():
        raise DataError(
            "no cell of this run has both a verdict and a label; judge by claims (mode claims) with the "
            "claims that people labelled, and check the ids",
            file=source,
        )
    values = np.array([0.0, 1.0, 2.0])
    figures = agreement_of(_by_cluster(tables, counts.clusters), values, seed=seed)
    both = np.array(counts.together)
    together = {}
    if both.sum():
        estimates = agreement_of(_by_cluster(both, counts.clusters), values[:2], seed=seed)
        together = {name: estimates[name] for name in OF_TOGETHER}
    return ClaimAgreement(
        judge=run.name,
        labels=source,
        cells=int(tables.sum()),
        traces=int((tables.sum(axis=(1, 2)) > 0).sum()),
        failed=counts.failed,
        elsewhere=counts.elsewhere,
        figures={name: figures[name] for name in FIGURES},
        confusion=tuple(tuple(row) for row in tables.sum(axis=0).astype(int).tolist()),
        together=together,
        recall=_recall(counts),
    )


def _count(counts: _Counts, result: TraceResult, line: LabelledClaims, cluster: str | None) -> None:
    claims = result.claims.claims if result.claims is not None else ()
    known = {claim.id for claim in claims}
    outcomes = {outcome.chunk_id: outcome for outcome in result.outcomes}
    table, both = np.zeros((3, 3)), np.zeros((2, 2))
    covered: tuple[set[str], set[str]] = (set(), set())
    whole = bool(claims) and outcomes.keys() <= line.chunks.keys()
    for chunk_id, cells in line.chunks.items():
        named = {cell.claim: cell.support for cell in cells}
        outcome = outcomes.get(chunk_id)
        counts.elsewhere += len(named.keys() - known) if outcome is not None else 1
        if outcome is None:
            continue
        for claim, support in zip(claims, answers_on_claims(outcome, claims), strict=True):
            people: ClaimVerdict = named.get(claim.id, "none")
            judge = verdict_of(support)
            if judge is None:
                counts.failed += 1
                whole = False
                continue
            table[LEVELS[judge], LEVELS[people]] += 1
            for full, sign in zip(covered, (judge, people), strict=True):
                if sign == "full":
                    full.add(claim.id)
    judged = result.claims.together if result.claims is not None else {}
    for claim_id, says in line.together.items():
        if (answer := judged.get(claim_id)) is not None:
            both[int(answer), int(says)] += 1
    counts.tables.append(table)
    counts.together.append(both)
    counts.clusters.append(cluster)
    if whole:
        counts.recalls.append((len(covered[0]) / len(claims), len(covered[1]) / len(claims)))
        counts.recall_clusters.append(cluster)


def _by_cluster(tables: np.ndarray[Any, Any], clusters: list[str | None]) -> np.ndarray[Any, Any]:
    """Add up the tables of traces that belong together, and leave out those without a pair."""
    groups = fill_clusters(clusters)
    if groups is not None:
        tables, _ = by_unit(tables, group_codes(groups, len(tables))[0])
    there: np.ndarray[Any, Any] = tables[tables.sum(axis=(1, 2)) > 0]
    return there


def _recall(counts: _Counts) -> Recall | None:
    if len(counts.recalls) < 2:
        return None
    judge, people = np.array(counts.recalls).T
    difference = mean_interval(judge - people, clusters=fill_clusters(counts.recall_clusters), limits=(-1.0, 1.0))
    return Recall(
        judge=float(judge.mean()), people=float(people.mean()), difference=difference, spearman=spearman(judge, people)
    )
