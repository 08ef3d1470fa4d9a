import dataclasses
import json
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import judge_eval.stats as stats

NAMES = [
    "mean", "no mean", "bca", "proportion", "paired", "flat", "one figure", "corrected",
    "weighted", "rate", "sample", "threshold", "cascade", "people's cascade", "no cascade", "cascade's cost", "map",
]  # fmt: skip


@cache
def results(time: int = 0) -> dict[str, object]:
    """One result of each kind, degenerate ones among them; computed once more for each `time`."""
    rng = np.random.default_rng(0)
    a, b = rng.random(20), rng.random(20)
    grades, traces = rng.integers(0, 4, 40), np.repeat(np.arange(10), 4).tolist()
    human = rng.integers(0, 2, 40)
    sample = stats.simple_random_sample(20, 6)
    return {
        "mean": stats.mean_interval(a, clusters=np.repeat(np.arange(5), 4)),
        "no mean": stats.mean_interval([]),
        "bca": stats.mean_interval(a, method="bca", replicates=200),
        "proportion": stats.proportion_interval(0, 9, method="exact"),
        "paired": stats.compare_paired(a, b),
        "flat": stats.compare_paired([0.5, 0.5], [0.5, 0.5]),
        "one figure": stats.agreement_figures(human, human * 0, traces, replicates=200)["kappa"],
        "corrected": stats.ppi_mean(a, b, b),
        "weighted": stats.ppi_mean_sampled(a[:6], b, sample),
        "rate": stats.rogan_gladen(human, [1, 0, 1, 0], [1, 1, 0, 0]),
        "sample": sample,
        "threshold": stats.calibrate_threshold(grades, human, traces),
        "cascade": stats.fit_cascade(np.round(a, 2), a > 0.5, a > 0.6),
        "people's cascade": (by_people := stats.fit_cascade_to_people([0.9] * 60, [1] * 60, [1] * 60, [1] * 60)),
        "no cascade": stats.fit_cascade([], [], []),
        "cascade's cost": stats.cascade_cost(by_people, 1.0, 10.0),
        "map": stats.calibrate_isotonic(grades, human, traces),
    }


@pytest.mark.parametrize("name", NAMES)
def test_results_are_plain_frozen_values(name: str) -> None:
    """Each result is frozen, prints, and is JSON without NaN, so that a run folder can keep it."""
    result = results()[name]
    assert dataclasses.is_dataclass(result)
    assert not isinstance(result, type)
    json.dumps(dataclasses.asdict(result), allow_nan=False)
    assert str(result)
    assert "nan" not in str(result)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, dataclasses.fields(result)[0].name, 0)


def test_every_result_is_looked_at() -> None:
    """The names above, which are there before anything is computed, are those of the results."""
    assert list(results()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_equal_calls_give_equal_results(name: str) -> None:
    """Everything random is seeded: the same call again gives the same result."""
    assert results()[name] == results(time=1)[name]


def test_numpy_alone() -> None:
    """Loading all of the statistics loads NumPy and nothing of the oracles that the tests use."""
    code = (
        "import sys; from judge_eval.stats import *; "
        "print(sorted({name.split('.')[0] for name in sys.modules} "
        "& {'scipy', 'sklearn', 'statsmodels', 'krippendorff', 'ppi_py', 'pandas', 'numpy', 'openai'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "['numpy']"


def test_public_names_exist_once() -> None:
    """The list of public names is sorted, without doubles, and each name is there with a docstring."""
    assert sorted(set(stats.__all__)) == sorted(stats.__all__)
    for name in stats.__all__:
        assert getattr(stats, name).__doc__, name
