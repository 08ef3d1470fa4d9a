"""Choosing traces or single chunks of a run for people to label, shown without what the judge said."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from judge_eval.errors import NO_FAILURE, DataError
from judge_eval.files import csv_text
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.runs.columns.graded_trace import cluster_of
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.safe_text import safe_cell
from judge_eval.schema import Chunk, Scale
from judge_eval.stats import Sample, simple_random_sample, stratified_sample
from judge_eval.stats._arrays import Floats, Ints
from judge_eval.stats.sampling import unequal_sample
from judge_eval.study.chunk_means import expected_metric, uses_chunks

COLUMNS = (
    "trace_id", "chunk_id", "query", "reference", "answer", "title", "text", "probability", "label", "scale",
    "next",
)  # fmt: skip
CHUNK_CHANCE = "chunk_probability"
"""In place of `probability`: the chance of a single chunk to be chosen."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A trace to label, with the chance it had to be chosen."""

    result: TraceResult
    probability: float
    chunks: Mapping[str, float] | None = None
    """By chunk id the chances of the chunks to label; None if all of the trace are."""

    def to_label(self, seed: int) -> list[Chunk]:
        """Return its chunks to label, in an order that tells nothing of their ranks."""
        chunks = [c for c in self.result.trace.chunks if self.chunks is None or c.id in self.chunks]
        random.Random(f"{seed} {self.result.digest}").shuffle(chunks)  # noqa: S311  no secret
        return chunks

    def reaches(self, rank: int) -> bool:
        """Return whether a chunk at this rank, from 1, is to be labelled."""
        return any(self.chunks is None or c.id in self.chunks for c in self.result.trace.chunks[rank - 1 : rank])

    def chance(self, chunk: Chunk) -> float:
        """Return the chance of the trace, or of its chunk where single chunks were chosen."""
        return self.probability if self.chunks is None else self.chunks[chunk.id]


SampleBy = Literal["none", "grade", "cluster", "neyman", "uncertain"]
UNIFORM = 0.2
"""The part of a choice by uncertainty, or of chunks, in which all have the same chance."""
_STRATA = 8


def choose_traces(
    run: Run,
    size: int,
    *,
    by: SampleBy = "none",
    seed: int = 0,
    without: Sequence[str] = (),
    spread: Mapping[str, float] | None = None,
) -> list[Chosen]:
    """Choose traces at random, for labels that a correction may rest on.

    Traces without chunks are not chosen, since their values are known, nor those of which a text has no
    verdict, which no correction could use.

    Args:
        run: The run.
        size: How many traces.
        by: `none` gives every trace the same chance; `grade` takes as many from each stratum of the highest judged
            grade, which shows rare grades; the correction then weights by the chances. `cluster` takes whole clusters
            (the run's `intervals.cluster`), all with the same chance, as many as hold that many traces on average: less
            to read, and less to learn than from as many single traces. `neyman` takes more of the traces
            whose labels are expected to differ most from the verdicts, as many from each of `_STRATA` strata with the
            same sum of these differences; `uncertain` gives each trace a chance by
            that, mixed with a uniform share of `UNIFORM`.
        seed: Equal seeds choose equally.
        without: Ids of traces not to choose, such as those that are labelled already.
        spread: By id how far each trace's labels are expected to differ, for `neyman` and `uncertain`.

    Returns:
        The traces in the random order in which they are to be labelled.

    Raises:
        DataError: There are fewer traces than asked for.
    """
    shut = set(without)
    results = [r for r in run.results if _can_be_labelled(r) and r.trace_id not in shut]
    if not 0 < size <= len(results):
        raise DataError(f"{size} traces were requested; {len(results)} traces of this run can be labelled")
    if by == "cluster":
        sample = _cluster_sample(results, size, run.manifest.intervals.cluster, seed)
    elif by == "grade":
        grades = [max((o.grade for o in r.outcomes if o.kind == "verdict"), default=0) for r in results]
        if size < len(set(grades)):
            raise DataError(f"{size} traces cannot cover {len(set(grades))} strata; choose more")
        sample = stratified_sample(grades, size, seed=seed)
    elif by in ("neyman", "uncertain"):
        far = np.array([(spread or {}).get(r.trace_id, 0.0) for r in results])
        if by == "neyman":
            strata = _equal_strata(far, min(_STRATA, max(1, size // 2)))
            sample = stratified_sample(strata.tolist(), size, allocation=far.tolist(), seed=seed)
        else:
            sample = unequal_sample(mixed_shares(far).tolist(), size, seed=seed)
    else:
        sample = simple_random_sample(len(results), size, seed=seed)
    order = np.random.default_rng(seed).permutation(len(sample.chosen))
    places = [sample.chosen[place] for place in order.tolist()]
    return [Chosen(results[place], sample.probabilities[place]) for place in places]


def _equal_strata(worth: Floats, count: int) -> Ints:
    """Cut items, by their worth, into strata of about the same total worth, equal items together."""
    values, codes = np.unique(worth, return_inverse=True)
    totals = np.bincount(codes.reshape(-1)) * (values + 1e-12)
    middles = totals.cumsum() - totals / 2
    return np.asarray((middles * count / totals.sum()).astype(np.int64)[codes.reshape(-1)])


def mixed_shares(worth: Floats) -> Floats:
    """Return shares in proportion to a worth >= 0, mixed with a uniform part of `UNIFORM`."""
    share: Floats = worth / (worth.sum() or 1.0)
    return UNIFORM / len(worth) + (1 - UNIFORM) * share


def _cluster_sample(results: Sequence[TraceResult], size: int, key: str, seed: int) -> Sample:
    """Choose clusters at random, as many as hold `size` traces on average; a lone trace is one of its own."""
    clusters = [cluster_of(result.trace, key) for result in results]
    names = [(name is not None, name or result.trace_id) for name, result in zip(clusters, results, strict=True)]
    groups = list(dict.fromkeys(names))
    count = min(len(groups), max(2, -(-size * len(groups) // len(results))))
    picked = simple_random_sample(len(groups), count, seed=seed)
    taken = {groups[place] for place in picked.chosen}
    chosen = tuple(place for place, name in enumerate(names) if name in taken)
    return Sample(chosen, (count / len(groups),) * len(results))


GUESSES = {True: 0.75, False: 0.1, None: 0.4}
"""How likely a chunk is taken to be relevant by its verdict before there is a label; None: it has none."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkWorth:
    """The chunks of a run that can be labelled, and what the label of each is expected to tell."""

    results: Sequence[TraceResult]
    spots: Sequence[tuple[int, str]]
    """The place of each one's trace, and its id."""
    worth: Floats


def choose_chunks(
    run: Run, size: int, *, metric: str | None = None, seed: int = 0, worth: ChunkWorth | None = None
) -> list[Chosen]:
    """Choose single chunks at random, for labels that a correction may rest on; equal seeds choose equally.

    Without a metric every chunk has the same chance. With one (AP or RR), four fifths of the chances go by
    how far the label can move the metric of its trace times sqrt(q (1 - q)), q a guess by the verdict: what
    such labels tell of the mean is most. The chances are stated and exact either way. Chunks are drawn down
    to the deepest rank that a metric reads which single labels help; chunks with failed verdicts too. Returns
    the traces with a chosen chunk in a random order, in which one may stop, each with the chances of its chosen chunks.
    `worth` is that of the chunks (`chunk_worth`), where it is known.
    """
    made = worth or chunk_worth(run, metric)
    if not 0 < size <= len(made.spots):
        raise DataError(f"{size} chunks were requested; {len(made.spots)} chunks of this run can be labelled")
    sample = unequal_sample(mixed_shares(made.worth).tolist(), size, seed=seed)
    chosen: dict[int, dict[str, float]] = {}
    for spot in sample.chosen:
        place, chunk = made.spots[spot]
        chosen.setdefault(place, {})[chunk] = sample.probabilities[spot]
    places = np.random.default_rng(seed).permutation(list(chosen)).tolist()
    return [Chosen(made.results[place], 1.0, chosen[place]) for place in places]


def chunk_worth(run: Run, metric: str | None = None) -> ChunkWorth:
    """Collect the chunks of a run that can be labelled, with what a metric (None: none) expects of their labels."""
    if metric is not None and expected_metric(parse_metric(metric)) is None:
        raise DataError(f"{metric}: a choice of chunks can be directed at AP or RR; leave the metric out")
    names = [metric] if metric else [name for name in run.manifest.metrics if uses_chunks(name)]
    cutoffs = [parse_metric(name).cutoff for name in names]
    depth = max((c for c in cutoffs if c is not None), default=None) if None not in cutoffs else None
    results = run.results
    spots, worth = [], []
    known: dict[tuple[bool | None, ...], Floats] = {}  # by the verdicts of a trace
    for place, result in enumerate(results):
        outcomes = result.outcomes[:depth]
        verdicts = tuple(o.relevant if o.kind == "verdict" else None for o in outcomes)
        if verdicts not in known:
            known[verdicts] = _moved(metric, verdicts) if metric and outcomes else np.ones(len(outcomes))
        for outcome, value in zip(outcomes, known[verdicts].tolist(), strict=True):
            spots.append((place, outcome.chunk_id))
            worth.append(value)
    return ChunkWorth(results, spots, np.array(worth))


def _moved(metric: str, verdicts: Sequence[bool | None]) -> Floats:
    """Return how far the label of each chunk is expected to move the metric of its trace, shape (K,)."""
    expecting = expected_metric(parse_metric(metric))
    assert expecting is not None
    guess, count = np.array([GUESSES[verdict] for verdict in verdicts]), len(verdicts)
    lists = np.tile(guess, (2, count, 1))
    for side in (0, 1):
        lists[side, np.arange(count), np.arange(count)] = side
    offsets = np.arange(2 * count + 1, dtype=np.int64) * count
    table = GradeTable(np.zeros(lists.size, dtype=np.int8), offsets, maximum=1, probable=lists.ravel())
    ends = expecting.compute(table).reshape(2, count)
    result: Floats = np.abs(ends[1] - ends[0]) * np.sqrt(guess * (1 - guess))
    return result


def scale_words(scale: Scale) -> str:
    """Say which labels there are, for those who give them."""
    if scale.levels:
        levels = "; ".join(f"{grade}: {level}" for grade, level in zip(scale.grades, scale.levels, strict=True))
        labels = f"{levels}; relevant from {scale.relevant}"
    elif scale.binary:
        labels = "1 relevant, 0 not relevant; yes and no also work"
    else:
        labels = f"{scale.minimum} (lowest) to {scale.maximum} (highest); relevant from {scale.relevant}"
    return f"{labels}; leave it empty if you cannot decide"


def blind_jsonl(chosen: Sequence[Chosen], run: Run, seed: int = 0, *, then: str = "") -> str:
    """Write the traces as JSON Lines to fill in: every `label` is null, chunks are in random order."""
    # No verdict, reason, score or rank is shown; the filled file is read by `agree`, `correct` and
    # `calibrate`. The scale, and what to do then, stand in each trace's `metadata.sample`.
    scale = scale_words(scale_of(run))
    rows = []
    for pick in chosen:
        trace = pick.result.trace
        row: dict[str, Any] = {"id": pick.result.trace_id}
        row |= {"history": [turn.model_dump() for turn in trace.history]} if trace.history else {}
        row["query"] = trace.query
        row |= {k: v for k, v in (("reference", trace.reference), ("answer", trace.answer)) if v is not None}
        row["chunks"] = [
            {
                **{"id": c.id, **({"title": c.title} if c.title is not None else {}), "text": c.text},
                **({} if pick.chunks is None else {CHUNK_CHANCE: pick.chance(c)}),
                "label": None,
            }
            for c in pick.to_label(seed)
        ]
        chance = {"probability": pick.probability} if pick.chunks is None else {}
        sample = {"run": run.id, **chance, "scale": scale}
        row["metadata"] = {"sample": sample | ({"next": then} if then else {})}
        rows.append(json.dumps(row, ensure_ascii=False, allow_nan=False))
    return "\n".join(rows) + "\n"


def blind_csv(
    chosen: Sequence[Chosen], seed: int = 0, *, scale: str = "", then: str = "", safe_cells: bool = False
) -> str:
    """Write one row a chunk with an empty column `label`, chunks in random order; nothing of the judge."""
    # `safe_cells` writes cells as `safe_cell` does; an id that this would change is refused, since its labels
    # could not be matched.
    single = any(pick.chunks is not None for pick in chosen)
    columns = [CHUNK_CHANCE if single and name == "probability" else name for name in COLUMNS]
    if any(pick.result.trace.history for pick in chosen):
        columns.insert(columns.index("query"), "conversation")
    rows: list[list[object]] = [[*columns]]
    for pick in chosen:
        trace = pick.result.trace
        for chunk in pick.to_label(seed):
            row = {
                "trace_id": pick.result.trace_id,
                "chunk_id": chunk.id,
                "conversation": trace.conversation,
                "query": trace.query,
                "reference": trace.reference or "",
                "answer": trace.answer or "",
                "title": chunk.title or "",
                "text": chunk.text,
                (CHUNK_CHANCE if single else "probability"): repr(pick.chance(chunk)),
                "label": "",
                "scale": scale,
                "next": then if len(rows) == 1 else "",
            }
            safe = _safe(row) if safe_cells else row
            rows.append([safe[name] for name in columns])
    return csv_text(rows)


def _safe(row: dict[str, str]) -> dict[str, Any]:
    for name in ("trace_id", "chunk_id"):
        if safe_cell(row[name]) != row[name]:
            raise DataError(
                f"the id {row[name]!r} is a formula to a spreadsheet, and labels are matched by it; "
                "write .jsonl instead"
            )
    return {name: safe_cell(value) for name, value in row.items()}


def _can_be_labelled(result: TraceResult) -> bool:
    """Tell whether a trace has verdicts to hold labels against, and no open ones: nobody is asked about some traces."""
    asked = any(outcome.kind == "verdict" or outcome.why != NO_FAILURE for outcome in result.outcomes)
    return asked and not (result.failed and result.judgment.open)
