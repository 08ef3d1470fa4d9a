from __future__ import annotations

import numpy as np
import pytest

from judge_eval import Pool
from judge_eval.pools.scoring import score_pool, what_each_adds
from judge_eval.views.blocks import TableBlock
from judge_eval.views.pool import added_sentence, pool_view
from tests.pools.test_pool import run_of


def test_two_runs_by_hand() -> None:
    """Of a, b, e (twice): dense has a and b, bm25 e and b; two sets overlap, and shares are counted by hand."""
    dense, bm25 = run_of("dense", "ab", "ab"), run_of("bm25", "be", "bx")
    added = what_each_adds(Pool.of([dense, bm25]), 2)
    assert added is not None
    assert {each.systems: each.chunks for each in added.found_by} == {("dense", "bm25"): 2, ("dense",): 2, ("bm25",): 1}
    shares = {each.systems: each.share.value for each in (*added.each, *added.best)}
    assert shares == pytest.approx({("dense",): 4 / 5, ("bm25",): 3 / 5, ("dense", "bm25"): 1.0})
    assert [each.gain.value for each in added.each if each.gain] == pytest.approx([2 / 5, 1 / 5])
    assert [each.only_questions for each in added.each] == [0, 0]
    assert added_sentence(added).startswith(
        "bm25 finds 100% of the relevant chunks that dense misses (1 of 1); the pool is what they found, and dense "
        "alone covers 80%"
    )


def test_what_counts_ends_at_k() -> None:
    """Within rank 1 dense has a and bm25 b of the three that the pool knows; together they cover two thirds."""
    pool = Pool.of([run_of("dense", "ab", "dc"), run_of("bm25", "be", "bc")])
    added = what_each_adds(pool, 1)
    assert added is not None
    assert (added.relevant, added.best[-1].share.value) == (4, pytest.approx(3 / 4))
    assert [each.only_questions for each in added.each] == [0, 1]
    assert ("none", 1) in {(" ".join(each.systems) or "none", each.chunks) for each in added.found_by}
    assert "; together they cover 75%" in added_sentence(added)


def test_draws_without_a_relevant_chunk_are_left_out() -> None:
    """Of two questions one has a relevant chunk: some draws have none, and that is no warning of NumPy."""
    added = what_each_adds(Pool.of([run_of("one", "a", "c"), run_of("two", "a", "c")]), 1)
    assert added is not None
    assert [each.share.value for each in added.each] == [1.0, 1.0]


def test_the_best_pair_and_three_are_those_of_all_combinations() -> None:
    """Of four runs the best pair and three cover what no other combination exceeds; tags count their own."""
    lists = {"A": "a", "B": "ab", "C": "e", "D": "b"}
    runs = [run_of(name, *[row] * 3) for name, row in lists.items()]
    added = what_each_adds(Pool.of(runs), 2)
    assert added is not None
    assert [(each.systems, each.share.value) for each in added.best] == [
        (("B", "C"), 1.0),
        (("A", "B", "C"), 1.0),
        (("A", "B", "C", "D"), 1.0),
    ]
    assert [each.gain.value for each in added.each if each.gain] == pytest.approx([0, 0, 1 / 3, 0])
    assert added_sentence(added) == "the best pair, B and C, covers 100% of the pool; all 4 together 100%"


def test_many_sets_of_runs_are_cut() -> None:
    """Of 31 sets that found one chunk each, 20 are drawn, and the report says how many more there are."""
    sets = [{n for n in range(5) if 1 << n & number} for number in range(1, 32)]
    lists = ["".join(chr(0x4E00 + place) for place, some in enumerate(sets) if n in some) for n in range(5)]
    relevant = {chunk for row in lists for chunk in row}
    report = score_pool(Pool.of([run_of(str(n), row, relevant=relevant) for n, row in enumerate(lists)]), k=20)
    table = next(
        block for section in pool_view(report).sections for block in section.blocks if "found by" in str(block)
    )
    assert isinstance(table, TableBlock)
    assert (len(table.rows), table.rest) == (20, "... and 11 more sets of runs")


def test_one_run_and_a_pool_without_relevant_chunks_add_nothing() -> None:
    """There is nothing to say of one run, and of runs without a relevant chunk."""
    assert what_each_adds(Pool.of([run_of("A", "ab")]), 2) is None
    assert what_each_adds(Pool.of([run_of("A", "xy"), run_of("B", "yz")]), 2) is None


@pytest.mark.slow
def test_the_interval_of_a_union_covers_what_questions_like_these_have() -> None:
    """Of 40 questions drawn from a known population, the interval of the union holds its share in 19 of 20."""
    rng, inside, draws = np.random.default_rng(7), 0, 60
    for _ in range(draws):
        rows = ["".join(c for c in "abe" if rng.random() < 0.7) + "x" for _ in range(40)]
        whole = run_of("all", *["xabe"] * 40)
        added = what_each_adds(Pool.of([run_of("some", *rows), whole]), 3)
        assert added is not None
        interval = added.each[0].share.interval
        inside += interval is not None and interval[0] <= 0.7 <= interval[1]
    assert inside >= 0.88 * draws
