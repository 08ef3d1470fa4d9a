from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from judge_eval.errors import MetricError, UnknownNameError
from judge_eval.metrics.fusion import Fusion, RankedLists, interleaved, normalised

A = {"d1": 9.0, "d2": 7.0, "d3": 4.0, "d4": 1.0}
B = {"d3": 0.9, "d5": 0.8, "d1": 0.5}


def numbered(lists: Sequence[Sequence[str]]) -> tuple[list[str], list[RankedLists], NDArray[np.int64]]:
    """Return the items of one question's lists, the lists by the items' places, and the question of each item."""
    items = list(dict.fromkeys(item for each in lists for item in each))
    ranked = [(np.array([items.index(i) for i in each], dtype=np.int64), np.array([0, len(each)])) for each in lists]
    return items, ranked, np.zeros(len(items), dtype=np.int64)


def fuse(text: str, lists: Sequence[Mapping[str, float]]) -> list[tuple[str, float]]:
    """Fuse lists of scores by item."""
    items, ranked, questions = numbered([list(each) for each in lists])
    scores = [np.array(list(each.values())) for each in lists]
    order, sums = Fusion.parse(text).fuse(ranked, scores, questions)
    return [(items[place], float(sums[place])) for place in order.tolist()]


def fused(text: str) -> list[tuple[str, float]]:
    """Fuse the two lists, with six decimals."""
    return [(item, round(score, 6)) for item, score in fuse(text, [A, B])]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("rrf", [("d1", 0.032266), ("d3", 0.032266), ("d2", 0.016129), ("d5", 0.016129), ("d4", 0.015625)]),
        ("rrf:k=60", [("d1", 0.032266), ("d3", 0.032266), ("d2", 0.016129), ("d5", 0.016129), ("d4", 0.015625)]),
        ("combsum", [("d3", 1.375), ("d1", 1.0), ("d5", 0.75), ("d2", 0.75), ("d4", 0.0)]),
        ("combmnz", [("d3", 2.75), ("d1", 2.0), ("d5", 0.75), ("d2", 0.75), ("d4", 0.0)]),
        ("weighted:a=.3", [("d3", 0.8125), ("d5", 0.525), ("d1", 0.3), ("d2", 0.225), ("d4", 0.0)]),
    ],
)
def test_equals_ranx(how: str, expected: list[tuple[str, float]]) -> None:
    """Ranx 0.3.21 gives these scores to six decimals; ties go to the better best rank, then the earlier list."""
    assert fused(how) == expected


def test_ties_are_ties_whatever_the_order_of_the_lists() -> None:
    """Three lists in which x and y stand at the same ranks, in another order, give equal sums."""
    lists = [["x", "y", "z"], ["z", "x", "y"], ["y", "z", "x"]]
    made = fuse("rrf:k=1", [dict.fromkeys(each, 0.0) for each in lists])
    assert len({score for _, score in made}) == 1
    assert [item for item, _ in made] == ["x", "z", "y"]


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("min-max", [1, 0.75, 0.375, 0]),
        ("max", [1, 7 / 9, 4 / 9, 1 / 9]),
        ("sum", [8 / 17, 6 / 17, 3 / 17, 0]),
        ("rank", [1, 0.75, 0.5, 0.25]),
        ("none", [9, 7, 4, 1]),
        ("zmuv", [1.237179, 0.57735, -0.412393, -1.402136]),
    ],
)
def test_norms(norm: str, expected: list[float]) -> None:
    """Each norm by hand; a constant list is all 0 under min-max."""
    assert normalised(list(A.values()), norm) == pytest.approx(expected, abs=1e-6)  # type: ignore[arg-type]
    assert normalised([3.0, 3.0], "min-max").tolist() == [0, 0]


def test_interleaving_takes_turns_and_each_chunk_once() -> None:
    """The next new chunk of each list, the first list first."""
    cases = (
        ([list(A), list(B)], ["d1", "d3", "d2", "d5", "d4"]),
        ([[], ["a"]], ["a"]),
        ([["a", "b", "c"], ["a", "d", "e"]], ["a", "d", "b", "e", "c"]),  # a turn is never lost to a known chunk
        ([["a", "b"], ["a", "b", "c", "d"], ["e"]], ["a", "b", "e", "c", "d"]),
    )
    for lists, expected in cases:
        items, ranked, questions = numbered(lists)
        assert [items[place] for place in interleaved(ranked, questions).tolist()] == expected


@pytest.mark.parametrize("text", ["rfr", "rrf:norm=max", "combsum:norm=most"])
def test_unknown_names_are_refused(text: str) -> None:
    """A method, a parameter or a norm that does not exist names those that do."""
    with pytest.raises(UnknownNameError):
        Fusion.parse(text)


@pytest.mark.parametrize("text", ["rrf:k=x", "rrf:k=-1", "weighted:a=2", "rrf:k=nan", "rrf:k"])
def test_numbers_off_their_range_are_refused(text: str) -> None:
    """K is at least 0, a between 0 and 1, and both are numbers."""
    with pytest.raises(MetricError):
        Fusion.parse(text)


def test_scores_that_cannot_be_fused_are_refused() -> None:
    """Weights are for two lists, and a score is finite."""
    with pytest.raises(MetricError, match="two lists"):
        fuse("weighted", [{"a": 1.0}])
    with pytest.raises(MetricError, match="finite"):
        fuse("combsum", [{"a": 1.0}, {"b": float("inf")}])
