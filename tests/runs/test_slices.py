"""Figures by slice: seeded differences are seen, others are not, small slices say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from judge_eval.compare.compare import compare
from judge_eval.runs.columns.verdict_table import verdict_table
from judge_eval.runs.scoring.slices import Slices, corrected_slices, slice_tests, slices_of
from judge_eval.stats import cohen_kappa
from judge_eval.study.agree import agree
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:03d}" for k in range(120)]


def run_of(relevant: set[tuple[str, str]], labelled: bool = False):
    """A run in which every second trace is German, every third from a wiki, and ten are tagged rare."""
    more = {
        name: {
            "metadata": {"language": "de" if k % 2 else "en"},
            "tags": ["rare"] if k < 10 else ["usual"],
            "chunks": [
                {"id": c, "text": f"{c} {'long ' * k}", "metadata": {"source": "wiki" if k % 3 else "blog"}}
                | ({"label": int((name, c) in relevant)} if labelled else {})
                for c in "abc"
            ],
        }
        for k, name in enumerate(NAMES)
    }
    return judged(traces_of(dict.fromkeys(NAMES, "abc"), **more), dict.fromkeys(relevant, 1))


@pytest.mark.slow
def test_a_language_that_is_worse_is_seen() -> None:
    """German questions find nothing; sources, which do not matter, differ in nothing; ten rare traces cannot say."""
    run = run_of({(n, "a") for k, n in enumerate(NAMES) if k % 2 == 0})
    results = list(run.results)
    table = verdict_table(run)
    kinds = [slices_of(table, by) for by in ("language", "source", "tag", "length")]
    values = [result.scores["P@3"] or 0.0 for result in results]
    mapping = {(f.by, f.name): f for f in corrected_slices(slice_tests("P@3", values, kinds))}
    assert mapping["language", "de"].verdict == "differs"
    assert mapping["language", "de"].difference == pytest.approx(-1 / 3)
    assert mapping["source", "wiki"].verdict != "differs"
    assert mapping["tag", "rare"].verdict == "cannot say"
    assert mapping["tag", "rare"].p is None
    assert sum(f.n for (by, _), f in mapping.items() if by == "length") == len(NAMES)


def tagged(sets: list[frozenset[str]]) -> Slices:
    """Return these slices, by tag."""
    return Slices("tag", np.arange(len(sets)), tuple(sets))


@pytest.mark.parametrize("draws", [17, pytest.param(60, marks=pytest.mark.slow)])
def test_holm_keeps_false_alarms_rare(draws: int) -> None:
    """With ten slices and no difference, of 60 draws at most 7 have any slice that differs; of few none beyond 2."""
    rng = np.random.default_rng(1)
    sets = [frozenset([f"s{k % 5}", f"r{k % 7}"]) for k in range(280)]
    alarms = sum(
        any(f.verdict == "differs" for f in corrected_slices(slice_tests("x", rng.random(280), [tagged(sets)])))
        for _ in range(draws)
    )
    assert alarms <= 7 * draws // 60 + (draws < 60)


@pytest.mark.slow
def test_agree_and_compare_have_slices() -> None:
    """A judge that errs on German alone has a lower accuracy there; a change of German alone is seen as one."""
    truth = {(n, "a") for n in NAMES}
    wrong = {(n, "b") for k, n in enumerate(NAMES) if k % 2} | {(n, "a") for k, n in enumerate(NAMES) if k % 2 == 0}
    run = run_of(truth, labelled=True)
    bad = judged([r.trace for r in run.results], dict.fromkeys(wrong, 1))
    result = agree(bad, None, by=["language"])
    assert {f.figure for f in result.slices} == {"accuracy", "kappa", "precision", "recall", "specificity", "bias"}
    de, en, *kappas = (f for f in result.slices if f.figure in ("accuracy", "kappa"))
    assert (de.name, de.verdict, en.verdict) == ("de", "differs", "differs")
    assert de.mean == pytest.approx(1 / 3)
    assert [(f.figure, f.mean, f.verdict) for f in kappas] == [
        ("kappa", pytest.approx(-0.5), "differs"),
        ("kappa", pytest.approx(1.0), "differs"),
    ]
    changed = {f.name: f for f in compare(run, bad, metrics=["AP@3"], by=["language"]).slices}
    assert changed["de"].verdict == "differs"
    assert changed["en"].difference == 0


@pytest.mark.slow
def test_kappa_of_a_slice_is_that_of_its_chunks() -> None:
    """Both sides by brute force; the error is the jackknife's over traces, so the interval is near a bootstrap's."""
    rng = np.random.default_rng(5)
    truth = {(n, c) for n in NAMES for c in "abc" if rng.random() < 0.5}
    seen = {(n, c) for n in NAMES for c in "abc" if ((n, c) in truth) == (rng.random() < 0.75)}
    run = judged([r.trace for r in run_of(truth, labelled=True).results], dict.fromkeys(seen, 1))
    values = {(f.figure, f.name): f for f in agree(run, None, by=["language"]).slices}
    sides = []
    for rest in (1, 0):
        keys = [(n, c) for k, n in enumerate(NAMES) if k % 2 == rest for c in "abc"]
        sides.append(np.array([[key in seen, key in truth] for key in keys]).reshape(60, 3, 2))
    de, en = (cohen_kappa(*side.reshape(-1, 2).T) for side in sides)
    assert de is not None
    assert en is not None
    german = values["kappa", "de"]
    assert (german.mean, german.difference) == (pytest.approx(de), pytest.approx(de - en))
    draws = []
    for _ in range(800):
        again = (cohen_kappa(*side[rng.integers(0, 60, 60)].reshape(-1, 2).T) or 0.0 for side in sides)
        draws.append(next(again) - next(again))
    assert german.interval is not None
    assert german.interval[1] - german.interval[0] == pytest.approx(2 * 2.0 * np.std(draws), rel=0.12)


def test_kappa_that_is_undefined_cannot_say() -> None:
    """Where judge and labels are constant in a slice there is no kappa, and none of the error's NaN gets out."""
    relevant = {(n, "a") for k, n in enumerate(NAMES) if k % 2}
    run = judged([r.trace for r in run_of(relevant, labelled=True).results], dict.fromkeys(relevant, 1))
    kappas = {f.name: f for f in agree(run, None, by=["language"]).slices if f.figure == "kappa"}
    assert (kappas["en"].mean, kappas["en"].verdict, kappas["en"].interval) == (None, "cannot say", None)


@pytest.mark.parametrize(
    ("query", "metadata", "tags", "language"),
    [
        ("what", {"language": "de"}, [], "de"),
        ("what", {"lang": "fr"}, [], "fr"),
        ("what", {}, ["x", "Lang: es"], "es"),
        ("wie gro\u00df", {}, [], "(Latin script)"),
        ("\u0433\u0434\u0435 \u044d\u0442\u043e", {}, [], "(Cyrillic script)"),
        ("\u6771\u4eac\u306f\u3069\u3053", {}, [], "(Japanese script)"),
        ("\u5317\u4eac\u5728\u54ea\u91cc", {}, [], "(Han script)"),
        ("42?", {}, [], "(no letters)"),
    ],
)
def test_a_language_is_stated_or_guessed(query: str, metadata: dict[str, str], tags: list[str], language: str) -> None:
    """Metadata and tags state a language; else the script of the question stands in brackets, unless it must not."""
    run = judged(traces_of({"q": "a"}, q={"query": query, "metadata": metadata, "tags": tags}), {})
    table = verdict_table(run)
    assert slices_of(table, "language").names == [language]
    stated = [] if language.startswith("(") else [language]
    assert slices_of(table, "language", guess=False).names == stated


@pytest.mark.parametrize(
    ("clustered", "draws"),
    [(True, 10), pytest.param(False, 60, marks=pytest.mark.slow), pytest.param(True, 60, marks=pytest.mark.slow)],
)
def test_hit_rates_by_chance_name_no_slice(clustered: bool, draws: int) -> None:
    """Of rates near 1 Student's test of small slices rejects too often: in at most a tenth a slice is named."""
    rng, alarms = np.random.default_rng(2), 0
    clusters = [k // 2 for k in range(200)] if clustered else None
    for _ in range(draws):
        sets = [frozenset(str(k) for k in range(6) if rng.random() < (0.15 if k % 2 else 0.4)) for _ in range(200)]
        tests = [
            test
            for name in ("Hit@1", "Hit@2")
            for test in slice_tests(name, (rng.random(200) < 0.9) * 1.0, [tagged(sets)], clusters)
        ]
        alarms += any(each.verdict == "differs" for each in corrected_slices(tests))
    assert alarms <= draws / 10
