"""How often intervals of retrieval's and the judge's part cover the true parts (a part of `stats_calibration`)."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.lines import Line
from judge_eval.compare.attribution import attributions, part_of
from judge_eval.compare.changes import Moved, pair_traces
from judge_eval.compare.comparison import Attribution, Difference
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.runs.columns.verdict_table import VerdictTable
from judge_eval.runs.scoring.aggregate import FilledColumn
from judge_eval.schema import BINARY

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DEPTH = 10
CUTOFF = 5
_KINDS = {"to irrelevant": (0.0, 1.0), "to relevant": (1.0, 0.0), "both ways": (1.0, 1.0)}
FLIPS = {"no flips": (0.0, 0.0)} | {
    f"{share:.0%} {kind}": (share * up, share * down)
    for share in (0.01, 0.02, 0.05, 0.1)
    for kind, (up, down) in _KINDS.items()
}
"""Chances that judge B calls an irrelevant chunk relevant, and a relevant one irrelevant."""
UNLIKE = ("2% to irrelevant", "5% to relevant", "10% to irrelevant", "10% to relevant", "5% both ways")
PAIRS = (
    ("TREMA-4prompts", "willia-umbrela1"),
    ("NISTRetrieval-instruct0", "Olz-gpt4o"),
    ("h2oloo-fewself", "NISTRetrieval-reason0"),
    ("TREMA-sumdecompose", "Olz-multiprompt"),
    ("prophet-setting2", "willia-umbrela2"),
    ("TREMA-rubric0", "RMITIR-GPT4o"),
)
"""Judges of `llmjudge` that disagree on 4% to 32% of the passages."""


@dataclass(frozen=True)
class TwoRuns:
    """Lists of two retrievers over the same traces: which chunks, and what both judges say of each."""

    lists: tuple[Ints, Ints]
    """Numbers of chunks, shape (traces, depth); the same number in both is the same chunk."""
    verdicts: tuple[Ints, Ints]
    """By judge, of every chunk of each trace: shape (traces, chunks)."""

    def grades(self, retriever: int, judge: int) -> Ints:
        """Return the grades of a retriever's lists by a judge, shape (traces, depth)."""
        return np.take_along_axis(self.verdicts[judge], self.lists[retriever], axis=1)


def draw(
    rng: np.random.Generator,
    traces: int,
    overlap: float,
    flips: tuple[float, float],
    relevance: tuple[float, float] = (1.0, 1.0),
    more: float = 1.0,
) -> TwoRuns:
    """Draw lists whose chunks are shared with a chance, by judges that disagree with fixed chances.

    `relevance`: how often chunks of both lists, and of one alone, are relevant, by what they are elsewhere. `more`: how
    many times as often verdicts on chunks of one list alone flip.
    """
    chance = rng.beta(1.2, 2.0, (traces, 1)) * np.linspace(1.1, 0.6, DEPTH)
    chances = np.concatenate([chance, np.clip(chance - 0.05, 0, 1)], axis=1)
    places = np.tile(np.arange(DEPTH), (traces, 1))
    both = rng.random(places.shape) < overlap
    in_both = np.concatenate([both, np.zeros_like(both)], axis=1)
    chances = np.clip(chances * np.where(in_both, *relevance), 0, 1)
    first = (rng.random(chances.shape) < chances).astype(np.int64)
    up, down = flips
    flipped = rng.random(chances.shape) < np.where(first == 1, down, up) * np.where(in_both, 1.0, more)
    other = np.where(both, places, places + DEPTH)
    order = np.argsort(np.arange(DEPTH) + rng.normal(0, 1.0, places.shape), axis=1)
    return TwoRuns((places, np.take_along_axis(other, order, axis=1)), (first, np.where(flipped, 1 - first, first)))


def columns_of_lists(lists: Ints, grades: Ints, metric: str) -> VerdictTable:
    """Make the columns of a run, scored by one metric."""
    n, depth = lists.shape
    numbers = np.arange(n, dtype=np.uint64)
    flat = grades.reshape(-1).astype(np.int8)
    starts = np.arange(n + 1) * depth
    scores = parse_metric(metric).compute(GradeTable(flat, starts, maximum=1))
    passages = (numbers[:, None] * np.uint64(10_000) + lists.astype(np.uint64)).reshape(-1)
    codes = np.zeros(n, dtype=np.int32)
    return VerdictTable(
        metrics=(metric,), positions=np.arange(n), ids=np.column_stack([numbers, numbers]), questions=numbers,
        searches=numbers, unanswerable=np.zeros(n, dtype=np.bool_),
        clusters=np.zeros(n, np.uint64), scores=scores[:, None], letters=np.arange(n), names=((),), tags=codes,
        languages=codes, scripts=codes, sources=codes, starts=starts, chunk_ids=passages, passages=passages,
        grades=flat, labels=np.full(len(flat), -1, dtype=np.int8), likely=np.zeros(0),
    )  # fmt: skip


def split(runs: TwoRuns, metric: str) -> Attribution:
    """Split the difference of two runs, each judged by its own judge."""
    made = [columns_of_lists(runs.lists[k], runs.grades(k, k), metric) for k in (0, 1)]
    pairing = pair_traces(*made)
    filled = [FilledColumn(each.scores, each.scores, each.scores) for each in made]
    moved = Moved(
        (),  # type: ignore[arg-type]  # only a metric that needs totals reads the runs
        (BINARY, BINARY),
        1,
        pairing,
        np.zeros(len(pairing), dtype=np.int8),
        None,
        (np.zeros(len(pairing), dtype=np.bool_),),
        filled[0],
        filled[1],
    )
    means = [float(each.scores.mean()) for each in made]
    difference = Difference(
        metric=metric, candidate=1, n=len(pairing), baseline_mean=means[0], candidate_mean=means[1],
        difference=means[1] - means[0], p=1.0, p_holm=1.0, wins=0, ties=0, losses=0,
    )  # fmt: skip
    (result,) = attributions(moved, "a to b", [difference])
    return result


def true_parts(runs: TwoRuns) -> tuple[float, float]:
    """Return retrieval's and the judge's part of the difference in AP@5, with all verdicts of both judges known."""
    means = [[float(precisions(runs.grades(r, j)[:, :CUTOFF]).mean()) for j in (0, 1)] for r in (0, 1)]
    retrieval = (means[1][0] - means[0][0] + means[1][1] - means[0][1]) / 2
    return retrieval, means[1][1] - means[0][0] - retrieval


def precisions(relevant: Floats | Ints) -> Floats:
    """Return the average precision of each list, shape (lists,)."""
    hits = relevant.sum(axis=1)
    sums = (relevant * relevant.cumsum(axis=1) / np.arange(1, relevant.shape[1] + 1)).sum(axis=1)
    return np.where(hits > 0, sums / np.maximum(hits, 1), 0.0)


_PATTERNS = precisions((np.arange(2**CUTOFF)[:, None] >> np.arange(CUTOFF)) & 1)


def expected_precisions(chances: Floats) -> Floats:
    """Return the expected AP@5 of lists whose chunks are relevant with these chances, shape (lists,)."""
    values, rows = precisions(chances), ((chances > 0) & (chances < 1)).any(axis=1)
    weights = np.ones((int(rows.sum()), 1))
    for rank in range(CUTOFF):
        one = chances[rows, rank, None]
        weights = np.concatenate([weights * (1 - one), weights * one], axis=1)
    values[rows] = weights @ _PATTERNS
    return values


def pseudo_values(runs: TwoRuns, draws: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return of many draws at once, one after the other, what `attributions` makes of AP@5: a test holds them equal.

    Returns:
        Retrieval's and the judge's part of each trace, and what it adds to retrieval's through the rates of flips,
        shape (draws, traces) each; how far the envelope of retrieval's part reaches below and above it, shape
        (draws, 2).
    """
    chunks, draw_of = runs.verdicts[0].shape[1], np.repeat(np.arange(draws), len(runs.lists[0]) // draws)
    there = [np.zeros((len(draw_of), chunks), dtype=np.bool_) for _ in (0, 1)]
    for mask, lists in zip(there, runs.lists, strict=True):
        np.put_along_axis(mask, lists, values=True, axis=1)
    own = [precisions(runs.grades(k, k)[:, :CUTOFF]) for k in (0, 1)]
    alike, crossed, influences = (runs.lists[0] == runs.lists[1]).all(axis=1), list[Floats](), list[Floats]()
    corners = list[Floats]()
    for k in (0, 1):
        mine, other = runs.grades(k, k), runs.grades(k, 1 - k)
        shared = np.take_along_axis(there[1 - k], runs.lists[k], axis=1)
        cells = [[(shared & (mine == grade) & (other >= y)).sum(axis=1) for grade in (0, 1)] for y in (0, 1)]
        count, flipped = np.array([[np.bincount(draw_of, each, draws) for each in side] for side in cells])
        usual = flipped.sum(axis=0) / np.maximum(count.sum(axis=0), 1)
        rates = np.where(count > 0, flipped / np.maximum(count, 1), usual)
        missing, through = ~shared[:, :CUTOFF], np.zeros(len(draw_of))
        chances, parts_of = other[:, :CUTOFF].astype(np.float64), []
        for grade in (0, 1):
            rate, sizes, hits = rates[grade, draw_of], cells[0][grade], cells[1][grade]
            weight = _alike(sizes, hits, rates[grade], draw_of, draws)
            here = missing & (mine[:, :CUTOFF] == grade)
            chances = np.where(here, ((rate + weight * hits) / (1 + weight * sizes))[:, None], chances)
            parts_of.append((here, 1 / (1 + weight * sizes)))
        values = expected_precisions(chances)
        corners.append(np.zeros((8, draws)))
        prevalence = [np.bincount(draw_of, here.sum(axis=1), draws) for here, _ in parts_of]
        prevalent = prevalence[1] / np.maximum(prevalence[0] + prevalence[1], 1)
        by_prevalence = partial(_by_prevalence, count, flipped, rates, prevalent, draw_of, sum(cells[0]), sum(cells[1]))
        for corner, (up, down, by) in zip(corners[-1], product((0.45, 2.25), (0.45, 2.25), (False, True)), strict=True):
            if by:
                turned = by_prevalence(up, down)[mine[:, :CUTOFF], np.arange(len(mine))[:, None]]
                flips_of = np.where(missing, turned, chances)
            else:
                rise, fall = np.minimum(chances * up, 1.0), np.maximum(1 - (1 - chances) * down, 0.0)
                flips_of = np.where(missing, np.where(mine[:, :CUTOFF] == 0, rise, fall), chances)
            there_ = np.where(alike, own[1 - k], expected_precisions(flips_of))
            corner += np.bincount(draw_of, there_ - np.where(alike, own[1 - k], values), draws) * draws / len(draw_of)
        for grade, (here, moves) in enumerate(parts_of):
            rate = rates[grade, draw_of]
            rows = here.any(axis=1) & (rate > 0) & (rate < 1) & ~alike
            step, slopes = 1e-4 * np.where(rate < 0.5, 1, -1), np.zeros(len(draw_of))
            moved = expected_precisions((chances + here * (step * moves)[:, None])[rows])
            slopes[rows] = (moved - values[rows]) / step[rows]
            weight = np.bincount(draw_of, slopes, draws) / np.maximum(count[grade], 1)
            through += weight[draw_of] * ((other - rate[:, None]) * (shared & (mine == grade))).sum(axis=1)
        crossed.append(np.where(alike, own[1 - k], values))
        influences.append(through)
    retrieval = (crossed[1] - own[0] + own[1] - crossed[0]) / 2
    parts = retrieval, own[1] - own[0] - retrieval, (influences[1] - influences[0]) / 2
    low, high = (corners[1].min(axis=0) - corners[0].max(axis=0)), (corners[1].max(axis=0) - corners[0].min(axis=0))
    reach = np.column_stack([np.minimum(low / 2, 0.0), np.maximum(high / 2, 0.0)])
    return *(each.reshape(draws, -1) for each in parts), reach  # type: ignore[return-value]


def _alike(sizes: Ints, hits: Ints, rate: Floats, draw_of: Ints, draws: int) -> Floats:
    """Return what one chunk of a trace tells of its others, where all together tell 1: of each trace, shape (n,)."""
    over = np.bincount(draw_of, (hits - sizes * rate[draw_of]) ** 2 - sizes * (rate * (1 - rate))[draw_of], draws)
    most = np.bincount(draw_of, sizes * (sizes - 1) * (rate * (1 - rate))[draw_of], draws)
    like = np.clip(np.where(most > 1e-12, over / np.maximum(most, 1e-12), 0.0), 0.0, 0.99)[draw_of]
    return np.asarray(like / (1 - like))


def _by_prevalence(
    count: Floats, flipped: Floats, rates: Floats, prevalent: Floats, draw_of: Ints, sizes: Ints, hits: Ints,
    up: float, down: float,
) -> Floats:  # fmt: skip
    """Return P(relevant by the other judge | own verdict) of unshared chunks by Bayes' theorem, shape (2, traces).

    Args:
        count: By own verdict, how many chunks are shared, shape (2, draws).
        flipped: Likewise those that the other judge calls relevant.
        rates: Their ratio.
        prevalent: The share of unshared chunks that the own judge calls relevant, shape (draws,).
        draw_of: The draw of each trace, shape (traces,).
        sizes: How many chunks of each trace are shared.
        hits: How many of these the other judge calls relevant.
        up: How many times as often the other judge gives the higher verdict.
        down: Likewise the lower one.
    """
    others = count.sum(axis=0) - flipped.sum(axis=0), flipped.sum(axis=0)
    # By the other judge's verdict, the chance that the own one differs.
    unlike_0 = np.minimum((count[1] - flipped[1]) / np.maximum(others[0], 1) * down, 1.0)
    unlike_1 = np.minimum(flipped[0] / np.maximum(others[1], 1) * up, 1.0)
    gap = 1 - unlike_0 - unlike_1
    share = np.clip((prevalent - unlike_0) / np.where(np.abs(gap) > 1e-12, gap, 1.0), 0, 1)
    usual = others[1] / (others[0] + others[1])
    weight = _alike(sizes, hits, usual, draw_of, len(usual))
    prior = (usual[draw_of] + weight * hits) / (1 + weight * sizes)
    high = prior * (share / np.where(usual > 0, usual, 1.0))[draw_of]
    low = (1 - prior) * ((1 - share) / np.where(usual < 1, 1 - usual, 1.0))[draw_of]
    out = rates[:, draw_of]
    for grade, (by_0, by_1) in enumerate(((1 - unlike_0, unlike_1), (unlike_0, 1 - unlike_1))):
        one, none = high * by_1[draw_of], low * by_0[draw_of]
        out[grade] = np.where(one + none > 1e-12, one / np.maximum(one + none, 1e-12), out[grade])
    return out


def covered(
    label: str, make: Callable[[int], TwoRuns], traces: int, draws: int, truth: tuple[float, float], bar: float
) -> list[Line]:
    """Draw traces many times; how often do both intervals hold, and how far off are the parts on average?"""
    held, bare, off, widths, beyond, done = np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2), 0
    block = max(1, 15_000 // traces)
    while done < draws:
        here = min(block, draws - done)
        retrieval, judge, through, reach = pseudo_values(make(here * traces), here)
        sides = (retrieval, through, reach), (judge, -through, -reach[:, ::-1])
        for k, (values, columns, reaches) in enumerate(sides):
            for row, column, (down, up) in zip(values, columns, reaches.tolist(), strict=True):
                part = part_of(row, column, None, 1.0, reach=(down, up))
                assert part.interval is not None
                low, high = part.interval
                bare[k] += low - down - 1e-9 <= truth[k] <= high - up + 1e-9
                held[k] += low - 1e-9 <= truth[k] <= high + 1e-9
                off[k], widths[k] = off[k] + part.value - truth[k], widths[k] + (high - low) / 2
                if k == 0:
                    lowest = [each for each in (part.lower, part.t_lower) if each is not None]
                    highest = [each for each in (part.upper, part.t_upper) if each is not None]
                    beyond += max(lowest) > truth[0] + 1e-9, min(highest) < truth[0] - 1e-9
        done += here
    lines = []
    for k, part_name in enumerate(("retrieval", "judge")):
        lines.append(Line(f"{part_name}, {label}", float(held[k] / draws), draws, bar, 1.0))
        lines.append(Line(f"  without its envelope: {part_name}, {label}", float(bare[k] / draws), draws))
        lines.append(Line(f"bias of {part_name}, {label}", float(off[k] / draws), draws))
        lines.append(Line(f"half width of {part_name}, {label}", float(widths[k] / draws), draws))
    for way, count in zip(("above", "below"), beyond.tolist(), strict=True):
        lines.append(Line(f"bound {way} the truth, {label}", count / draws, draws, 0.0, 0.07))
    return lines


def parts_coverage(
    simulations: int,
    seed: int = 71,
    flips: Sequence[str] = tuple(FLIPS),
    overlaps: tuple[float, ...] = (0.5, 0.66, 0.8, 1.0),
    sizes: tuple[int, ...] = (30, 100, 300),
    population: int = 400_000,
) -> list[Line]:
    """Seeded flips: how often do the intervals cover the true parts?"""
    lines = []
    for name, overlap in product(flips, overlaps):
        rng = np.random.default_rng((seed, list(FLIPS).index(name), int(overlap * 100)))
        truth = true_parts(draw(rng, population, overlap, FLIPS[name]))
        for n in sizes:
            make = partial(draw, rng, overlap=overlap, flips=FLIPS[name])
            lines += covered(f"{overlap:.0%} shared, n={n}, {name}", make, n, simulations, truth, 0.93)
    return lines


def unlike_parts_coverage(
    simulations: int,
    seed: int = 73,
    flips: Sequence[str] = UNLIKE,
    overlaps: tuple[float, ...] = (0.5, 0.65, 0.8, 0.9),
    sizes: tuple[int, ...] = (30, 100, 300),
    population: int = 400_000,
) -> list[Line]:
    """Chunks of one list alone are relevant less often (about .25 and .5) and flip twice as often."""
    lines = []
    for name, overlap in product(flips, overlaps):
        rng = np.random.default_rng((seed, list(FLIPS).index(name), int(overlap * 100)))
        make_of = partial(draw, overlap=overlap, flips=FLIPS[name], relevance=(1.6, 0.8), more=2.0)
        truth = true_parts(make_of(rng, population))
        for n in sizes:
            label = f"{overlap:.0%} shared, unlike, n={n}, {name}"
            lines += covered(label, partial(make_of, rng), n, simulations, truth, 0.93)
    return lines


def _conformance(name: str) -> Path | None:
    """Return a folder of the conformance data; None where they are not there."""
    named = os.environ.get("JUDGE_EVAL_CONFORMANCE_DATA")
    folder = (Path(named) if named else Path(__file__).parents[2] / "shared" / "data") / name
    return folder if folder.is_dir() else None


def real_parts_coverage(
    simulations: int,
    seed: int = 72,
    pairs: tuple[int, ...] = (0,),
    sizes: tuple[int, ...] = (30, 100, 300),
    noise: float = 0.6,
    population: int = 200_000,
) -> list[Line]:
    """Pairs of real judges of the same passages: coverage and bias; nothing without the conformance data."""
    folder = _conformance("llmjudge")
    if folder is None:
        return []
    with gzip.open(folder / "labels_wide.tsv.gz", "rt", encoding="utf-8") as file:
        head, *rows = csv.reader(file, delimiter="\t")
    queries = np.unique([row[0] for row in rows], return_inverse=True)[1]
    grades = np.array([row[2:] for row in rows], dtype=np.int64)
    by_name = {name: grades[:, k] for k, name in enumerate(head[2:])}
    rng = np.random.default_rng(seed)
    lines = []
    for first, second in (PAIRS[k] for k in pairs):
        verdicts = [(by_name[name] >= 2).astype(np.int64) for name in (first, second)]
        apart = float((verdicts[0] != verdicts[1]).mean())
        make = partial(_real, rng, queries=queries, human=grades[:, 0], verdicts=verdicts, noise=noise)
        big = make(population)
        shared = np.mean([np.isin(a, b).mean() for a, b in zip(big.lists[0][:500], big.lists[1][:500], strict=True)])
        for n in sizes:
            label = f"{first} to {second} ({apart:.0%} apart), {shared:.0%} shared, n={n}"
            lines += covered(label, make, n, simulations, true_parts(big), 0.93)
    return lines


def _real(
    rng: np.random.Generator, traces: int, queries: Ints, human: Ints, verdicts: list[Ints], noise: float
) -> TwoRuns:
    """Draw traces of a query and 40 of its passages; both retrievers rank by the human grade and their own noise."""
    counts = np.bincount(queries)
    passages = np.full((len(counts), counts.max()), -1)
    for query, count in enumerate(counts):
        passages[query, :count] = np.flatnonzero(queries == query)
    those = passages[rng.integers(len(counts), size=traces)]
    keys = np.where(those < 0, 2.0, rng.random(those.shape))
    picked = np.take_along_axis(those, np.argpartition(keys, 40, axis=1)[:, :40], axis=1)
    common = human[picked] + rng.normal(0, 1.0, picked.shape)
    ranks = [np.argsort(-(common + rng.normal(0, noise, picked.shape)), axis=1)[:, :DEPTH] for _ in range(2)]
    return TwoRuns((ranks[0], ranks[1]), (verdicts[0][picked], verdicts[1][picked]))


LISTS = (
    ("BM25", "REP_LLAMA"),
    ("BM25", "D_BERT_KD_TASB"),
    ("SPLADE_P_P_ENSEMBLE_DISTIL", "REP_LLAMA"),
    ("BM25", "BM25_RM3"),
)
"""Retrievers of TREC DL whose first ten passages have 27% to 72% in common."""
READERS = {
    "5% both ways": ((0.05, 0.05), (0.05, 0.05)),
    "lenient after strict": ((0.02, 0.15), (0.10, 0.02)),
    "strict after lenient": ((0.10, 0.02), (0.02, 0.15)),
}
"""Chances that judge A and judge B call an irrelevant passage relevant, and a relevant one irrelevant."""


def listed_parts_coverage(
    simulations: int,
    seed: int = 74,
    collections: Sequence[str] = ("dl19", "dl20"),
    sizes: tuple[int, ...] = (50, 200),
    population: int = 200_000,
) -> list[Line]:
    """Lists of real retrievers, judged by two judges with errors of their own; nothing without the conformance data."""
    folder = _conformance("pools")
    lines: list[Line] = []
    for collection, names, readers in product(collections if folder else (), LISTS, READERS):
        assert folder is not None
        place = folder / collection
        with gzip.open(next(place.glob("qrels*.gz")), "rt") as file:
            grades = {(q, d): int(g) for q, _, d, g in (line.split() for line in file)}
        runs = []
        for name in names:
            runs.append(dict[str, list[str]]())
            with gzip.open(place / f"{name}.run.gz", "rt") as file:
                for line in file:
                    query, _, passage = line.split()[:3]
                    if len(ranked := runs[-1].setdefault(query, [])) < DEPTH:
                        ranked.append(passage)
        queries = [q for q in runs[0] if len(runs[0][q]) == DEPTH == len(runs[1].get(q, ()))]
        numbers, relevant = np.zeros((2, len(queries), DEPTH), np.int64), np.zeros((len(queries), 2 * DEPTH), np.int64)
        for row, query in enumerate(queries):
            known = list(dict.fromkeys(runs[0][query] + runs[1][query]))
            relevant[row, : len(known)] = [grades.get((query, passage), 0) >= 2 for passage in known]
            for k in (0, 1):
                numbers[k, row] = [known.index(passage) for passage in runs[k][query]]
        shared = np.mean([len(set(a[:CUTOFF]) & set(b)) / CUTOFF for a, b in zip(*numbers.tolist(), strict=True)])
        rng = np.random.default_rng((seed, len(queries), LISTS.index(names), list(READERS).index(readers)))
        make = partial(_listed, rng, lists=numbers, relevant=relevant, flips=READERS[readers])
        truth = true_parts(make(population))
        for n in sizes:
            where = f"{collection}, {names[0]} to {names[1]}, {shared:.0%} shared, n={n}, {readers}"
            lines += covered(where, make, n, simulations, truth, 0.93)
    return lines


def _listed(
    rng: np.random.Generator, traces: int, lists: Ints, relevant: Ints, flips: tuple[tuple[float, float], ...]
) -> TwoRuns:
    rows = rng.integers(lists.shape[1], size=traces)
    true = relevant[rows]
    verdicts = [np.where(rng.random(true.shape) < np.where(true == 1, down, up), 1 - true, true) for up, down in flips]
    return TwoRuns((lists[0][rows], lists[1][rows]), (verdicts[0], verdicts[1]))
