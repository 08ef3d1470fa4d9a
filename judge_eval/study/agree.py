"""How well a judge's verdicts and probabilities agree with labels, or its verdicts with those of other judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.note import Note, unsliced
from judge_eval.record import Record
from judge_eval.runs.columns.verdict_table import Places, chunk_hash, hash_number, verdict_table
from judge_eval.runs.folder.describing import models_of
from judge_eval.runs.folder.records import SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.runs.folder.validation import FloorComparison
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.slices import SliceFigure, SliceTest, corrected_slices, slice_tests, slices_of
from judge_eval.stats import agreement_of, alpha_interval, auc, auc_difference
from judge_eval.stats.agreement import MeasurementLevel, named_figures
from judge_eval.stats.figure import Figure
from judge_eval.stats.probabilities import ReliabilityBin, ReliabilityFigures, reliability_figures
from judge_eval.study.matching import Pairs, by_unit, labels_by_person, match_labels, tables_of
from judge_eval.study.people import PeopleAgreement, agree_people, alpha_of_people

SLICED = ("accuracy", "kappa", "precision", "recall", "specificity", "bias")
"""The figures that are also told by slice."""


class Reliability(Record):
    """Probabilities beside labels; see `judge_eval.stats.probabilities`."""

    n: int
    """Labelled chunks whose verdict has a probability."""
    traces: int
    without: int = 0
    """Labelled chunks whose verdict has none; they are in no figure here."""
    bins: tuple[ReliabilityBin, ...]
    """In the order of their probabilities; about equally many chunks in each, equal ones together."""
    figures: dict[str, Figure]
    """`ece` (expected calibration error), `brier`, `log_loss` and `bias` (mean probability minus the share
    that is relevant)."""

    @classmethod
    def of(cls, probabilities: ReliabilityFigures, without: int = 0) -> Reliability:
        """Write figures down."""
        figures = {name: getattr(probabilities, name) for name in ("ece", "brier", "log_loss", "bias")}
        n, traces = figures["ece"].n, figures["ece"].traces or 0
        return cls(n=n, traces=traces, without=without, bins=tuple(probabilities.bins), figures=figures)


class Disagreement(Record):
    """A trace on whose chunks judge and labels differ."""

    trace_id: str
    distance: float
    """Mean absolute difference of the grades."""
    bias: float
    """Mean grade of the judge minus that of the labels."""
    unequal: int
    n: int


class Agreement(Record):
    """How well a run's verdicts agree with labels."""

    judge: str
    """The run."""
    labels: str
    """Where the labels come from: a file, the dataset, or another run."""
    another: bool = False
    """Whether the verdicts of another judge stand in the place of labels."""
    n: int
    """Chunks with both."""
    traces: int
    failed: int = 0
    """Labelled chunks whose verdict failed; they are in no figure."""
    unlabelled: int = 0
    elsewhere: int = 0
    """Labels of chunks that the run does not hold."""
    relevant: int
    """The least grade that counts as relevant."""
    figures: dict[str, Figure]
    """By name; see `judge_eval.stats.agreement_figures`."""
    grades: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Row: the judge's grade; column: the label."""
    reliability: Reliability | None = None
    """Its probabilities beside the labels; None where no verdict on a labelled chunk has one."""
    auc: Figure | None = None
    """Of its probabilities, whatever the threshold; None unless the verdict on each labelled chunk has one."""
    floor: FloorComparison | None = None
    """The judge beside a floor, if one is given."""
    people: tuple[PeopleAgreement, ...] = ()
    """How well each two people agree who labelled the same chunks."""
    people_alpha: Figure | None = None
    """Krippendorff's ordinal alpha of all people together; None unless two labelled the same chunk."""
    slices: tuple[SliceFigure, ...] = ()
    """By slice the figures `SLICED`, as those of all chunks; those with a threshold are of relevance."""
    worst: tuple[Disagreement, ...] = ()
    """The traces that differ, most different first."""
    notes: tuple[Note, ...] = ()


def agree(
    run: Run,
    labels: Labels | Run | None,
    *,
    threshold: int | None = None,
    seed: int = 0,
    most: int = 100,
    by: Sequence[SliceBy] = (),
    floor: Run | None = None,
) -> Agreement:
    """Measure a run's verdicts against human labels, or against the verdicts of another run.

    `floor` is a run over the same chunks by a judge that any other must beat, such as an embedding model.
    """
    # Labels None takes those of the run's dataset and those added since; `threshold` is the least label that counts as
    # relevant. At most `most` traces with differences are named. `by` asks for the main figures by slice.
    if isinstance(labels, Run) and threshold is None:
        threshold = None if scale_of(labels).binary else scale_of(labels).relevant
    pairs = match_labels(run, labels, threshold, floor)
    grades, relevant = pairs.scale.grades, pairs.scale.relevant
    tables, rows = tables_of(pairs.judge, pairs.human, pairs.rows, grades)
    # Traces that belong together are one unit to the intervals.
    units, codes = by_unit(tables, pairs.units[np.searchsorted(pairs.rows, rows)])
    figures = agreement_of(units, np.array(grades, dtype=np.float64), seed=seed)
    another = isinstance(labels, Run)
    named = labels.people if isinstance(labels, Labels) else labels_by_person(run)
    reliability = None
    if pairs.probable is not None:
        reliability = reliability_of(pairs.probable, pairs.human >= relevant, pairs.units, seed=seed)
    beside = None if floor is None else compare_with_floor(pairs, models_of(floor.manifest))
    slices = agreement_slices(run, tables, rows, codes, grades, relevant, by) if by else ()
    return Agreement(
        judge=run.name,
        labels=pairs.source,
        another=another,
        n=len(pairs.judge),
        traces=len(rows),
        failed=pairs.failed,
        unlabelled=pairs.unlabelled,
        elsewhere=pairs.elsewhere,
        relevant=relevant,
        figures=figures,
        grades=tuple(grades),
        confusion=tuple(tuple(row) for row in tables.sum(axis=0).astype(int).tolist()),
        reliability=reliability,
        auc=auc_of_probabilities(pairs),
        floor=beside,
        people=() if another else agree_people(named, scale_of(run), threshold=threshold, seed=seed),
        people_alpha=None if another else alpha_of_people(named, seed=seed),
        slices=slices,
        worst=_worst(run, tables, rows, most),
        notes=(*pairs.notes, *unsliced(slices, by)),
    )


def reliability_of(probabilities: ArrayLike, relevant: ArrayLike, rows: Places, *, seed: int = 0) -> Reliability | None:
    """Measure the judge's probabilities (NaN: none; all NaN: None) against labels; all of shape (n,)."""
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(relevant, dtype=np.float64)
    there = ~np.isnan(p)
    if not there.any():
        return None
    reliability = reliability_figures(p[there], y[there], rows[there], seed=seed)
    return Reliability.of(reliability, int(p.size - there.sum()))


def compare_with_floor(pairs: Pairs, model: str) -> FloorComparison:
    """Compare a judge with the floor of this name, whose scores stand beside the verdicts."""
    assert pairs.floor is not None
    scores = pairs.judge if auc_of_probabilities(pairs) is None else pairs.probable
    assert scores is not None
    there = ~np.isnan(pairs.floor)
    mine, floor = scores[there], pairs.floor[there]
    relevant, units = (pairs.human >= pairs.scale.relevant)[there], pairs.units[there].tolist()
    return FloorComparison(
        model=model,
        judge=auc(mine, relevant, units),
        floor=auc(floor, relevant, units),
        difference=auc_difference(mine, floor, relevant, units),
        without=int((~there).sum()),
    )


def auc_of_probabilities(pairs: Pairs) -> Figure | None:
    """Return the AUC of a judge's probabilities; None unless the verdict on each labelled chunk has one."""
    if pairs.probable is None or np.isnan(pairs.probable).any():
        return None
    return auc(pairs.probable, pairs.human >= pairs.scale.relevant, pairs.units.tolist())


def agreement_slices(
    run: Run,
    tables: NDArray[np.float64],
    rows: Places,
    units: Places,
    grades: Sequence[int],
    relevant: int,
    by: Sequence[SliceBy],
) -> tuple[SliceFigure, ...]:
    """Return the figures `SLICED` by slice, of pairs of grades that are counted by trace (`tables_of`, `by_unit`)."""
    verdicts = verdict_table(run).at(rows)
    kinds = [slices_of(verdicts, each) for each in dict.fromkeys(by)]
    every = named_figures(np.array(grades, dtype=np.float64))
    tests, drawn = list[SliceTest](), dict[bytes, NDArray[np.float64]]()
    for name in SLICED:
        figure, none = every.get(f"{name}_ge{relevant}", every.get(name)), np.zeros(len(rows))
        assert figure is not None
        tests += slice_tests(name, none, kinds, units.tolist(), measure=(tables, figure), drawn=drawn)
    return tuple(corrected_slices(tests))


def _worst(run: Run, tables: NDArray[np.float64], rows: Places, most: int) -> tuple[Disagreement, ...]:
    grades = np.arange(tables.shape[1])
    n = tables.sum(axis=(1, 2))
    gap = np.subtract.outer(grades, grades)
    distance = (tables * np.abs(gap)).sum(axis=(1, 2)) / n
    bias = (tables * gap).sum(axis=(1, 2)) / n
    unequal = n - np.trace(tables, axis1=1, axis2=2)
    order = np.lexsort((np.arange(len(rows)), -unequal, -distance))
    return tuple(
        Disagreement(
            trace_id=run.results[int(rows[k])].trace_id,
            distance=float(distance[k]),
            bias=float(bias[k]),
            unequal=int(unequal[k]),
            n=int(n[k]),
        )
        for k in order[: min(most, int((unequal > 0).sum()))].tolist()
    )


def agree_all(runs: Sequence[Run], labels: Labels | None = None, *, seed: int = 0) -> dict[str, Figure]:
    """Return Krippendorff's alpha of several judges on the same chunks, with labels as one rater more."""
    scales = [scale_of(run) for run in runs]
    if len({scale.grades for scale in scales}) > 1:
        raise DataError("these judges use different scales; compare them in pairs")
    if labels is not None and not {*labels.grades.values()} <= {*scales[0].grades}:
        raise DataError("the labels use another scale than the judges; compare them in pairs")
    ratings, traces = ratings_of(runs, labels)
    return {
        f"alpha_{level}": alpha_interval(ratings, traces.data, level, seed=seed) for level in get_args(MeasurementLevel)
    }


def ratings_of(runs: Sequence[Run], labels: Labels | None) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the grades of all chunks that a run judged, shape (raters, chunks), NaN for none, and their traces.

    Labels are one rater more. Traces are numbered in the order of their ids.
    """
    tables = [verdict_table(run) for run in runs]
    named = [[asked.id for asked in run.questions()] for run in runs]
    codes = {name: code for code, name in enumerate(sorted(set().union(*named)))}
    judged = [table.grades >= 0 for table in tables]
    chunks = np.concatenate([table.chunk_ids[there] for table, there in zip(tables, judged, strict=True)])
    traces = np.concatenate(
        [
            np.array([codes[name] for name in names], dtype=np.int32)[table.rows[there]]
            for table, names, there in zip(tables, named, judged, strict=True)
        ]
    )
    order = np.lexsort((chunks, traces))
    chunks, traces = chunks[order], traces[order]
    first = np.append(True, (np.diff(traces) != 0) | (chunks[1:] != chunks[:-1]))[: len(order)]
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum(first) - 1
    chunks, traces = chunks[first], traces[first]
    ratings = np.full((len(tables), len(traces)), np.nan)
    ends = np.cumsum([there.sum() for there in judged])[:-1]
    for row, at, table, there in zip(ratings, np.split(places, ends), tables, judged, strict=True):
        row[at] = table.grades[there]
    if labels is not None:
        known = {key: place for place, key in enumerate(zip(traces.tolist(), chunks.tolist(), strict=True))}
        given = np.full(len(traces), np.nan)
        for (trace, chunk), grade in labels.grades.items():
            place = known.get((codes.get(trace, -1), hash_number(chunk_hash(chunk))))
            if place is not None:
                given[place] = grade
        ratings = np.vstack([ratings, given])
    return ratings, traces
