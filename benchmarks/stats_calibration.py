"""Simulations of how often tests reject true nulls and intervals cover the truth.

Run with `python -m benchmarks.stats_calibration [--simulations N]`; seeded, in two processes.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.chunk_labels import GAINS, METRICS, gains, hit_rates
from benchmarks.chunk_labels import coverage as chunk_labels
from benchmarks.lines import Line
from benchmarks.stats_agreement import JUDGES as AGREEING
from benchmarks.stats_agreement import agreement_coverage, annotated_means, share_coverage
from benchmarks.stats_attribution import (
    FLIPS,
    listed_parts_coverage,
    parts_coverage,
    real_parts_coverage,
    unlike_parts_coverage,
)
from benchmarks.stats_attribution import PAIRS as REAL_PAIRS
from benchmarks.stats_bias import bias_power, fake_biases
from benchmarks.stats_differences import POPULATIONS, detectable, difference_coverage, skewed_null, unreachable
from benchmarks.stats_drift import drift_alarms
from benchmarks.stats_gates import (
    CALM,
    PAIRS,
    difference_of,
    gate_errors,
    gate_planning,
    gate_power,
    gate_sight,
    slice_alarms,
    slice_power,
)
from benchmarks.stats_labels import JUDGES, average_precision, few_labels
from benchmarks.stats_planning import planned_width, sequential_coverage, stopped_coverage
from judge_eval.compare.gate import decide_drop
from judge_eval.metrics import GradeTable, Metric, parse_metric
from judge_eval.metrics.filling import rank_counts
from judge_eval.metrics.table import MISSING
from judge_eval.stats import (
    Sample,
    compare_paired,
    imbens_manski,
    mean_interval,
    ppi_mean,
    ppi_mean_sampled,
    proportion_interval,
    stratified_sample,
)

Floats = npt.NDArray[np.float64]

CHUNKS = 5
ALPHA, BETA = 2.0, 3.0
"""Each trace draws its chance of a relevant chunk from Beta(2, 3)."""
SENSITIVITY, FALSE_POSITIVES = 0.9, 0.25
"""The simulated judge is lenient, as LLM judges tend to be."""


def true_mean() -> float:
    """Return the exact mean AP of the simulated traces, over all patterns of relevance."""
    patterns = (np.arange(2**CHUNKS)[:, None] >> np.arange(CHUNKS)) & 1
    ones = patterns.sum(axis=1)
    log = [
        math.lgamma(ALPHA + k) + math.lgamma(BETA + CHUNKS - k) - math.lgamma(ALPHA + BETA + CHUNKS)
        for k in ones.tolist()
    ]
    scale = math.lgamma(ALPHA) + math.lgamma(BETA) - math.lgamma(ALPHA + BETA)
    return float(np.exp(np.array(log) - scale) @ average_precision(patterns.astype(bool)))


def draw_relevance(rng: np.random.Generator, traces: int, systems: int = 1) -> npt.NDArray[np.bool_]:
    """Return relevance of shape (systems, traces, chunks); systems share each trace's chance."""
    chance = rng.beta(ALPHA, BETA, size=(traces, 1))
    return rng.random((systems, traces, CHUNKS)) < chance


def paired_null(simulations: int, seed: int = 1, traces: int = 15) -> list[Line]:
    """Two retrievers of equal quality, few traces: how often is a difference claimed at .05?"""
    rng = np.random.default_rng(seed)
    by_t = bounded = 0
    for _ in range(simulations):
        values = average_precision(draw_relevance(rng, traces, 2))
        by_t += compare_paired(*values, planning=False).p <= 0.05
        bounded += compare_paired(*values, limits=(0.0, 1.0), planning=False).p <= 0.05
    return [
        Line(f"type I error, paired t, n={traces}", by_t / simulations, simulations, 0.03, 0.06),
        Line(f"type I error, Gaffke's bound, n={traces}", bounded / simulations, simulations, 0.0, 0.06),
    ]


def clustered_null(simulations: int, seed: int = 2, clusters: int = 20, size: int = 5) -> list[Line]:
    """Traces of one document share a difference that is 0 on average: how often is one claimed at .05?"""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(clusters), size).tolist()
    robust = naive = 0
    for _ in range(simulations):
        shared = np.repeat(rng.normal(0, 0.2, clusters), size)
        d = shared + rng.normal(0, 0.2, clusters * size)
        zero = np.zeros_like(d)
        result = compare_paired(zero, d, clusters=ids, planning=False)
        robust += result.p <= 0.05
        interval = mean_interval(d).interval
        naive += interval is not None and 0 not in interval
    return [
        Line(f"clustered null, CR1 with t(G-1), G={clusters}", robust / simulations, simulations, 0.03, 0.07),
        Line("clustered null, t that ignores the clusters", naive / simulations, simulations),
    ]


def mean_coverage(simulations: int, seed: int = 3, traces: int = 50) -> list[Line]:
    """How often does the interval of mean AP cover the true mean?"""
    rng = np.random.default_rng(seed)
    truth = true_mean()
    covered = 0
    for _ in range(simulations):
        interval = mean_interval(average_precision(draw_relevance(rng, traces)[0])).interval
        covered += interval is not None and truth in interval
    return [Line(f"coverage, t interval, n={traces}", covered / simulations, simulations, 0.93, 0.97)]


def corrected_coverage(simulations: int, seed: int = 4, labelled: int = 50, traces: int = 500) -> list[Line]:
    """How often do the corrected and the uncorrected interval cover the true mean AP of the retriever?"""
    rng = np.random.default_rng(seed)
    truth = true_mean()
    random = stratified = labels = judge_only = 0
    for k in range(simulations):
        relevant = draw_relevance(rng, traces)[0]
        noise = rng.random(relevant.shape)
        y = average_precision(relevant)
        p = average_precision(np.where(relevant, noise < SENSITIVITY, noise < FALSE_POSITIVES))
        random += truth in ppi_mean(y[:labelled], p[:labelled], p[labelled:]).interval
        sample: Sample = stratified_sample(np.digitize(p, [0.25, 0.5, 0.75]).tolist(), labelled, seed=k)
        stratified += truth in ppi_mean_sampled(y[list(sample.chosen)], p, sample).interval
        alone, uncorrected = mean_interval(y[:labelled]).interval, mean_interval(p).interval
        labels += alone is not None and truth in alone
        judge_only += uncorrected is not None and truth in uncorrected
    return [
        Line(f"coverage, PPI++, {labelled} labelled of {traces}", random / simulations, simulations, 0.93, 0.97),
        Line(f"coverage, PPI++, {labelled} labelled, stratified", stratified / simulations, simulations, 0.93, 0.97),
        Line(f"coverage, the {labelled} labels alone", labels / simulations, simulations, 0.93, 0.97),
        Line("coverage, judge only", judge_only / simulations, simulations),
    ]


def drawn_ap(rng: np.random.Generator, zeros: float, ones: float, traces: int) -> Floats:
    """Return average precisions with these shares of zeros and ones, the others uniform from .2 to .95."""
    chance, between = rng.random(traces), np.round(rng.uniform(0.2, 0.95, traces), 3)
    return np.where(chance < zeros, 0.0, np.where(chance < zeros + ones, 1.0, between))


SMALL = (
    # name, draw, true mean, least coverage at n = 10 and at n = 50, greatest width over t's at n = 50
    ("AP, 15% zeros, 60% ones", partial(drawn_ap, zeros=0.15, ones=0.60), 0.74375, 0.90, 0.93, 1.15),
    ("AP, 5% zeros, 85% ones", partial(drawn_ap, zeros=0.05, ones=0.85), 0.9075, 0.90, 0.93, None),
    ("AP, 2% zeros, 95% ones", partial(drawn_ap, zeros=0.02, ones=0.95), 0.96725, 0.88, 0.92, None),
    ("hit rate .90", lambda rng, traces: (rng.random(traces) < 0.90) * 1.0, 0.90, 0.92, 0.92, None),
    ("hit rate .97", lambda rng, traces: (rng.random(traces) < 0.97) * 1.0, 0.97, 0.92, 0.92, None),
    ("NDCG like Beta(5, 2)", lambda rng, traces: rng.beta(5, 2, traces), 5 / 7, 0.93, 0.93, 1.15),
)


def small_samples(simulations: int, seed: int = 5, populations: Sequence[int] = range(len(SMALL))) -> list[Line]:
    """How often does the interval of few bounded values cover, and how wide is it beside Student's?"""
    lines = []
    for place in populations:
        rng, (name, draw, truth, at_ten, at_fifty, wide) = np.random.default_rng((seed, place)), SMALL[place]
        for n in (5, 10, 20, 50):
            covered = by_student = width = student = 0.0
            for _ in range(simulations):
                x = draw(rng, traces=n)
                made = mean_interval(x, limits=(0.0, 1.0)).interval
                t = mean_interval(x, limits=(0.0, 1.0), method="t").interval
                covered += truth in made
                width += made.high - made.low
                student += t.high - t.low if t else 0.0
                by_student += t is not None and truth in t
            least = at_fifty if n == 50 else at_ten if n >= 10 else None
            bounds = (None, None) if least is None else (least, 1.0)
            lines.append(Line(f"coverage, {name}, n={n}", covered / simulations, simulations, *bounds))
            lines.append(Line(f"  Student's: {name}, n={n}", by_student / simulations, simulations))
            if n == 50 and wide is not None:
                lines.append(Line(f"width over t's, {name}, n={n}", width / student, simulations, 0.0, wide))
    return lines


FAILED_METRICS = ("P@5", "HitRate@5", "RR@5", "AP@5")


def exact_mean(metric: Metric) -> float:
    """Return the exact mean of a metric of the simulated traces, over all patterns of relevance."""
    patterns = (np.arange(2**CHUNKS)[:, None] >> np.arange(CHUNKS)) & 1
    chances = [math.exp(log_chance(int(ones))) for ones in patterns.sum(axis=1)]
    return float(np.array(chances) @ metric.compute(GradeTable.from_rows(patterns.tolist(), maximum=1)))


def log_chance(ones: int) -> float:
    """Return the log of the chance of one pattern with so many relevant chunks."""
    log = math.lgamma(ALPHA + ones) + math.lgamma(BETA + CHUNKS - ones) - math.lgamma(ALPHA + BETA + CHUNKS)
    return log - math.lgamma(ALPHA) - math.lgamma(BETA) + math.lgamma(ALPHA + BETA)


def failed_table(
    rng: np.random.Generator, relevant: npt.NDArray[np.bool_], share: float, ratio: float = 1.0
) -> GradeTable:
    """Return verdicts of which this share failed, relevant ones so many times as often as others."""
    of_others = share / (ALPHA / (ALPHA + BETA) * ratio + BETA / (ALPHA + BETA))
    failed = rng.random(relevant.shape) < np.where(relevant, of_others * ratio, of_others)
    grades = np.where(failed, MISSING, relevant).astype(np.int8)
    return GradeTable(grades.ravel(), np.arange(len(relevant) + 1) * CHUNKS, maximum=1)


SHARES, RATIOS = (0.02, 0.05, 0.15), (1 / 3, 1, 3, 10)
"""How many verdicts fail, and how much more often those of relevant chunks."""


def failed_means(
    simulations: int,
    seed: int = 7,
    sizes: tuple[int, ...] = (100, 300),
    shares: tuple[float, ...] = SHARES,
    ratios: tuple[float, ...] = RATIOS,
) -> list[Line]:
    """Verdicts fail, at random or more often of relevant chunks: coverage of the interval, bias of the mean.

    Beside each what a mean of those traces gives whose value no failed verdict can change ("settled"). Bias
    is the mean distance from the value under all verdicts.
    """
    metrics = [(name, parse_metric(name)) for name in FAILED_METRICS]
    truth = {name: exact_mean(metric) for name, metric in metrics}
    lines = []
    for n, share, ratio in itertools.product(sizes, shares, ratios):
        rng = np.random.default_rng((seed, n, int(share * 100), int(ratio * 100)))
        covered, settled, inside = Counter[str](), Counter[str](), 0
        bias, settled_bias = Counter[str](), Counter[str]()
        for _ in range(simulations):
            relevant = draw_relevance(rng, n)[0]
            table, whole = failed_table(rng, relevant, share, ratio), failed_table(rng, relevant, 0.0)
            counts = rank_counts(table.grades, table.offsets, 2)
            for name, metric in metrics:
                low, high, _ = metric.bounds(table)
                mean = imbens_manski(low, high, metric.expected(table, counts), limits=(0.0, 1.0))
                chosen = mean_interval(low[low == high], limits=(0.0, 1.0))
                covered[name] += truth[name] in mean.interval
                settled[name] += truth[name] in chosen.interval
                known = metric.compute(whole).mean()
                bias[name] += mean.value - known
                settled_bias[name] += chosen.value - known
                inside += low.mean() - 1e-12 <= mean.value <= high.mean() + 1e-12
        where = f"{share:.0%} failed, {ratio:.2g} : 1, n={n}"
        rate = inside / simulations / len(metrics)
        lines.append(Line(f"mean within its bounds, {where}", rate, simulations, 1.0, 1.0))
        for name in truth:
            rate, before = covered[name] / simulations, settled[name] / simulations
            lines.append(Line(f"coverage, {name}, {where}", rate, simulations, 0.93, 1.0))
            lines.append(Line(f"  settled traces: {name}, {where}", before, simulations))
            if ratio == 1:
                limit = 0.02 if share > 0.1 else 0.01
                rate, before = bias[name] / simulations, settled_bias[name] / simulations
                lines.append(Line(f"bias, {name}, {where}", rate, simulations, -limit, limit))
                lines.append(Line(f"  settled traces: bias, {name}, {where}", before, simulations))
    return lines


def few_hits(least: int = 5, most: int = 29, rates: int = 99) -> list[Line]:
    """Rates of few trials: how often do Blaker's and Wilson's interval hold the truth? Exact, no draws."""
    lines = [
        Line("  Wilson's, rate 0.97, 5 trials", _covered(5, 0.97, "wilson"), 10**9),
        Line("coverage, Blaker's, rate 0.97, 5 trials", _covered(5, 0.97, "auto"), 10**9, 0.93, 1.0),
    ]
    for name, method, low in (("coverage, Blaker's", "auto", 0.95 - 1e-9), ("  Wilson's", "wilson", None)):
        made = {
            (n, p): _covered(n, p, method)
            for n in range(least, most + 1)
            for p in np.linspace(0.5, 0.995, rates).tolist()
        }
        n, p = worst = min(made, key=made.__getitem__)
        bounds = (None, None) if low is None else (low, 1.0)
        where = f"least of {least} to {most} trials and {rates} rates (at {n} and {p:.3g})"
        lines.append(Line(f"{name}, {where}", made[worst], 10**9, *bounds))
    return lines


def _covered(n: int, p: float, method: str) -> float:
    """Return the chance that the interval of a rate of n trials holds p."""
    chances = (math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1))
    intervals = (proportion_interval(k, n, method=method).interval for k in range(n + 1))
    return sum(c for c, i in zip(chances, intervals, strict=True) if i is not None and p in i)


def failed_gates(simulations: int, seed: int = 8, traces: int = 500, share: float = 0.1) -> list[Line]:
    """A hit rate falls by .06, the limit is .05, a tenth of the verdicts fail: is the limit kept?"""
    rng, metric = np.random.default_rng(seed), parse_metric("HitRate@5")
    lost, limit = 0.06 / exact_mean(metric), 0.05
    outcomes = {way: Counter[str]() for way in ("settled traces", "all traces")}
    for _ in range(simulations):
        before = draw_relevance(rng, traces)[0]
        after = before & ~(rng.random((traces, 1)) < lost)
        tables = [failed_table(rng, relevant, share) for relevant in (before, after)]
        sides = [metric.bounds(table) for table in tables]
        values = [metric.expected(t, rank_counts(t.grades, t.offsets, 2)) for t in tables]
        known = np.all([side.low == side.high for side in sides], axis=0)
        ends = tuple((side.low, side.high) for side in sides)
        tests = {
            "settled traces": compare_paired(*(v[known] for v in values), limits=(0.0, 1.0), planning=False),
            "all traces": compare_paired(*values, ends=ends, limits=(0.0, 1.0), planning=False),
        }
        for way, test in tests.items():
            outcomes[way][decide_drop(difference_of(test, "HitRate@5"), limit)[0]] += 1
    where = f"drop .06, limit .05, {share:.0%} failed, n={traces}"
    return [
        Line(f"gate {kind}, {way}: {where}", result[kind] / simulations, simulations, *bounds)
        for way, result in outcomes.items()
        for kind, bounds in (("passed", (0.0, 0.06) if way == "all traces" else (None, None)), ("failed", (None, None)))
    ]


FULL = 10_000


def cells(simulations: int) -> list[partial[list[Line]]]:
    """Return the parts of all simulations, each with its number of draws: fewer where one takes long."""

    def draws(part: float, least: int = 50) -> int:
        return max(1, min(least, simulations // 5), round(simulations * part))  # of a smoke test one is enough

    populations, tenth, half, many = range(len(POPULATIONS)), draws(0.1), draws(0.5), draws(1)
    return [
        partial(few_hits),
        *(partial(gate_power, draws(0.4), traces=(n,)) for n in (20, 50, 100, 200)),
        *(partial(gate_errors, half, populations=(k,)) for k in range(len(PAIRS))),
        *(partial(gate_sight, tenth, traces=(n,)) for n in (20, 50, 100, 200, 500)),
        *(partial(slice_alarms, tenth, populations=(k,), slices=(m,)) for k in range(len(CALM)) for m in (5, 20, 60)),
        *(partial(slice_power, tenth, slices=(m,)) for m in (5, 20, 60)),
        *(partial(gate_planning, draws(0.2), populations=(k,)) for k in populations),
        *(partial(few_labels, draws(0.4), judges=(k,)) for k in range(len(JUDGES))),
        *(
            partial(failed_means, draws(0.2, 4), sizes=(n,), shares=(share,), ratios=(ratio,))
            for n in (100, 300)
            for share, ratio in itertools.product(SHARES, RATIOS)
        ),
        *(partial(failed_means, draws(0.2, 4), sizes=(200,), shares=(s,), ratios=(1,)) for s in (0.02, 0.05, 0.1)),
        partial(failed_gates, draws(0.4, 4)),
        *(partial(difference_coverage, half, populations=(k,)) for k in populations),
        partial(skewed_null, many),
        partial(unreachable, many),
        *(partial(detectable, draws(0.04), populations=(k,)) for k in populations),
        *(
            partial(agreement_coverage, draws(0.05, 4), traces=(n,), judges=(judge,))
            for judge in AGREEING
            for n in (20, 50, 100)
        ),
        *(partial(share_coverage, draws(0.2), judges=(judge,)) for judge in AGREEING),
        *(partial(annotated_means, draws(0.02, 4), splits=(split,)) for split in (0.0, 0.3, 1.0)),
        *(partial(parts_coverage, draws(0.1, 4), flips=(name,)) for name in FLIPS),
        *(partial(listed_parts_coverage, draws(0.1, 4), collections=(name,)) for name in ("dl19", "dl20")),
        *(partial(unlike_parts_coverage, draws(0.1, 4), overlaps=(share,)) for share in (0.5, 0.65, 0.8, 0.9)),
        *(
            partial(real_parts_coverage, draws(0.1, 4), pairs=(k,), noise=noise)
            for k in range(len(REAL_PAIRS))
            for noise in (0.6, 0.25)
        ),
        *(
            partial(drift_alarms, draws(0.4), size=size, noise=noise, mood=mood)
            for size in (1, 5, 20)
            for noise in (0.0, 0.02, 0.1)
            for mood in (0.0, 0.1, 0.3)
        ),
        *(partial(drift_alarms, draws(0.1), noise=noise, fall=0.05) for noise in (0.0, 0.02, 0.05, 0.1)),
        *(partial(small_samples, tenth, populations=(k,)) for k in range(len(SMALL))),
        *(partial(chunk_labels, draws(0.04, 4), metrics=(name,)) for name in METRICS),
        *(partial(gains, draws(0.01, 4), cases=(case,)) for case in GAINS),
        *(partial(sequential_coverage, draws(0.02, 4), judges=(k,)) for k in (0, 3, 4)),
        *(partial(stopped_coverage, draws(0.015, 4), judges=(k,)) for k in range(len(JUDGES))),
        *(partial(planned_width, draws(0.002, 4), pilot=n) for n in (60, 500)),
        *(partial(bias_power, draws(0.1, 4), traces=n, odds=odds) for n, odds in ((40, 0.8), (100, 0.8), (150, 0.5))),
        partial(fake_biases, draws(0.03, 4)),
        partial(hit_rates, many),
        partial(paired_null, many),
        partial(clustered_null, many),
        *(partial(mean_coverage, many, traces=n) for n in (20, 50)),
        partial(corrected_coverage, many),
    ]


def cached(cell: partial[list[Line]], folder: Path | None) -> list[Line]:
    """Run a part, or read its lines where it was run before by the same code."""
    if folder is None:
        return cell()
    path = folder / f"{cell.func.__name__}-{_digest(cell)}.json"
    if path.exists():
        return [Line(**each) for each in json.loads(path.read_text())]
    lines = cell()
    path.write_text(json.dumps([asdict(line) for line in lines]))
    return lines


def _digest(cell: partial[list[Line]]) -> str:
    result = hashlib.sha256(repr((cell.args, cell.keywords)).encode())
    root = Path(__file__).parents[1]
    for part in ("benchmarks/*.py", "judge_eval/stats/*.py", "judge_eval/compare/[ag]*.py"):
        for path in sorted(root.glob(part)):
            result.update(path.read_bytes())
    return result.hexdigest()[:16]


def figure(line: Line) -> str:
    """Return what a line measures, without its cell."""
    parts = re.split(r", |: ", line.name)
    places = 2 if parts[0].strip() in ("coverage", "bias", "settled traces", "type I", "power") else 1
    return ", ".join(parts[: places + (parts[1:2] == ["bias"])])


def summary(lines: Sequence[Line]) -> Iterator[str]:
    """Say of each figure of several cells what the least, the mean and the greatest rate is."""
    by_figure: dict[str, list[Line]] = {}
    for line in lines:
        by_figure.setdefault(figure(line), []).append(line)
    for name, cells in by_figure.items():
        if len(cells) > 1:
            rates = [line.rate for line in cells]
            draws = sorted({line.simulations for line in cells})
            of = f"{draws[0]}" if len(draws) == 1 else f"{draws[0]} to {draws[-1]}"
            least, mean, most = min(rates), sum(rates) / len(rates), max(rates)
            of = f"{len(cells)} cells, {of} draws"
            yield f"{name:<50} least {least:.4f}, mean {mean:.4f}, greatest {most:.4f} of {of}"


def main() -> int:
    """Print all rates, then each figure over its cells; 1 if one breaks its bounds with the default draws or more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=FULL)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="keep finished parts in this folder, and read them again")
    parser.add_argument("--only", nargs="*", help="names of parts, such as gate_power, or of their modules")
    given = parser.parse_args()
    if given.cache is not None:
        given.cache.mkdir(parents=True, exist_ok=True)
    chosen = [
        c
        for c in cells(given.simulations)
        if not given.only or {c.func.__name__, c.func.__module__.rpartition(".")[2]} & {*given.only}
    ]
    all_lines: list[Line] = []
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        for lines in pool.map(partial(cached, folder=given.cache), chosen):
            for line in lines:
                print(line, flush=True)
            all_lines += lines
    print("", *summary(all_lines), sep="\n")
    return 0 if all(line.kept for line in all_lines) or given.simulations < FULL else 1


if __name__ == "__main__":
    raise SystemExit(main())
