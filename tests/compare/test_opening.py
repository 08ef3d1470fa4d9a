from __future__ import annotations

from statistics import median_low

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import EvalRun
from judge_eval.compare.compare import compare, first_relevant
from judge_eval.errors import RefusedError, RunError
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.rows import Table
from judge_eval.runs.columns.verdict_table import table_from
from judge_eval.safe_text import signed_pair
from judge_eval.views.findings import headlines, opening_sentence
from tests.support.examples import examples
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:02d}" for k in range(30)]
GOOD = {(name, "g"): 1 for name in NAMES}


def run_of(lists: dict[str, str], label: str = "pr", **more: object) -> EvalRun:
    """Judge lists of letters, `g` being relevant."""
    return judged(traces_of(lists), {**GOOD, **more.pop("grades", {})}, label=label, **more)  # type: ignore[dict-item]


def test_a_loss_is_said_with_its_interval_its_count_and_the_rank() -> None:
    """What got worse is one sentence: metric, interval, how many lost, where their first answer went."""
    before = run_of(dict.fromkeys(NAMES, "gabc"), "main")
    after = run_of({n: "abgc" if k < 20 else "gabc" for k, n in enumerate(NAMES)})
    record = compare(before, after)
    d = record["AP@3"]
    assert d.interval is not None
    assert tuple(headlines(record)) == (
        f"pr is worse: AP@3 {d.difference:+.3f} [{d.interval[0]:+.3f}, {d.interval[1]:+.3f}]; "
        "20 of 30 questions lost (0 won); in the lost ones the first relevant chunk moved from rank 1 to 3 "
        "(median)",
    )
    (opening,) = record.openings
    assert (opening.finding, opening.first_before, opening.first_after) == ("worse", 1, 3)
    assert opening_sentence(record, opening, "B").startswith("B is worse: AP@3 -")


def test_a_gain_counts_what_won() -> None:
    """The other way round the same runs are a gain, with the ranks of what won."""
    before = run_of({n: "abgc" if k < 20 else "gabc" for k, n in enumerate(NAMES)}, "main")
    (result,) = headlines(compare(before, run_of(dict.fromkeys(NAMES, "gabc"))))
    assert result.startswith("pr is better: AP@3 +")
    assert "20 of 30 questions won (0 lost); in the won ones the first relevant chunk moved from rank 3 to 1" in result


def test_a_chunk_that_is_gone_is_missing() -> None:
    """Where the relevant chunk is not retrieved any more, no rank is made up for it."""
    before, after = (run_of(dict.fromkeys(NAMES, "gab")), run_of(dict.fromkeys(NAMES[:-1], "abc") | {NAMES[-1]: "gab"}))
    record = compare(before, after)
    (opening,) = record.openings
    assert (opening.first_before, opening.first_after) == (1, None)
    assert "the first relevant chunk was at rank 1 and is missing (median)" in headlines(record)[0]


def test_nothing_is_said_to_be_worse_that_the_interval_does_not_show() -> None:
    """Two of thirty lists that changed are no loss of the run: the sentence says so, and what would show."""
    before = run_of(dict.fromkeys(NAMES, "gab"))
    after = run_of({n: "abg" if k < 2 else "gab" for k, n in enumerate(NAMES)})
    record = compare(before, after)
    assert record["AP@3"].interval is not None
    assert record["AP@3"].interval[1] >= 0
    (result,) = headlines(record)
    assert result.startswith("no difference is shown: AP@3 -0.")
    assert "2 of 30 questions lost (0 won); differences under 0." in result
    assert result.endswith(" cannot be seen with 30 questions")
    assert "worse" not in result


def test_equal_runs_are_the_same() -> None:
    """Runs that score alike on every question are not called worse, better or unclear."""
    run = run_of(dict.fromkeys(NAMES, "gab"))
    assert headlines(compare(run, run)) == ["no difference: AP@3 is the same on all 30 questions"]


def test_of_several_candidates_each_has_a_sentence_of_its_own() -> None:
    """Where there are more runs, each sentence names whom it is about."""
    main = run_of(dict.fromkeys(NAMES, "gab"), "main")
    worse, same = run_of(dict.fromkeys(NAMES, "abg"), "one"), run_of(dict.fromkeys(NAMES, "gab"), "two")
    result = headlines(compare(main, worse, same))
    assert result[0].startswith("one is worse: ")
    assert result[1].startswith("two: no difference: ")


def test_failed_verdicts_are_counted_and_make_no_rank() -> None:
    """Open questions that can only have lost count as lost, and an unknown first rank is not guessed."""
    failed = {(name, "g"): RefusedError("no") for name in NAMES[:5]}
    after = run_of(dict.fromkeys(NAMES, "abg"), grades=failed)
    record = compare(run_of(dict.fromkeys(NAMES, "gab")), after)
    (opening,) = record.openings
    assert "30 of 30 questions lost (0 won)" in headlines(record)[0]
    assert (opening.first_before, opening.first_after) == (1, 3)


def test_the_first_average_precision_is_looked_at_first() -> None:
    """The sentence is about the metric that pages lead with, wherever it stands among the metrics."""
    lists = dict.fromkeys(NAMES, "gab")
    record = compare(run_of(lists), run_of(lists), metrics=["RR", "P@3", "AP@3"])
    assert [opening.metric for opening in record.openings] == ["AP@3"]


LISTS = st.lists(st.tuples(st.text("gab!", max_size=5), st.text("gab!", max_size=5)), min_size=1, max_size=12)


@pytest.mark.slow
@examples(40)
@given(LISTS)
def test_a_sentence_follows_from_interval_and_verdicts(pairs: list[tuple[str, str]]) -> None:
    """Whatever was retrieved: worse or better only beside 0, counts and ranks as counted by hand."""
    lists = [(list(dict.fromkeys(a)), list(dict.fromkeys(b))) for a, b in pairs]
    names = [f"n{k}" for k in range(len(lists))]
    grades = {(n, "g"): 1 for n in names} | {(n, "!"): RefusedError("no") for n in names}
    first, two = (
        judged(traces_of({n: "".join(pair[side]) for n, pair in zip(names, lists, strict=True)}), grades)
        for side in (0, 1)
    )
    record = compare(first, two)
    for opening in record.openings:
        d = record[opening.metric]
        low, high = d.interval or (0.0, 0.0)
        assert (opening.finding == "worse") == (high < 0)
        assert (opening.finding == "better") == (low > 0)
        if opening.finding in ("worse", "better"):
            ranks = [
                (first_of(a), first_of(b))
                for (a, b), x, y in zip(lists, first.results, two.results, strict=True)
                if (s := x.scores["AP@3"]) is not None
                and (t := y.scores["AP@3"]) is not None
                and (t < s if opening.finding == "worse" else t > s)
            ]
            known = [(a, b) for a, b in ranks if a is not None and b is not None]
            for side, answers in ((0, opening.first_before), (1, opening.first_after)):
                expected = median_low([pair[side] for pair in known]) if known else 99
                assert (answers or 99) == expected


def first_of(letters: list[str]) -> int | None:
    """Return the rank of the first `g`; 99 where there is none, None where a failed verdict hides it."""
    for rank, letter in enumerate(letters, 1):
        if letter in "g!":
            return rank if letter == "g" else None
    return 99


def test_first_relevant_ranks() -> None:
    """Ranks count from 1; nothing relevant is 0, a failed verdict before it -1, an empty list 0."""
    lists = {"t00": "abg", "t01": "g", "t02": "ab", "t03": "", "t04": "a!g"}
    run = run_of(lists, grades={(n, "!"): RefusedError("no") for n in lists})
    columns = table_from(run.results, run.manifest.metrics)
    assert first_relevant(columns, np.arange(5), 1).tolist() == [3, 1, 0, 0, -1]
    assert first_relevant(columns, np.array([3, 0]), 1).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("value", "ends", "told"),
    [
        (-0.187, (-0.225, -0.148), "-0.187 [-0.225, -0.148]"),
        (-0.0004, (-0.0007, -0.00012), "-0.0004 [-0.0007, -0.0001]"),
        (0.5, None, "+0.500 without an interval"),
        (0.0, (0.0, 0.0), "+0.000 [+0.000, +0.000]"),
    ],
)
def test_a_number_that_is_not_zero_is_not_shown_as_zero(
    value: float, ends: tuple[float, float] | None, told: str
) -> None:
    """An interval beside 0 never reads as one that touches it."""
    assert signed_pair(value, ends) == told


def test_the_explanation_is_in_the_sentence() -> None:
    """24 questions lose a little and 6 win much: the sum is about 0, and the sentence says so."""
    names = [f"t{k:02d}" for k in range(30)]
    before = {n: "bac" if k < 24 else "bca" for k, n in enumerate(names)}
    after = {n: "bca" if k < 24 else "abc" for k, n in enumerate(names)}
    good = {(n, "a"): 1 for n in names}
    record = compare(judged(traces_of(before), good, metrics=["RR"]), judged(traces_of(after), good, metrics=["RR"]))
    (opening,) = record.openings
    assert opening.finding == "unclear"
    assert (
        "24 of 30 questions lost (6 won), but in size losses and gains differ by no more than chance"
        in headlines(record)[0]
    )


def test_runs_without_a_common_value_say_so_first() -> None:
    """If no trace has a value in both runs, the first sentence says so, once, and no difference is doubted."""
    before = run_of({"t1": "ab"}, "main", grades={"a": RefusedError("no"), "b": RefusedError("no")})
    record = compare(before, run_of({"t1": "ab"}))
    sentence = "no trace has a value of AP@3, P@3, RR in both runs"
    assert headlines(record) == [sentence]
    assert str(record).count("no trace has a value") == 1
    page = compare_page(ComparedRuns(Table(before), Table(run_of({"t1": "ab"}))))
    assert sentence in page["warnings"]
    assert page["sentences"]["doubt"] == "Warnings"


def test_runs_of_unanswerable_questions_are_not_said_to_differ_in_traces() -> None:
    """Runs of the same questions that nothing answers have traces in common, of which none is compared."""
    run = judged(traces_of({"t1": "ab"}, t1={"answerable": False}), {}, label="main")
    with pytest.raises(RunError, match="main and main have no answerable question in common"):
        compare(run, run)
