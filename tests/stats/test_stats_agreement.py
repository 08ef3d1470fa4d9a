import warnings
from collections.abc import Sequence

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, precision_recall_fscore_support, roc_auc_score

from judge_eval.stats import Figure, Resampler, agreement_figures, alpha_interval, cohen_kappa
from judge_eval.stats.agreement import MeasurementLevel, f1_of, kappa
from tests.support.examples import examples

pytestmark = pytest.mark.foreign

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)

# Krippendorff's own example with 4 observers, 12 units, missing ratings (2011, "Computing Krippendorff's
# alpha-reliability"): nominal .743, ordinal .815, interval .849.
EXAMPLE = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def figures_of(
    judge: Sequence[float] | np.ndarray, human: Sequence[float] | np.ndarray, categories: Sequence[float] | None = None
) -> dict[str, float | None]:
    """The figures of one trace, which has no interval to draw."""
    result = agreement_figures(judge, human, ["t"] * len(judge), categories=categories)
    return {name: estimate.value for name, estimate in result.items()}


def alpha_of(ratings: Sequence[Sequence[int | None]] | np.ndarray, level: MeasurementLevel = "ordinal") -> float | None:
    """Alpha of raters whose units all belong to one trace, which has no interval to draw."""
    return alpha_interval(ratings, [0] * len(ratings[0]), level).value


@examples(300)
@given(PAIRS, st.sampled_from([None, "linear", "quadratic"]))
def test_kappa_equals_scikit_learn(pairs: list[tuple[int, int]], weights: str | None) -> None:
    """Kappa and weighted kappa are scikit-learn's to 1e-12; where that is undefined it is None."""
    a, b = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = cohen_kappa_score(a, b, weights=weights)
        whole = cohen_kappa_score(a, b, weights=weights, labels=[0, 1, 2, 3])
    ours = cohen_kappa(a, b, weights)
    assert ours == (None if np.isnan(oracle) else pytest.approx(oracle, abs=1e-12))
    scaled = cohen_kappa(a, b, weights, categories=[0, 1, 2, 3])
    assert scaled == (None if np.isnan(whole) else pytest.approx(whole, abs=1e-12))


def test_kappa_where_it_is_undefined() -> None:
    """One and the same grade throughout leaves kappa 0/0: None. A constant judge that differs has kappa 0."""
    assert cohen_kappa([1, 1, 1], [1, 1, 1]) is None
    assert cohen_kappa([1, 1, 1], [1, 1, 1], categories=[0, 1]) is None
    assert cohen_kappa([1, 1, 1], [0, 0, 0]) == 0
    assert cohen_kappa([1, 1, 1, 1], [0, 1, 0, 1]) == 0


def test_missing_grades_are_refused() -> None:
    """A missing grade, one off the scale, no pair, unequal lengths: each is refused with its place."""
    with pytest.raises(ValueError, match=r"a\[1\] is missing"):
        cohen_kappa([1, None], [1, 0])
    with pytest.raises(ValueError, match=r"b\[1\]: 7 is not one of the categories"):
        cohen_kappa([1, 3], [1, 7], categories=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="no pair"):
        cohen_kappa([], [])
    with pytest.raises(ValueError, match="must be paired"):
        agreement_figures([1], [1, 0], ["t"])
    with pytest.raises(ValueError, match="weights"):
        cohen_kappa([1], [0], "cubic")  # type: ignore[arg-type]


@examples(200)
@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2, 5, None]), min_size=6, max_size=6), min_size=2, max_size=4),
    st.sampled_from(["nominal", "ordinal", "interval"]),
)
def test_alpha_equals_the_krippendorff_package(ratings: list[list[int | None]], level: str) -> None:
    """Alpha of any number of raters with missing ratings is the krippendorff package's to 1e-12."""
    table = np.array(ratings, dtype=float)
    ours = alpha_of(ratings, level)  # type: ignore[arg-type]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            oracle = float(krippendorff.alpha(table, level_of_measurement=level))
    except ValueError:  # one value, or no unit with two ratings
        oracle = np.nan
    assert ours == (None if np.isnan(oracle) else pytest.approx(oracle, abs=1e-12))


def test_alpha_of_the_published_example() -> None:
    """Krippendorff's worked example gives his figures."""
    figures = [alpha_of(EXAMPLE, level) for level in ("nominal", "ordinal", "interval")]
    assert [round(each, 3) for each in figures if each is not None] == [0.743, 0.815, 0.849]


def test_alpha_where_it_is_undefined() -> None:
    """Without variation, without a unit rated twice, without any rating there is no alpha."""
    assert alpha_of([[1, 1], [1, 1]]) is None
    assert alpha_of([[1, None], [None, 2]]) is None
    assert alpha_of([[None, None], [None, None]]) is None
    with pytest.raises(ValueError, match="shape"):
        alpha_interval([1, 2, 3], [0, 0, 0])
    with pytest.raises(ValueError, match="level"):
        alpha_of([[1, 2], [1, 2]], "ratio")  # type: ignore[arg-type]


def test_ac1_of_a_worked_example() -> None:
    """AC1 of the table 118, 5, 2, 0 is p = .944, e = 2 * .972 * .028, (p - e) / (1 - e) = .9408."""
    a = [0] * 123 + [1] * 2
    b = [0] * 118 + [1] * 5 + [0] * 2
    chance = 2 * (243 / 250) * (7 / 250)
    assert figures_of(a, b)["ac1"] == pytest.approx((118 / 125 - chance) / (1 - chance), abs=1e-12)
    assert round(figures_of(a, b)["ac1"] or 0, 4) == 0.9408
    assert (cohen_kappa(a, b) or 0) < 0  # where nearly all grades are equal kappa collapses; AC1 does not


def test_ac1_at_its_ends() -> None:
    """Full agreement on one grade of a known scale is 1; with no other grade known it is undefined."""
    assert figures_of([1, 1], [1, 1], [0, 1])["ac1"] == 1
    assert figures_of([1, 1], [1, 1])["ac1"] is None
    assert figures_of([0, 1], [1, 0])["ac1"] == -1


@examples(100)
@given(PAIRS, st.integers(1, 3))
def test_detection_equals_scikit_learn(pairs: list[tuple[int, int]], threshold: int) -> None:
    """Precision, recall and F1 at a threshold are scikit-learn's, None where that has to make one up."""
    judge, human = (np.array(side) for side in zip(*pairs, strict=True))
    result = figures_of(judge, human, [0, 1, 2, 3])
    j, h = judge >= threshold, human >= threshold
    p, r, f, _ = precision_recall_fscore_support(h, j, average="binary", zero_division=np.nan)
    assert result[f"precision_ge{threshold}"] == (None if not j.any() else pytest.approx(p))
    assert result[f"recall_ge{threshold}"] == (None if not h.any() else pytest.approx(r))
    specificity = None if h.all() else pytest.approx((~j & ~h).sum() / (~h).sum())
    assert result[f"specificity_ge{threshold}"] == specificity
    assert result[f"bias_ge{threshold}"] == pytest.approx(j.mean() - h.mean())
    counts = np.array([[(~j & ~h).sum(), (~j & h).sum()], [(j & ~h).sum(), (j & h).sum()]], float)
    assert float(f1_of(counts)) == pytest.approx(f, nan_ok=True)


@examples(100)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=40))
def test_auc_equals_scikit_learn(pairs: list[tuple[int, bool]]) -> None:
    """AUC with ties is scikit-learn's; with one kind of label only it is None."""
    scores, labels = zip(*pairs, strict=True)
    expected = pytest.approx(roc_auc_score(labels, scores), abs=1e-12) if len(set(labels)) == 2 else None
    judge, human = np.array(scores) / 7, np.array(labels, float)
    figures = figures_of(judge, human, [*judge.tolist(), 0.0, 1.0])
    assert figures["auc_ge1"] == expected


def graded(seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Grades of a judge and of people on 30 traces of 6 chunks."""
    rng = np.random.default_rng(seed)
    human = rng.integers(0, 4, 180)
    judge = np.where(rng.random(180) < 0.6, human, rng.integers(0, 4, 180))
    return judge, human, [f"t{k // 6}" for k in range(180)]


def test_all_figures_of_many_traces() -> None:
    """Every figure is the same number however pairs fall into traces, and lies inside its interval."""
    judge, human, traces = graded()
    result = agreement_figures(judge, human, traces)
    expected = figures_of(judge, human) | {
        "kappa": cohen_kappa(judge, human),
        "kappa_linear": cohen_kappa(judge, human, "linear"),
        "kappa_quadratic": cohen_kappa(judge, human, "quadratic"),
        "alpha_nominal": alpha_of([judge, human], "nominal"),
        "alpha_ordinal": alpha_of([judge, human], "ordinal"),
        "alpha_interval": alpha_of([judge, human], "interval"),
        "accuracy": (judge == human).mean(),
        "bias": judge.mean() - human.mean(),
    }
    for grade in (1, 2, 3):
        expected[f"kappa_ge{grade}"] = cohen_kappa(judge >= grade, human >= grade)
    assert result.keys() == expected.keys()
    for name, estimate in result.items():
        assert estimate.value == pytest.approx(expected[name], abs=1e-12), name
        assert estimate.interval is not None, name
        assert expected[name] in estimate.interval, name
        assert (estimate.n, estimate.traces) == (180, 30)


def test_resampled_kappa_equals_plain_resampling() -> None:
    """The fast bootstrap over summed tables has the quantiles of one that copies the rows of whole traces."""
    judge, human, _ = graded(1)
    rng = np.random.default_rng(2)
    rows = np.arange(180).reshape(30, 6)
    plain = []
    for _ in range(1500):
        drawn = rows[rng.integers(0, 30, 30)].ravel()
        plain.append(cohen_kappa(judge[drawn], human[drawn]))
    tables = np.zeros((30, 4, 4))
    np.add.at(tables, (np.arange(180) // 6, judge, human), 1)
    interval = Resampler(tables, method="percentile").estimate(kappa()).interval
    assert interval is not None
    low, high = np.quantile(np.array(plain, dtype=float), [0.025, 0.975])
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.12 * (high - low))


def test_figures_without_agreement_to_measure() -> None:
    """Raters that never vary have no kappa and no alpha, and nothing is NaN; one trace has no interval."""
    result = agreement_figures([1, 1, 1], [1, 1, 1], ["a", "b", "c"], categories=[0, 1])
    assert result["kappa"].value is None
    assert result["alpha_ordinal"].value is None
    assert result["auc_ge1"].value is None
    assert result["accuracy"].value == 1
    assert all(each.interval is None for each in agreement_figures([1, 0], [1, 1], ["a", "a"]).values())


@pytest.mark.parametrize("chunks", [1, 5])
def test_a_judge_that_never_errs_has_intervals_with_width(chunks: int) -> None:
    """Twelve traces without a disagreement allow much: every interval that there is ends below 1."""
    labels = np.arange(12 * chunks) % 3 == 0
    traces = np.repeat(np.arange(12), chunks).tolist()
    result = agreement_figures(labels, labels, traces)
    for name, estimate in result.items():
        assert estimate.interval is not None, name
        assert estimate.interval.high - estimate.interval.low > 0.1, name
        assert estimate.value in estimate.interval, name
    panel = alpha_interval([labels, labels, labels], traces).interval
    assert panel is not None
    assert panel.low < 0.8
    assert panel.high == 1


@examples(60)
@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5), min_size=2, max_size=12))
def test_every_interval_holds_its_figure_and_has_width(traces: list[list[tuple[int, int]]]) -> None:
    """Whatever the grades: no interval without width, none without its figure, none beyond its range."""
    rows = [(*pair, k) for k, trace in enumerate(traces) for pair in trace]
    if not rows:
        return
    judge, human, ids = zip(*rows, strict=True)
    for name, result in agreement_figures(judge, human, ids, categories=range(4), replicates=100).items():
        if result.interval is None:
            continue
        assert result.value is not None
        assert result.interval.low - 1e-9 <= result.value <= result.interval.high + 1e-9, name
        assert result.interval.high - result.interval.low > 1e-6, name
        if not name.startswith("bias"):
            assert result.interval.low >= -1 - 1e-9, name
            assert result.interval.high <= 1 + 1e-9, name


def test_alpha_of_a_panel_with_interval() -> None:
    """Alpha of several raters with missing ratings has its value and an interval resampled by trace."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, 90)
    panel = np.array([np.where(rng.random(90) < 0.7, truth, rng.integers(0, 4, 90)) for _ in range(3)], float)
    panel[rng.random(panel.shape) < 0.1] = np.nan
    result = alpha_interval(panel, np.repeat(np.arange(30), 3).tolist())
    assert result.value == pytest.approx(alpha_of(panel), abs=1e-12)
    assert result.interval is not None
    assert result.value in result.interval
    assert (result.n, result.traces) == (90, 30)


def test_alpha_of_no_rating_at_all() -> None:
    """Where no rater gave a grade there is no alpha and no interval, whatever the number of traces."""
    nothing = [[None, None, None], [None, None, None]]
    assert alpha_interval(nothing, ["a", "b", "b"]) == Figure(None, None, 3, 2)
    assert alpha_interval([[], []], []) == Figure(None, None, 0, 0)


def test_many_traces_are_drawn_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many traces equal ones are drawn together: the same figures, intervals as near as two seeds'."""
    from judge_eval.stats import agreement_of, resample

    rng = np.random.default_rng(3)
    judge, human = rng.integers(0, 2, (400, 6)), rng.integers(0, 2, (400, 6))
    human[:200] = judge[:200]
    tables = np.zeros((400, 2, 2))
    np.add.at(tables, (np.repeat(np.arange(400), 6), judge.ravel(), human.ravel()), 1)
    values = np.array([0.0, 1.0])
    first, other = (agreement_of(tables, values, seed=seed, replicates=4000) for seed in (0, 1))
    monkeypatch.setattr(resample, "MANY", 100)
    drawn = agreement_of(tables, values, seed=0, replicates=4000)
    for name, result in drawn.items():
        assert result.value == first[name].value
        assert (result.n, result.traces) == (2400, 400)
        assert result.interval is not None
        mine, theirs, again = result.interval, first[name].interval, other[name].interval
        assert theirs is not None
        assert again is not None
        width = theirs.high - theirs.low
        assert abs(mine.low - theirs.low) < 0.06 * width, name
        assert abs(mine.high - theirs.high) < 0.06 * width, name
        assert abs(again.low - theirs.low) < 0.06 * width, name


def test_agreement_everywhere_is_no_certainty() -> None:
    """Twelve traces, two chunks each, no disagreement: kappa is 1, and may be as low as .62."""
    grades, traces = [1, 0] * 12, [place // 2 for place in range(24)]
    kappa = agreement_figures(grades, grades, traces, categories=[0, 1])["kappa"]
    assert kappa.interval is not None
    assert (kappa.value, kappa.interval.high) == (1.0, 1.0)
    assert kappa.interval.low == pytest.approx(0.615, abs=5e-3)
