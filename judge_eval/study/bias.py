"""How a judge treats chunks that people find equally relevant: by length, rank, echo, kinship and more."""

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.judges.listwise import order_of_sample
from judge_eval.llm.fake.rules import bag
from judge_eval.record import Record
from judge_eval.runs.folder.describing import models_of
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Chunk
from judge_eval.stats import holm, mean_interval
from judge_eval.stats._arrays import Floats, Ints
from judge_eval.stats.distributions import t_ppf, t_sf
from judge_eval.stats.figure import Figure
from judge_eval.stats.logistic import fit_logistic, leave_out, sigmoid
from judge_eval.stats.sampling import minimal_detectable_difference
from judge_eval.study.matching import count_ties, label_lookup, no_labels
from judge_eval.study.probe_report import ProbeReport

LEAST_EFFECT = 0.05
"""A bias that is worth seeing: where one of this size could hide, the study cannot say that there is none."""
FEWEST = 20
"""Fewer traces, or chunks of either kind of a feature, say nothing."""
PENALTY = 0.1
BiasVerdict = Literal["biased", "none seen", "cannot say"]


class Bias(Record):
    """What one feature of a chunk does to the judge's verdict, at equal label and equal other features."""

    feature: str
    step: str
    """What changes: one standard deviation more, having it, or having it in place of the most frequent one."""
    effect: float | None = None
    """The mean change of the probability of `relevant`, -1 to 1."""
    interval: tuple[float, float] | None = None
    p: float | None = None
    """Corrected by Holm over the features."""
    detectable: float | None = None
    """The least effect that would be seen with 80% power, before correction."""
    verdict: BiasVerdict
    traces: int
    """Traces that it rests on."""


class BiasReport(Record):
    """How a judge treats chunks."""

    edits: ProbeReport | None = None
    """What it said of edited chunks; None if it was not asked."""

    run: str
    judge: str
    chunks: int
    """With verdict and label."""
    ties: int = 0
    """Chunks left out because as many people find them relevant as not."""
    traces: int
    biases: tuple[Bias, ...]
    rank_in_list: Figure | None = None
    """Of a judge that was asked several times about lists in other orders: the change of the share of relevant verdicts
    from the top of the list to its end, of the same chunk; no label is needed."""


def bias_report(
    run: Run, labels: Labels | None = None, *, origin: Mapping[str, str] | None = None, needs_labels: bool = True
) -> BiasReport:
    """Estimate a logistic model of the judge's verdict by label and features, with the jackknife by whole traces.

    Args:
        run: The run.
        labels: People's labels; None takes those of the dataset and later ones.
        origin: Who reranked the chunks or wrote reference or answer, where traces do not say so.
        needs_labels: Whether it is an error that there is no label; else the report has what needs none.

    Raises:
        DataError: Fewer than `FEWEST` traces have labels of both kinds together.
    """
    family, label_of = family_of(models_of(run.manifest)), label_lookup(run, labels)
    rows, slopes, relevant = LabelledFeatures(), dict[str, float](), scale_of(run).relevant
    listwise = "'window'" in str(run.manifest.judge)
    for place, result in enumerate(run.results):
        rows.take(place, result, label_of, family, origin or {})
        if listwise and (slope := rank_slope(result, relevant)) is not None:
            slopes[result.trace_id] = slope
    biases: tuple[Bias, ...] = ()
    if labels is None and not rows.labelled and needs_labels:
        raise no_labels()
    if labels is not None or rows.labelled:
        biases = rows.biases()
    in_list = mean_interval(list(slopes.values()), clusters=list(slopes)) if len(slopes) > 1 else None
    return BiasReport(
        run=run.name, judge=models_of(run.manifest), chunks=len(rows.traces), traces=len(set(rows.traces)),
        ties=count_ties(run, labels), biases=biases, rank_in_list=in_list,
    )  # fmt: skip


def family_of(name: str) -> str:
    """Return the family of a model: the letters that its name begins with, behind the provider's."""
    word = re.match(r"[a-z]+", name.split("/")[-1].lower())
    return word.group() if word else name.lower()


class LabelledFeatures:
    """The labelled verdicts of a run with the features of their chunks: some numbers each."""

    def __init__(self) -> None:
        self.labelled = False
        self.traces, self.verdicts, self.labels = array("q"), array("d"), array("d")
        self.features: dict[str, tuple[array[int], array[float]]] = {}
        """By name: the rows that have it, and its values."""

    def take(
        self,
        place: int,
        result: TraceResult,
        label_of: Callable[[str, Chunk], int | None],
        family: str,
        origin: Mapping[str, str],
    ) -> None:
        """Take in the chunks of a trace."""
        asked = frozenset(bag(result.trace.query))
        for rank, (chunk, outcome) in enumerate(zip(result.trace.chunks, result.outcomes, strict=True), 1):
            label = label_of(result.trace_id, chunk)
            self.labelled |= label is not None
            if label is None or outcome.kind != "verdict":
                continue
            for name, value in _features(result, chunk, rank, asked, family, origin):
                rows, values = self.features.setdefault(name, (array("q"), array("d")))
                rows.append(len(self.traces))
                values.append(value)
            self.traces.append(place)
            self.verdicts.append(outcome.relevant)
            self.labels.append(label)

    def biases(self) -> tuple[Bias, ...]:
        """Estimate what each feature does."""
        names = sorted(self.features)
        bases = {name.partition(" =")[0]: name for name in self._bases(names)}
        names = [name for name in names if name not in bases.values()]
        codes = np.unique(np.array(self.traces), return_inverse=True)[1].astype(np.int64)
        count = int(codes.max()) + 1 if codes.size else 0
        if count < FEWEST:
            raise DataError(f"{count} traces have verdicts and labels; biases need at least {FEWEST}")
        features = {name: np.zeros(len(codes)) for name in names}
        for name, column in features.items():
            rows, values = self.features[name]
            column[np.array(rows)] = values
        return estimate_biases(np.array(self.verdicts), np.array(self.labels), features, codes, bases)

    def _bases(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the most frequent language and source, which the others are held against."""
        # If each chunk has one of them, all of them together tell no more than all but one.
        for key in ("language", "source"):
            counts = {name: len(self.features[name][0]) for name in names if name.startswith(f"{key} =")}
            if counts and max(counts.values()) >= len(self.traces) - sum(counts.values()):
                yield max(counts, key=lambda name: counts[name])


def _features(
    result: TraceResult, chunk: Chunk, rank: int, asked: frozenset[str], family: str, origin: Mapping[str, str]
) -> Iterator[tuple[str, float]]:
    yield "length", math.log2(1 + len(chunk.text))
    yield "rank", math.log2(rank)
    if asked:
        yield "echo", len(asked & bag(chunk.text).keys()) / len(asked)
    if chunk.score is not None:
        yield "score", chunk.score
    yield "title =yes", float(chunk.title is not None)
    for key in ("language", "source"):
        value = chunk.metadata.get(key, result.trace.metadata.get(key))
        if isinstance(value, str) and value:
            yield f"{key} ={value}", 1.0
    writers: dict[str, str] = {**origin, **{str(role): name for role, name in result.trace.origin.items()}}
    if isinstance(own := chunk.metadata.get("origin"), str):
        writers["chunk"] = own
    for role, name in writers.items():
        yield f"kinship with {role} =yes", float(family_of(name) == family)


def estimate_biases(
    verdict: Floats, label: Floats, features: Mapping[str, Floats], codes: Ints, bases: Mapping[str, str] | None = None
) -> tuple[Bias, ...]:
    """Estimate what each feature does to a verdict (0 or 1) at equal label; see `bias_report`. All are of shape (n,).

    A feature with ` =` in its name is of a kind that chunks have or not; `bases` names by kind (`source`) which one the
    others are held against, which is no feature itself. `codes` is the trace of each chunk, numbered from 0.
    """
    kinds = {name: " =" in name for name in features}
    groups, none = int(codes.max()) + 1, dict[str, Bias]()
    columns: dict[str, Floats] = {}
    for name, values in features.items():
        step = _step(name, bases or {})
        few = min(Counter(values.tolist()).values()) < FEWEST if kinds[name] else False
        if values.std() < 1e-12 or few:
            none[name] = Bias(feature=name, step=step, verdict="cannot say", traces=groups)
        else:
            columns[name] = values if kinds[name] else (values - values.mean()) / values.std()
    base = np.eye(len(levels := np.unique(label)))[np.searchsorted(levels, label)]
    design = np.column_stack([base, *columns.values()])
    penalty = np.append(np.full(len(levels), 1e-2), np.full(len(columns), PENALTY))
    line = fit_logistic(design, verdict, penalty=penalty)
    without = leave_out(design, verdict, line, codes, penalty)
    apart = without - without.mean(axis=0)
    covariance = (groups - 1) / groups * apart.T @ apart
    made = []
    for place, name in enumerate(columns, len(levels)):
        effect, slope = _effect(design, line, place, kinds[name])
        error = math.sqrt(max(float(slope @ covariance @ slope), 1e-18))
        p = min(1.0, 2 * t_sf(abs(effect) / error, groups - 1))
        made.append((name, effect, error, p))
    biases = []
    for (name, effect, error, _), p in zip(made, holm([p for *_, p in made]), strict=True):
        half, detectable = t_ppf(0.975, groups - 1) * error, minimal_detectable_difference(error, groups - 1)
        blind: BiasVerdict = "none seen" if detectable <= LEAST_EFFECT else "cannot say"
        biases.append(
            Bias(
                feature=name,
                step=_step(name, bases or {}),
                effect=effect,
                interval=(max(-1.0, effect - half), min(1.0, effect + half)),
                p=p,
                detectable=detectable,
                verdict="biased" if p <= 0.05 else blind,
                traces=groups,
            )
        )
    return tuple(sorted(biases, key=lambda bias: bias.p or 0.0)) + tuple(none.values())


def _step(name: str, bases: Mapping[str, str]) -> str:
    kind, known, _ = name.partition(" =")
    if kind in bases:
        return f"in place of {bases[kind].partition(' =')[2]}"
    return "having it" if known else "one standard deviation more"


def _effect(design: Floats, line: Floats, place: int, kind: bool) -> tuple[float, Floats]:
    """Return the mean change of the probability, and its derivative by the coefficients."""
    low, high = design.copy(), design.copy()
    if kind:
        low[:, place] = 0.0
        high[:, place] = 1.0
    else:
        high[:, place] += 1.0
    p, q = sigmoid(low @ line), sigmoid(high @ line)
    slope = (q * (1 - q)) @ high - (p * (1 - p)) @ low
    return float((q - p).mean()), slope / len(design)


def rank_slope(result: TraceResult, relevant: int) -> float | None:
    """Return how far the share of relevant samples moves from the top of a trace's list to its end.

    It is the slope of the same chunk over its places (0 the top, 1 the end), if the judge was asked several times about
    the list in other orders; None without two whole samples of two different chunks.
    """
    votes = [(name, grades) for name, grades in result.votes.items() if name.startswith("sample ")]
    count = len(result.trace.chunks)
    if len(votes) < 2 or len({(c.title, c.text) for c in result.trace.chunks if not c.is_blank}) < max(2, count):
        return None
    if any(None in grades for _, grades in votes):
        return None
    places = np.zeros((len(votes), count))
    for row, (name, _) in enumerate(votes):
        places[row, order_of_sample(result.trace, count, int(name.split()[1]) - 1)] = np.arange(count) / (count - 1)
    accepted = np.array([grades for _, grades in votes], dtype=np.float64) >= relevant
    places -= places.mean(axis=0)
    spread = float((places**2).sum())
    return float((places * (accepted - accepted.mean(axis=0))).sum()) / spread if spread > 0 else None
