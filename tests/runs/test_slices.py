"""Figures by slice: seeded differences are seen, others are not, small slices say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from judge_eval.compare.compare import compare
from judge_eval.runs.scoring.slices import slice_figures, slices_of
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


def test_a_language_that_is_worse_is_seen() -> None:
    """German questions find nothing; sources, which do not matter, differ in nothing; ten rare traces cannot say."""
    run = run_of({(n, "a") for k, n in enumerate(NAMES) if k % 2 == 0})
    results = list(run.results)
    kinds = [(by, slices_of(results, by)) for by in ("language", "source", "tag", "length")]
    values = [result.scores["P@3"] or 0.0 for result in results]
    found = {(f.by, f.name): f for f in slice_figures("P@3", values, kinds)}
    assert found["language", "de"].verdict == "differs"
    assert found["language", "de"].difference == pytest.approx(-1 / 3)
    assert found["source", "wiki"].verdict != "differs"
    assert found["tag", "rare"].verdict == "cannot say"
    assert found["tag", "rare"].p is None
    assert sum(f.n for (by, _), f in found.items() if by == "length") == len(NAMES)


def test_holm_keeps_false_alarms_rare() -> None:
    """With ten slices and no difference, in 60 draws at most 7 have any slice that differs."""
    rng = np.random.default_rng(1)
    sets = [frozenset([f"s{k % 5}", f"r{k % 7}"]) for k in range(280)]
    alarms = sum(
        any(f.verdict == "differs" for f in slice_figures("x", rng.random(280), [("tag", sets)])) for _ in range(60)
    )
    assert alarms <= 7


def test_agree_and_compare_have_slices() -> None:
    """A judge that errs on German alone has a lower accuracy there; a change of German alone is seen as one."""
    truth = {(n, "a") for n in NAMES}
    wrong = {(n, "b") for k, n in enumerate(NAMES) if k % 2} | {(n, "a") for k, n in enumerate(NAMES) if k % 2 == 0}
    run = run_of(truth, labelled=True)
    bad = judged([r.trace for r in run.results], dict.fromkeys(wrong, 1))
    (de, en) = agree(bad, None, by=["language"]).slices
    assert (de.name, de.verdict, en.verdict) == ("de", "differs", "differs")
    assert de.mean == pytest.approx(1 / 3)
    changed = {f.name: f for f in compare(run, bad, metrics=["AP@3"], by=["language"]).slices}
    assert changed["de"].verdict == "differs"
    assert changed["en"].difference == 0
