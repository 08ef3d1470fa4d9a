from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from judge_eval.stats.pool_sampling import SampledPool, draw_strata, drawn_surely, inferred_ndcg, x_inferred_ap

GRADES = np.array([1, 0, 2, 0, 1, 1, 0, 0, 1, 0, 0, 2])
STRATA = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2])
TAKEN = {0: 3, 1: 2, 2: 3}
RANKED = [0, 4, 2, -1, 3, 8, 5, 7, 1, 11]
"""A list of 10 ranks; the fourth chunk is not in the pool, and some of the pool are not in the list."""


def every_sample() -> list[np.ndarray]:
    """Return the grades of every sample that the strata allow, each as likely as the others."""
    choices = [itertools.combinations(np.flatnonzero(code == STRATA), take) for code, take in TAKEN.items()]
    return [
        np.where(np.isin(np.arange(12), np.concatenate(chosen)), GRADES, -1) for chosen in itertools.product(*choices)
    ]


def test_sums_are_unbiased_over_all_samples() -> None:
    """P, DCG, the count of relevant chunks and the sum of precisions average to the truth over all 60 samples."""
    samples = [SampledPool(grades, STRATA) for grades in every_sample()]
    assert len(samples) == 60
    relevant = [GRADES[place] > 0 if place >= 0 else False for place in RANKED]
    precisions = sum(sum(relevant[:rank]) / rank for rank in range(1, 11) if relevant[rank - 1])
    gains = sum(GRADES[p] / math.log2(rank + 1) for rank, p in enumerate(RANKED[:5], 1) if p >= 0)
    estimates = [pool.estimates(RANKED, 5) for pool in samples]
    assert np.mean([each["P@5"].value for each in estimates]) == pytest.approx(sum(relevant[:5]) / 5)
    assert np.mean([each["DCG@5"].value for each in estimates]) == pytest.approx(gains)
    assert np.mean([pool.relevant for pool in samples]) == pytest.approx((GRADES > 0).sum())
    ranks = np.zeros(12)
    for rank, place in enumerate(RANKED, 1):
        if place >= 0:
            ranks[place] = rank
    sums = [pool._precisions(np.array([p for p in RANKED if p >= 0 and pool.hits[p]]), ranks)[0] for pool in samples]
    assert np.mean(sums) == pytest.approx(precisions)


@pytest.mark.parametrize("place", range(3, 12))
def test_recall_is_unbiased_where_one_relevant_chunk_can_be_missed(place: int) -> None:
    """Over all samples it averages to the truth, wherever that chunk stands; the ratio of sums does not."""
    grades = np.where(np.arange(12) == place, 1, np.where(STRATA == 0, GRADES, 0))
    samples = [SampledPool(np.where(each >= 0, grades, -1), STRATA) for each in every_sample()]
    truth = SampledPool(grades, np.zeros(12, dtype=int)).estimates(RANKED, 5)["Recall@5"].value
    assert np.mean([pool.estimates(RANKED, 5)["Recall@5"].value for pool in samples]) == pytest.approx(truth)


def test_the_variance_of_a_sum_is_unbiased() -> None:
    """The estimated variance of P@5 averages to the variance of the estimates over all samples."""
    estimates = [SampledPool(grades, STRATA).estimates(RANKED, 5)["P@5"] for grades in every_sample()]
    assert np.mean([each.variance for each in estimates]) == pytest.approx(np.var([each.value for each in estimates]))


def test_a_pool_that_is_judged_in_full_has_the_metrics_themselves() -> None:
    """Without sampling each estimate is the metric, with no variance."""
    made = SampledPool(GRADES, np.zeros(12, dtype=int)).estimates(RANKED, 5)
    relevant = [GRADES[place] > 0 if place >= 0 else False for place in RANKED]
    average = sum(sum(relevant[:rank]) / rank for rank in range(1, 11) if relevant[rank - 1]) / 6
    ideal = sum(g / math.log2(rank + 1) for rank, g in enumerate([2, 2, 1, 1, 1], 1))
    assert made["AP"] == (pytest.approx(average), 0)
    assert made["Recall@5"] == (pytest.approx(sum(relevant[:5]) / 6), 0)
    assert made["NDCG@5"] == (pytest.approx(made["DCG@5"].value / ideal), 0)


SAMPLE_EVAL = [
    (0.4042882311, 0.4403828434), (0.5239175484, 0.9815072802), (0.2171553379, 0.3937574983),
    (0.3067034966, 0.3894437625), (0.2604952454, 0.4052796514), (0.4615505788, 0.5478334869),
    (0.3139316361, 0.3866366470), (0.4013066735, 0.5644732427), (0.3903607929, 0.7690813813),
    (0.3159227047, 0.4073724226), (0.3701176210, 0.4083241632), (0.2361483726, 0.4391203470),
    (0.2204582754, 0.5866922010), (0.6817398188, 0.9445024212), (0.3843424543, 0.5361906270),
    (0.3735852111, 0.3788575226), (0.2387840031, 0.3010070443), (0.5048895705, 0.7370566432),
    (0.4726452439, 0.7083007283), (0.3752140712, 0.5900751149),
]  # fmt: skip
"""infAP and infNDCG of the toys below, by the statements of TREC's sample_eval.pl (version of 10 October 2011, as in
amillert/TREC-elastic 3f3bb0a) under Perl 5.36, printed with ten decimals in place of four."""


@pytest.mark.parametrize("seed", range(20))
def test_inferred_metrics_equal_sample_eval(seed: int) -> None:
    """XinfAP and infNDCG are those of the script, with a stratum that nobody judged and chunks outside the pool too."""
    rng = np.random.default_rng(seed)
    strata = rng.integers(0, 4, 40)
    grades = np.where(rng.random(40) < 0.5, rng.integers(0, 4, 40), -1)
    grades[strata == 3] = -1
    ranked = [*rng.permutation(40)[:25].tolist(), -1, -1]
    rng.shuffle(ranked)
    pool = SampledPool(grades, strata)
    assert (x_inferred_ap(pool, ranked), inferred_ndcg(pool, ranked)) == pytest.approx(SAMPLE_EVAL[seed], abs=1e-10)


def test_the_draw_keeps_its_promises() -> None:
    """The first chunks surely, about as many as asked for, two of each stratum, the likely ones more often."""
    likely, sure = np.linspace(1, 0, 100), np.arange(100) < 3
    numbers = np.random.default_rng(1).random(100)
    drawn, strata = draw_strata(likely, sure, 33, numbers)
    assert drawn[:3].all()
    assert drawn.sum() == 33
    rates = [drawn[strata == code].mean() for code in range(1, strata.max() + 1)]
    assert all((drawn & (strata == code)).sum() >= 2 for code in range(1, strata.max() + 1))
    assert rates[0] > 2 * rates[-1] > 0
    again, _ = draw_strata(likely, sure, 33, numbers)
    assert (again == drawn).all()
    few, _ = draw_strata(likely[:2], sure[:2], 5, numbers[:2])
    assert few.all()


def test_first_ranks_are_drawn_as_far_as_the_sample_goes() -> None:
    """Three ranks always; down to the cutoff while they leave half of the sample, and of a large one 14 chunks."""
    ranks = np.arange(1, 41)
    assert [int(drawn_surely(ranks, size, 10).sum()) for size in (2, 4, 8, 12, 20, 40)] == [3, 3, 4, 6, 10, 10]
    assert int(drawn_surely(np.repeat(ranks, 3), 36, 10).sum()) == 21


def test_lists_that_share_chunks_share_their_samples() -> None:
    """A chunk keeps its number: of a stratum in common the same ones are drawn."""
    numbers = np.random.default_rng(0).random(60)
    first, _ = draw_strata(np.linspace(1, 0, 60), np.zeros(60, dtype=bool), 20, numbers)
    second, _ = draw_strata(np.linspace(1, 0, 60) + 0.001 * numbers, np.zeros(60, dtype=bool), 20, numbers)
    assert (first & second).sum() >= 15


def test_a_sample_of_known_pools_is_nearly_unbiased() -> None:
    """Simulated questions at 30%: AP and NDCG are within .02 of full judging on average over draws."""
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(100):
        chance = 0.6 * np.exp(-np.arange(80) / 15)
        grades = (rng.random(80) < chance).astype(int)
        ranked = np.argsort(np.arange(80) + rng.normal(0, 8, 80))
        full = SampledPool(grades, np.zeros(80, dtype=int)).estimates(ranked, 10)
        drawn, strata = draw_strata(chance, drawn_surely(np.arange(1, 81), 24, 10), 24, rng.random(80))
        made = SampledPool(np.where(drawn, grades, -1), strata).estimates(ranked, 10)
        errors.append([made[name].value - full[name].value for name in ("AP", "NDCG@10")])
    assert np.abs(np.mean(errors, axis=0)).max() < 0.02
