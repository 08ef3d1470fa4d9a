import warnings

import numpy as np
import pytest
import scipy.stats

from judge_eval.stats import Sample, ppi_mean, ppi_mean_sampled, rogan_gladen, simple_random_sample, stratified_sample
from judge_eval.views.note_sentences import note_sentence
from tests.support.notes import note_sentences

pytestmark = pytest.mark.foreign

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate


def labelled(n: int = 60, total: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Metric values under human labels and under a lenient judge, and the judge's on the other traces."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(2, 3, total)
    judge = np.clip(truth + 0.15 + rng.normal(0, 0.15, total), 0, 1)
    return truth[:n], judge[:n], judge[n:]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("n", "level"), [(5, 0.9), (60, 0.95), (300, 0.99)])
def test_ppi_equals_ppi_py(seed: int, n: int, level: float) -> None:
    """Estimate and error are those of the authors' package to 1e-9, with its tuned power.

    The interval is wider than theirs as t is than the normal, and for what was estimated.
    """
    y, p, q = labelled(n, 400, seed)
    result = ppi_mean(y, p, q, level=level)
    low, high = ppi_mean_ci(y, p, q, alpha=1 - level)
    z = scipy.stats.norm.ppf((1 + level) / 2)
    assert result.standard_error == pytest.approx((high[0] - low[0]) / 2 / z, abs=1e-9)
    half = scipy.stats.t.ppf((1 + level) / 2, n - 1) * np.sqrt(n / (n - 2)) * result.standard_error
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == pytest.approx(
        (result.value - half, result.value + half), abs=1e-9
    )
    centre = float(ppi_mean_pointestimate(y, p, q, lam=result.power)[0])
    assert result.value == pytest.approx(centre, abs=1e-9)
    assert result.value == pytest.approx((low[0] + high[0]) / 2, abs=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_ppi_power_is_clipped_as_in_ppi_py(sign: int) -> None:
    """A judge that contradicts people gets power 0, one that exaggerates too little at most 1."""
    rng = np.random.default_rng(1)
    y = rng.random(50)
    p, q = sign * y / 4, sign * rng.random(2000) / 4
    result = ppi_mean(y, p, q)
    low, high = ppi_mean_ci(y, p, q, alpha=0.05)
    assert result.power == (1 if sign > 0 else 0)
    assert result.value == pytest.approx((low[0] + high[0]) / 2, abs=1e-9)
    assert result.standard_error == pytest.approx((high[0] - low[0]) / 2 / 1.959963985, abs=1e-9)


def test_ppi_of_a_useless_judge_is_the_labels() -> None:
    """A judge that always says the same adds nothing: power 0, the mean of the labels alone."""
    y = np.random.default_rng(2).random(60)
    result = ppi_mean(y, np.ones(60), np.ones(300))
    assert result.power == 0
    assert result.value == pytest.approx(y.mean(), abs=1e-15)
    assert result.effective_n == pytest.approx(60)
    assert result.judge_only == 1


def test_ppi_of_a_good_judge_is_worth_more_labels() -> None:
    """A judge that follows people narrows the interval, and says by how many labels' worth."""
    result = ppi_mean(*labelled())
    y, _, _ = labelled()
    assert result.effective_n is not None
    assert result.effective_n > 80
    assert result.effective_n == pytest.approx(y.var() / result.standard_error**2)
    assert result.labels_only == y.mean()


def test_ppi_warns_of_few_labels() -> None:
    """Under 100 labelled traces, or clusters, there is a warning, from 100 on there is none."""
    assert "only 99 labelled" in note_sentence(ppi_mean(*labelled(99)).warnings[0])
    assert "only 99 labelled" in note_sentence(ppi_mean(*labelled(99)).warnings[0])
    assert ppi_mean(*labelled(100)).warnings == ()
    pairs = [k // 2 for k in range(400)]
    assert "in 50 clusters" in note_sentence(ppi_mean(*labelled(100), clusters=pairs).warnings[0])


def test_ppi_needs_labelled_and_other_traces() -> None:
    """One labelled trace, no other trace, unequal lengths or a missing value are refused."""
    with pytest.raises(ValueError, match="three labelled traces"):
        ppi_mean([0.5], [0.5], [0.5])
    with pytest.raises(ValueError, match="three labelled traces"):
        ppi_mean([0.5, 0.4, 0.1], [0.5, 0.4, 0.1], [])
    with pytest.raises(ValueError, match="must be paired"):
        ppi_mean([0.5, 0.4], [0.5], [0.1])
    with pytest.raises(ValueError, match="missing"):
        ppi_mean([0.5, 0.4], [0.5, None], [0.1])
    flat = ppi_mean([0.5] * 3, [0.5] * 3, [0.5])
    assert (flat.standard_error, flat.effective_n, flat.interval) == (0, None, None)


def test_labels_that_are_all_alike_show_no_certainty() -> None:
    """Ten perfect labels leave an interval with width: Blaker's of ten ones, from its definition on a grid of 1e-5."""
    result = ppi_mean([1.0] * 10, [1.0] * 10, [1.0] * 50, limits=(0.0, 1.0))
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == pytest.approx(
        (0.71707, 1.0), abs=1e-4
    )  # from the definition, on a grid of 1e-5


def test_an_interval_stays_within_the_values_limits() -> None:
    """What no value can be is cut off."""
    y, p, q = labelled(8, 400, 5)
    result = ppi_mean(y, p, q, level=0.999, limits=(0.3, 0.5))
    assert result.interval is not None
    assert 0.3 <= result.interval.low <= result.interval.high <= 0.5


def test_whole_clusters_of_labels_are_no_independent_traces() -> None:
    """Questions of five traces each, labelled whole: the clustered interval covers, the plain does not."""
    rng = np.random.default_rng(8)
    ids = [k // 5 for k in range(400)]
    covered = {"plain": 0, "clusters": 0, "weighted": 0}
    for _ in range(300):
        ability = np.repeat(rng.beta(2, 2, 80), 5)
        y = np.clip(ability + rng.normal(0, 0.05, 400), 0, 1)
        p = np.clip(0.8 * np.repeat(rng.beta(2, 2, 80), 5) + 0.2 * y, 0, 1)
        intervals = {
            "plain": ppi_mean(y[:100], p[:100], p[100:]).interval,
            "clusters": ppi_mean(y[:100], p[:100], p[100:], clusters=ids).interval,
            "weighted": ppi_mean_sampled(y[:100], p, Sample(tuple(range(100)), (0.25,) * 400), clusters=ids).interval,
        }
        for name, interval in intervals.items():
            assert interval is not None
            covered[name] += 0.5 in interval
    assert covered["plain"] < 0.75 * 300
    assert covered["clusters"] >= 0.91 * 300
    assert covered["weighted"] >= 0.91 * 300


def test_weighted_correction_of_a_random_sample_is_near_the_plain_one() -> None:
    """Under a simple random choice the weighted form says nearly the same as the plain one."""
    y, p, q = labelled(100, 500, 3)
    sample = Sample(tuple(range(100)), (0.2,) * 500)
    weighted, plain = ppi_mean_sampled(y, np.concatenate([p, q]), sample), ppi_mean(y, p, q)
    assert weighted.value == pytest.approx(plain.value, abs=0.3 * plain.standard_error)
    assert weighted.standard_error == pytest.approx(plain.standard_error, rel=0.02)
    assert weighted.labels_only == pytest.approx(plain.labels_only, abs=1e-12)


def test_weighted_correction_undoes_the_choice() -> None:
    """A choice that favours traces of high value biases the labels alone, not the weighted correction."""
    rng = np.random.default_rng(4)
    truth = rng.beta(2, 3, 4000)
    judge = np.clip(truth + 0.15 + rng.normal(0, 0.15, 4000), 0, 1)
    chosen, values = [], []
    for seed in range(60):
        sample = stratified_sample((judge > 0.75).tolist(), 60, seed=seed)
        result = ppi_mean_sampled(truth[list(sample.chosen)], judge, sample)
        chosen.append(truth[list(sample.chosen)].mean())
        values.append(result.value)
    noise = float(np.std(values)) / np.sqrt(60)
    assert abs(np.mean(chosen) - truth.mean()) > 0.05
    assert np.mean(values) == pytest.approx(truth.mean(), abs=4 * noise)


def test_weighted_correction_of_a_stratum_taken_whole() -> None:
    """A stratum that is labelled whole counts as much as it is, not as much as it was labelled."""
    truth = np.array([1.0] * 4 + [0.0] * 96)
    strata = ["rare"] * 4 + ["common"] * 96
    sample = stratified_sample(strata, 8, seed=1)
    assert set(range(4)) <= set(sample.chosen)
    result = ppi_mean_sampled(truth[list(sample.chosen)], np.zeros(100), sample)
    assert result.value == pytest.approx(0.04, abs=1e-12)


def test_weighted_correction_checks_its_numbers() -> None:
    """Labels, choice and predictions must go together."""
    sample = simple_random_sample(10, 3)
    with pytest.raises(ValueError, match="2 labels for 3 chosen"):
        ppi_mean_sampled([0.1, 0.2], [0.5] * 10, sample)
    with pytest.raises(ValueError, match="9 predictions for 10"):
        ppi_mean_sampled([0.1, 0.2, 0.3], [0.5] * 9, sample)


def noisy(n: int, rate: float, sensitivity: float, specificity: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Human verdicts at a rate, and a judge's with known errors."""
    rng = np.random.default_rng(seed)
    human = rng.random(n) < rate
    return np.where(human, rng.random(n) < sensitivity, rng.random(n) > specificity), human


def test_rogan_gladen_by_its_formula() -> None:
    """The rate is (q + sp - 1) / (se + sp - 1), its variance that of the delta method."""
    judge, human = noisy(400, 0.3, 0.9, 0.8, 1)
    judged, _ = noisy(3000, 0.3, 0.9, 0.8, 2)
    result = rogan_gladen(judged, judge, human)
    q, se, fp = judged.mean(), judge[human].mean(), judge[~human].mean()
    rate = (q - fp) / (se - fp)
    variance = q * (1 - q) / 3000 + rate**2 * se * (1 - se) / human.sum()
    variance += (1 - rate) ** 2 * fp * (1 - fp) / (~human).sum()
    half = 1.959963984540054 * np.sqrt(variance) / (se - fp)
    assert result.value == pytest.approx(rate, abs=1e-12)
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == pytest.approx((rate - half, rate + half), abs=1e-12)
    assert result.warnings == ()
    assert 0.3 in result.interval


def test_rogan_gladen_by_trace_is_wider() -> None:
    """Where chunks of a trace go together the interval by trace is wider; else it is the same."""
    judge, human = noisy(200, 0.4, 0.85, 0.85, 3)
    judged, _ = noisy(500, 0.4, 0.85, 0.85, 4)
    alone = rogan_gladen(judged, judge, human)
    each = rogan_gladen(judged, judge, human, traces=(range(500), range(500, 700)))
    assert alone.interval is not None
    assert each.interval is not None
    assert each.interval.low == pytest.approx(alone.interval.low, abs=1e-12)
    copied = rogan_gladen(
        np.repeat(judged, 4),
        np.repeat(judge, 4),
        np.repeat(human, 4),
        traces=(np.repeat(np.arange(500), 4).tolist(), np.repeat(np.arange(500, 700), 4).tolist()),
    )
    assert copied.interval is not None
    assert copied.interval.low == pytest.approx(alone.interval.low, abs=1e-12)


def test_rogan_gladen_warns_of_a_weak_judge() -> None:
    """A judge hardly better than chance carries a warning; one that is no better has no estimate at all."""
    judge, human = noisy(400, 0.3, 0.6, 0.6, 5)
    result = rogan_gladen(judge, judge, human)
    assert any("only" in note for note in note_sentences(result.warnings))
    none = rogan_gladen([1, 0], [1, 0, 1, 0], [1, 1, 0, 0])
    assert (none.value, none.interval) == (None, None)
    assert "no better than chance" in note_sentence(none.warnings[0])
    inverted = rogan_gladen([1, 0], [0, 0, 1, 1], [1, 1, 0, 0])
    assert inverted.value is None


def test_rogan_gladen_is_clipped_with_a_warning() -> None:
    """A rate that the labelled errors cannot explain is clipped to [0, 1] and says so."""
    result = rogan_gladen([0] * 50, [1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0])
    assert result.value == 0
    assert any("clipping" in note for note in note_sentences(result.warnings))
    assert result.interval is not None
    assert result.interval.low == 0


def test_rogan_gladen_needs_both_kinds() -> None:
    """Labels of one kind, no judged chunk, or grades in place of verdicts are refused."""
    with pytest.raises(ValueError, match="both kinds"):
        rogan_gladen([1, 0], [1, 0], [1, 1])
    with pytest.raises(ValueError, match="both kinds"):
        rogan_gladen([], [1, 0], [1, 0])
    with pytest.raises(ValueError, match="only 0 and 1"):
        rogan_gladen([2, 0], [1, 0], [1, 0])


def test_weighted_correction_by_its_formula() -> None:
    """Value, standard error and interval follow the stated formulas, Kish's effective number included."""
    rng = np.random.default_rng(6)
    predictions = rng.random(80)
    sample = stratified_sample((predictions > 0.7).tolist(), 20, seed=2)
    chosen, w = np.array(sample.chosen), np.array(sample.weights)
    labels = np.clip(predictions[chosen] + rng.normal(0, 0.2, 20), 0, 1)
    result = ppi_mean_sampled(labels, predictions, sample, level=0.9)
    rest = labels - result.power * predictions[chosen]
    centre = np.average(rest, weights=w)
    assert result.value == pytest.approx(result.power * predictions.mean() + centre, abs=1e-12)
    influence = result.power * (predictions - predictions.mean())
    influence[chosen] += (w / w.sum() * 80) * (rest - centre)
    m = w.sum() ** 2 / (w**2).sum()
    assert result.standard_error**2 == pytest.approx(m / (m - 1) * (influence**2).mean() / 80, rel=1e-10)
    half = scipy.stats.t.ppf(0.95, m - 1) * result.standard_error
    assert result.interval.low == pytest.approx(result.value - half, abs=1e-12)
    assert result.interval.high == pytest.approx(result.value + half, abs=1e-12)
