"""A judge under observation: what it said of the same chunks, look by look, and whether it is still the same judge."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from judge_eval.digest import digest_json
from judge_eval.errors import ConfigError, DataError
from judge_eval.files import is_plain, write_atomically
from judge_eval.record import PlainObject, Record, data_error
from judge_eval.runs.folder.describing import field_differences, who_judged
from judge_eval.runs.folder.records import Moment
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.figure import Figure
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.safe_text import counted
from judge_eval.spelling import option
from judge_eval.stats import mean_interval
from judge_eval.stats.drift import WINDOWS, SameJudge, anchors_needed, same_judge
from judge_eval.stats.figures_of_agreement import kappa
from judge_eval.stats.resample import Resampler

DRIFT_FORMAT = 1
"""The version of the file; a reader refuses versions above its own."""
MOST_FAILED = 0.1
"""With a greater share of failed verdicts a look is not taken in."""

Floats = npt.NDArray[np.float64]
DriftVerdict = Literal["baseline", "stable", "drifted", "cannot say"]


class Anchors(Record):
    """The chunks that a judge is asked about again and again; the first line of a history."""

    v: int = Field(default=DRIFT_FORMAT, ge=1, le=DRIFT_FORMAT)
    digest: str
    """64 hexadecimal digits over the ids and texts that are asked about."""
    relevant: int
    """The least grade that is relevant."""
    chunks: tuple[tuple[str, str], ...]
    """The ids of trace and chunk, in the order of all that follows."""
    labels: tuple[int | None, ...]
    """People's grades; None where there is none."""
    judge: PlainObject
    backend: PlainObject

    @classmethod
    def of(cls, run: Run) -> Anchors:
        """Take the chunks of a run; if people labelled some, those alone.

        Raises:
            DataError: There is no chunk.
        """
        pairs = [(result.trace_id, chunk) for result in run.results for chunk in result.trace.chunks]
        if any(chunk.label is not None for _, chunk in pairs):
            pairs = [(trace, chunk) for trace, chunk in pairs if chunk.label is not None]
        if not pairs:
            raise DataError("there is no chunk to ask about")
        return cls(
            digest=digest_json([[trace, c.id, c.title, c.text, c.label] for trace, c in pairs]),
            relevant=scale_of(run).relevant,
            chunks=tuple((trace, chunk.id) for trace, chunk in pairs),
            labels=tuple(chunk.label for _, chunk in pairs),
            judge=run.manifest.judge,
            backend=run.manifest.backend,
        )


class DriftLook(Record):
    """What the judge said of all anchors, once; a line of a history."""

    at: Moment
    baseline: bool
    """Whether it says how the judge was, and not how it is."""
    grades: tuple[int | None, ...]
    """None where the verdict failed."""
    confidences: tuple[float | None, ...] = ()
    """The judge's probability that each chunk is relevant; empty if it gave none."""
    models: tuple[str, ...] = ()
    """What the server called the model."""

    @classmethod
    def of(cls, run: Run, anchors: Anchors, *, baseline: bool) -> DriftLook:
        """Take from a run what it says of the anchors."""
        grades: dict[tuple[str, str], int] = {}
        sure: dict[tuple[str, str], float | None] = {}
        models: set[str] = set()
        for result in run.results:
            models |= {call.model for call in result.calls if call.model}
            for outcome in result.outcomes:
                if outcome.kind == "verdict":
                    grades[result.trace_id, outcome.chunk_id] = outcome.grade
                    sure[result.trace_id, outcome.chunk_id] = outcome.confidence
        probabilities = tuple(sure.get(chunk) for chunk in anchors.chunks)
        return cls(
            at=datetime.now(UTC),
            baseline=baseline,
            grades=tuple(grades.get(chunk) for chunk in anchors.chunks),
            confidences=probabilities if any(each is not None for each in probabilities) else (),
            models=tuple(sorted(models)),
        )

    @property
    def failed(self) -> int:
        """How many anchors have no verdict."""
        return sum(grade is None for grade in self.grades)


class DriftHistory:
    """The looks at one judge, in a file of JSON Lines: the anchors, then a line a look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.anchors: Anchors | None = None
        self.looks: list[DriftLook] = []
        if path.exists():
            self._read()

    def _read(self) -> None:
        if not is_plain(self.path):
            raise ConfigError(f"{self.path} is not a plain file; name another {option('history')}")
        for number, line in enumerate(self.path.read_bytes().splitlines(), 1):
            try:
                if self.anchors is None:
                    self.anchors = Anchors.from_json(line)
                else:
                    self.looks.append(DriftLook.from_json(line))
            except ValidationError as error:
                raise data_error(error, file=str(self.path), line=number) from None
            except ValueError as error:
                raise DataError(str(error), file=str(self.path), line=number) from None
            if self.looks and len(self.looks[-1].grades) != len(self.anchors.chunks):
                raise DataError("a look at other chunks", file=str(self.path), line=number)

    def accept(self, anchors: Anchors) -> list[str]:
        """Take anchors as those of this history, and name what differs in who judges.

        Raises:
            ConfigError: The history is of other chunks, labels or another threshold.
        """
        if self.anchors is None:
            self.anchors = anchors
            return []
        known = self.anchors
        if (known.digest, known.relevant, known.chunks) != (anchors.digest, anchors.relevant, anchors.chunks):
            raise ConfigError(
                f"{self.path} is the history of other anchors (their ids, texts, labels or threshold differ); "
                f"name another file with {option('history')}"
            )
        return field_differences("judge", who_judged(known.judge), who_judged(anchors.judge)) + (
            field_differences("model", known.backend, anchors.backend)
        )

    def add(self, look: DriftLook) -> None:
        """Add a look, and write the file anew in one step."""
        assert self.anchors is not None
        self.looks.append(look)
        lines = [self.anchors, *self.looks]
        text = "".join(json.dumps(line.model_dump(mode="json"), ensure_ascii=False) + "\n" for line in lines)
        write_atomically(self.path, text.encode())

    @property
    def baseline(self) -> list[DriftLook]:
        """The looks that say how the judge was."""
        return [look for look in self.looks if look.baseline]

    @property
    def later(self) -> list[DriftLook]:
        """The looks since then."""
        return [look for look in self.looks if not look.baseline]


class DriftReport(Record):
    """What a history says of its last look."""

    verdict: DriftVerdict
    why: str
    """The reason, as a sentence without its full stop."""
    anchors: int
    """Chunks asked about."""
    traces: int
    labelled: bool
    """Whether people's labels say what is right; else the verdicts are held against earlier ones alone."""
    asked_before: int
    """How often each was asked for the baseline."""
    looks: int
    """How often since."""
    failed: int
    """Anchors without a verdict in the last look."""
    noise: float
    """The share of repeated verdicts that differ from the usual one, 0 to 1; of all looks if the baseline was asked
    once, so a drift is in it."""
    needed: int
    """How many anchors would show within four looks, with 80% power, that 5% of the verdicts changed for good."""
    right_before: Figure | None = None
    """The share of verdicts that are as people labelled."""
    right_now: Figure | None = None
    kappa_before: float | None = None
    kappa_now: float | None = None
    kappa_shift: Figure | None = None
    """Now minus before, paired, by whole traces."""
    became_relevant: int = 0
    """Anchors whose usual verdict was irrelevant, and is relevant now."""
    became_irrelevant: int = 0
    confidence_shift: Figure | None = None
    """How far the judge's probability of relevance moved on average."""
    models_before: tuple[str, ...] = ()
    models_now: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def drift_report(history: DriftHistory, notes: Sequence[str] = ()) -> DriftReport:
    """Say whether the judge of the last look is the judge of the baseline.

    The verdicts are tested for any change, since a judge whose flips cancel is another judge too. With labels the share
    of right ones is tested for a fall, else that of relevant ones for a move either way. The last look and the last
    four are tested, each at .05 / 104 over both tests: false alarms in a year of weekly looks are at most .05.

    Raises:
        DataError: The history has no look.
    """
    anchors, before, later = history.anchors, history.baseline, history.later
    if anchors is None or not before:
        raise DataError("the history has no look yet", file=str(history.path))
    last = (later or before)[-1]
    labels = _relevant(anchors.labels, anchors.relevant)
    labelled = bool((~np.isnan(labels)).any())
    earlier = np.stack([_relevant(look.grades, anchors.relevant) for look in before], axis=1)
    since = [_relevant(look.grades, anchors.relevant) for look in later]
    noise = _noise(earlier if earlier.shape[1] > 1 or not since else np.column_stack([earlier, *since]))
    traces = [trace for trace, _ in anchors.chunks]
    n, needed = len(traces), anchors_needed(noise, len(before))
    common: dict[str, Any] = {
        "anchors": n, "traces": len(set(traces)), "labelled": labelled, "asked_before": len(before),
        "looks": len(later), "failed": last.failed, "noise": noise, "needed": needed, "notes": tuple(notes),
        "models_before": tuple(sorted({name for look in before for name in look.models})), "models_now": last.models,
    }  # fmt: skip
    if not later:
        why = (
            f"the judge was asked {counted(len(before), 'time')} about {counted(n, 'chunk')}: the next look is compared"
        )
        return DriftReport(verdict="baseline", why=why, **common)
    tests = {
        window: same_judge(_right(earlier, labels), _right(np.stack(since[-window:], axis=1), labels))
        for window in WINDOWS
        if len(since) >= window
    }
    now = since[-1]
    with np.errstate(invalid="ignore"):  # an anchor without an earlier verdict has no usual one
        usual = np.nansum(earlier, axis=1) / (~np.isnan(earlier)).sum(axis=1)
        figures = {
            "became_relevant": int(((usual < 0.5) & (now == 1)).sum()),
            "became_irrelevant": int(((usual > 0.5) & (now == 0)).sum()),
        }
    verdict, why = _verdict(
        tests,
        labelled,
        n,
        needed,
        (figures["became_relevant"], figures["became_irrelevant"]),
        f"by repeats, which differ in {noise:.1%}" if len(before) > 1 else f"by chance (looks differ in {noise:.1%})",
    )
    return DriftReport(
        verdict=verdict, why=why, **common, **figures, **_agreement(labels, earlier, now, traces),
        confidence_shift=_confidence_shift(before, last, traces),
    )  # fmt: skip


class DriftPoint(Record):
    """One look in a plot."""

    label: str
    created: datetime
    mean: float
    """The share of right verdicts, or of relevant ones where nothing is labelled."""
    interval: tuple[float, float] | None
    href: None = None


def drift_points(history: DriftHistory) -> list[DriftPoint]:
    """Return the looks of a history in time, each with the share of its verdicts and an interval by whole traces."""
    if history.anchors is None:
        return []
    labels, points = _relevant(history.anchors.labels, history.anchors.relevant), []
    traces = [trace for trace, _ in history.anchors.chunks]
    for look in history.looks:
        share = _right(_relevant(look.grades, history.anchors.relevant)[:, None], labels)[:, 0]
        there = np.flatnonzero(~np.isnan(share))
        if there.size:
            names = [traces[k] for k in there.tolist()]
            figure = Figure.of(mean_interval(share[there], clusters=names, limits=(0.0, 1.0)))
            label = "baseline" if look.baseline else ", ".join(look.models) or "look"
            mean, interval = float(share[there].mean()), figure.interval
            points.append(DriftPoint(label=label, created=look.at, mean=mean, interval=interval))
    return points


def _relevant(grades: Sequence[int | None], least: int) -> Floats:
    return np.array([np.nan if grade is None else float(grade >= least) for grade in grades])


def _right(relevant: Floats, labels: Floats) -> Floats:
    """Return which verdicts are as people labelled, shape (anchors, looks); without labels the verdicts themselves."""
    if np.isnan(labels).all():
        return relevant
    return np.where(np.isnan(relevant), np.nan, relevant == labels[:, None])


def _noise(asked: Floats) -> float:
    """Return how often a repeated verdict differs from the usual one, from the variance within anchors."""
    asked = asked[~np.isnan(asked).any(axis=1)]
    m = asked.shape[1]
    if m < 2 or not len(asked):
        return 0.0
    share = asked.mean(axis=1)
    variance = float((share * (1 - share)).mean()) * m / (m - 1)
    return float(1 - math.sqrt(max(0.0, 1 - 4 * variance))) / 2


def _verdict(
    tests: dict[int, SameJudge], labelled: bool, n: int, needed: int, became: tuple[int, int], usual: str
) -> tuple[DriftVerdict, str]:
    what = "right verdicts" if labelled else "relevant verdicts"
    flips = f"{became[0]} became relevant, {became[1]} irrelevant"
    for window, test in tests.items():
        looks = "this look" if window == 1 else f"the last {window} looks"
        if (alarm := test.alarm(labelled=labelled)) == "share":
            went = f"the share of {what} went from {test.before:.3f} to {test.now:.3f} in {looks}"
            return "drifted", f"{went} (p={test.p_share(labelled=labelled):.2g}; {flips})"
        if alarm == "change":
            shares = f"the share of {what} was {test.before:.3f} and is {test.now:.3f}"
            changed = f"the verdicts changed more than repeats do in {looks} (p={test.p_change:.2g}; {flips})"
            return "drifted", f"{changed}; {shares}"
    test = tests[max(tests)]
    shares = f"the share of {what} was {test.before:.3f} and is {test.now:.3f}; {flips}, no more than {usual}"
    if n < needed:
        return "cannot say", f"{shares}; a change of 5% of the verdicts needs {needed:,} anchors to be seen, not {n:,}"
    return "stable", f"{shares}; a change of 5% of them would be seen within four looks in at least 80 of 100 cases"


def _agreement(labels: Floats, earlier: Floats, now: Floats, traces: Sequence[str]) -> dict[str, Any]:
    there = np.flatnonzero(~(np.isnan(labels) | np.isnan(now) | np.isnan(earlier).any(axis=1)))
    if not there.size:
        return {}
    people, last, asked = (side[there].astype(np.int64) for side in (labels, now, earlier))
    names = [traces[k] for k in there.tolist()]
    units = np.unique(names, return_inverse=True)[1].reshape(-1)
    parts = np.zeros((int(units.max()) + 1, 2, 2, 2))
    np.add.at(parts, (units, np.int64(1), last, people), 1.0)
    for column in asked.T:
        np.add.at(parts, (units, np.int64(0), column, people), 1.0 / asked.shape[1])
    draws, statistic = Resampler(parts), kappa()
    right = (asked == people[:, None]).mean(axis=1), last == people
    before, after = (Figure.of(mean_interval(side, clusters=names, limits=(0.0, 1.0))) for side in right)
    return {
        "kappa_before": draws.estimate(lambda sums: statistic(sums[:, 0])).value,
        "kappa_now": draws.estimate(lambda sums: statistic(sums[:, 1])).value,
        "kappa_shift": Figure.of(draws.estimate(lambda sums: statistic(sums[:, 1]) - statistic(sums[:, 0]))),
        "right_before": before,
        "right_now": after,
    }


def _confidence_shift(before: Sequence[DriftLook], last: DriftLook, traces: Sequence[str]) -> Figure | None:
    sides = [np.array([np.nan if c is None else c for c in look.confidences]) for look in before if look.confidences]
    if not sides or not last.confidences:
        return None
    moved = np.array([np.nan if c is None else c for c in last.confidences]) - np.stack(sides).mean(axis=0)
    there = np.flatnonzero(~np.isnan(moved))
    if not there.size:
        return None
    names = [traces[k] for k in there.tolist()]
    return Figure.of(mean_interval(moved[there], clusters=names, limits=(-1.0, 1.0)))
