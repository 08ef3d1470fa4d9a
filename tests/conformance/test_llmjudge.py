import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from benchmarks.stats_attribution import real_parts_coverage
from judge_eval.stats import agreement_figures, alpha_interval, cohen_kappa
from judge_eval.stats.agreement import MeasurementLevel

pytestmark = pytest.mark.foreign

Grades = np.ndarray

OUT_OF_SCALE = {"RMITIR-llama70B": 2, "h2oloo-zeroshot2": 1}
CLIPPED_AS_PUBLISHED = {"RMITIR-llama70B"}


@dataclass(frozen=True)
class Labels:
    """The grades of people and of all judges, and the query of each pair."""

    queries: list[str]
    human: Grades
    judges: dict[str, Grades]


@pytest.fixture(scope="module")
def labels(conformance_data: Path) -> Labels:
    """The wide table of labels."""
    with gzip.open(conformance_data / "llmjudge" / "labels_wide.tsv.gz", "rt", encoding="utf-8") as file:
        head, *rows = csv.reader(file, delimiter="\t")
    grades = np.array([row[2:] for row in rows], dtype=np.int64)
    judges = {name: grades[:, k] for k, name in enumerate(head[3:], 1)}
    return Labels([row[0] for row in rows], grades[:, 0], judges)


@pytest.fixture(scope="module")
def official(conformance_data: Path) -> dict[str, tuple[str, str]]:
    """The published kappa and alpha, as they were printed."""
    lines = (conformance_data / "llmjudge" / "official_table.txt").read_text(encoding="utf-8").splitlines()
    return {name: (kappa, alpha) for name, kappa, alpha, *_ in (line.split() for line in lines[1:])}


@pytest.fixture(scope="module")
def expected(conformance_data: Path) -> dict[str, dict[str, str]]:
    """The expected figures, as they were printed."""
    with (conformance_data / "llmjudge" / "expected_agreement.csv").open(encoding="utf-8") as file:
        return {row["judge"]: row for row in csv.DictReader(file)}


def clipped(grades: Grades) -> Grades:
    """The grades with those off the scale taken for 3."""
    return np.clip(grades, 0, 3)


def alpha(level: MeasurementLevel) -> Callable[[Grades, Grades], float | None]:
    """Alpha of two raters at a level, all pairs being of one trace, which has no interval to draw."""
    return lambda judge, human: alpha_interval([judge, human], [0] * judge.size, level).value


def auc(judge: Grades, human: Grades) -> float | None:
    """How well the judge's grades separate the chunks that humans grade 2 or more."""
    return agreement_figures(judge, human, [0] * judge.size)["auc_ge2"].value


def oracle_alpha(level: str) -> Callable[[Grades, Grades], float]:
    """The same by the krippendorff package."""
    return lambda judge, human: float(krippendorff.alpha([judge, human], level_of_measurement=level))


# Each figure of the expected table: ours, and an independent implementation of it. The weighted kappas
# there were computed on clipped grades, the rest on the grades as they are.
FIGURES = {
    "kappa4_raw": (cohen_kappa, cohen_kappa_score),
    "kappa_ge1": (lambda j, h: cohen_kappa(j >= 1, h >= 1), lambda j, h: cohen_kappa_score(j >= 1, h >= 1)),
    "kappa_ge2": (lambda j, h: cohen_kappa(j >= 2, h >= 2), lambda j, h: cohen_kappa_score(j >= 2, h >= 2)),
    "kappa_ge3": (lambda j, h: cohen_kappa(j >= 3, h >= 3), lambda j, h: cohen_kappa_score(j >= 3, h >= 3)),
    "kappa_linear": (
        lambda j, h: cohen_kappa(clipped(j), h, "linear"),
        lambda j, h: cohen_kappa_score(clipped(j), h, weights="linear"),
    ),
    "kappa_quadratic": (
        lambda j, h: cohen_kappa(clipped(j), h, "quadratic"),
        lambda j, h: cohen_kappa_score(clipped(j), h, weights="quadratic"),
    ),
    "alpha_nominal": (alpha("nominal"), oracle_alpha("nominal")),
    "alpha_ordinal": (alpha("ordinal"), oracle_alpha("ordinal")),
    "alpha_interval": (alpha("interval"), oracle_alpha("interval")),
    "auc_ge2": (auc, lambda j, h: roc_auc_score(h >= 2, j)),
}


def test_all_judges_are_there(labels: Labels, expected: dict[str, dict[str, str]]) -> None:
    """The data hold 33 judges on 4,423 pairs, and the grades off the scale are where they are said to be."""
    assert labels.judges.keys() == expected.keys()
    assert len(expected) == 33
    assert labels.human.size == 4423
    off = {name: int((grades > 3).sum()) for name, grades in labels.judges.items()}
    assert {name: count for name, count in off.items() if count} == OUT_OF_SCALE


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_of_every_judge(labels: Labels, expected: dict[str, dict[str, str]], figure: str) -> None:
    """Each figure equals the expected table at its 6 printed decimals, and its oracle to 1e-9."""
    ours, oracle = FIGURES[figure]
    for name, grades in labels.judges.items():
        value = ours(grades, labels.human)
        assert value == pytest.approx(float(expected[name][figure]), abs=5.0001e-7), name
        assert value == pytest.approx(oracle(grades, labels.human), abs=1e-9), name


def test_published_table(labels: Labels, official: dict[str, tuple[str, str]]) -> None:
    """Kappa and ordinal alpha round to the published 4 decimals for all 33 judges.

    One judge was clipped to the scale before publication; another's grade of 10 was kept as a category.
    """
    for name, grades in labels.judges.items():
        judge = clipped(grades) if name in CLIPPED_AS_PUBLISHED else grades
        kappa, ordinal = cohen_kappa(judge, labels.human), alpha("ordinal")(judge, labels.human)
        assert (f"{kappa:.4f}", f"{ordinal:.4f}") == official[name], name


def test_intervals_by_query_are_wider_than_by_pair(labels: Labels) -> None:
    """Resampled by query, kappa's interval is several times as wide as resampled by pair."""
    grades = labels.judges["willia-umbrela1"]
    by_query = agreement_figures(grades, labels.human, labels.queries)
    pairs = [str(k) for k in range(labels.human.size)]
    by_pair = agreement_figures(grades, labels.human, pairs, replicates=200)["kappa"]
    kappa = by_query["kappa"]
    assert (kappa.n, kappa.traces) == (4423, 25)
    assert kappa.value == pytest.approx(0.286272, abs=1e-6)
    assert kappa.interval is not None
    assert by_pair.interval is not None
    assert kappa.interval.high - kappa.interval.low > 3 * (by_pair.interval.high - by_pair.interval.low)
    assert by_query["auc_ge2"].value == pytest.approx(0.769955, abs=1e-6)


def test_differences_between_real_judges_are_split_without_bias(
    conformance_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two judges that disagree more on some questions than others: both parts are covered, and off by at most .01."""
    monkeypatch.setenv("JUDGE_EVAL_CONFORMANCE_DATA", str(conformance_data))
    lines = real_parts_coverage(30, pairs=(5,), sizes=(300,), population=30_000)
    assert len(lines) == 10
    for line in lines:
        least = 0.8 if line.low == 0.91 else line.low
        assert least is None or least <= line.rate <= (line.high or 1.0), str(line)
