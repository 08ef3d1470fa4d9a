"""Limits on slices: `--max-drop AP@5[tag=ids]=0.1`, and on each slice of a kind, `--max-drop AP@5[tag]=0.2`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import Check
from judge_eval.compare.foresight import foresights
from judge_eval.compare.gate import Limit, check_gates
from judge_eval.compare.options import Gates
from judge_eval.errors import ConfigError
from judge_eval.export.ci_reports import junit, pull_request_comment
from judge_eval.runs.folder.run import Run
from judge_eval.views.gate_sentences import check_sentence, foresight_sentence
from tests.compare.test_slices_compared import two_runs

TAGS = [["ids"] if k < 15 else [f"s{k % 10}", "rest"] for k in range(315)]


def check_of(runs: tuple[Run, Run], *limits: str, **options: str) -> Check:
    """Check limits on the change, and return the first."""
    gates = Gates(max_drop=limits, **options)  # type: ignore[arg-type]
    return check_gates([runs[1]], gates, compare(*runs, gates=gates))[0]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("AP@5[tag=ids]=0.1", Limit("max-drop", "AP@5", 0.1, "tag", "ids")),
        ("AP@5[tag]=0.2", Limit("max-drop", "AP@5", 0.2, "tag")),
        ("NDCG(gain=exp)@10[source=https://a.example/?x=1]=0.2",
         Limit("max-drop", "NDCG(gain=exp)@10", 0.2, "source", "https://a.example/?x=1")),
        ("Conflict@5[language=de]=0.2", Limit("max-rise", "Conflict@5", 0.2, "language", "de")),
    ],
)  # fmt: skip
def test_a_limit_names_a_slice_or_a_kind(text: str, limit: Limit) -> None:
    """The slice stands in brackets behind the metric, whatever its name holds."""
    assert Limit.parse("max-drop", text) == limit


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("max-drop", "AP@5[colour=red]=0.1", "no slices by 'colour'; there are tag, language, length, source"),
        ("fail-under", "AP@5[tag=ids]=0.1", "only a limit on a change can be on a slice"),
        ("max-drop", "AP@5[tag=ids]", "write METRIC=VALUE"),
    ],
)
def test_a_slice_that_cannot_be_is_refused(kind: str, text: str, told: str) -> None:
    """The message says what may stand there."""
    with pytest.raises(ConfigError, match=told.replace("[", r"\[")):
        Limit.parse(kind, text)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_slice_that_died_fails_the_gate_though_the_mean_keeps_its_limit() -> None:
    """15 of 315 questions lose everything: the mean falls by .05 and passes 0.15; the slice is named and fails."""
    runs = two_runs(TAGS, set(range(15)))
    assert check_of(runs, "AP@3=0.15").outcome == "passed"
    one = check_of(runs, "AP@3[tag=ids]=0.1")
    assert (one.outcome, one.passed, one.part, one.value) == ("failed", False, "tag=ids", 1.0)
    assert check_sentence(one).startswith("AP@3 fell by 1.0000 in tag ids (15 questions), by at least 0.")
    each = check_of(runs, "AP@3[tag]=0.2")
    assert (each.outcome, each.passed) == ("failed", False)
    words = (
        "AP@3 fell by more than 0.2 in 1 of 12 slices by tag, corrected for 12 slices: tag ids (15 questions) by 1.0000"
    )
    assert check_sentence(each).startswith(words)
    assert {m.trace_id for m in each.movers} <= {f"t{k:03d}" for k in range(15)}
    assert len(each.movers) == 5


@pytest.mark.slow
def test_all_slices_pass_where_each_is_shown_to() -> None:
    """Nothing changed: 30 traces a slice rule a drop of 0.3 out, and not one of 0.05."""
    runs = two_runs(TAGS[15:], set())
    kept = check_of(runs, "AP@3[tag]=0.3")
    assert kept.outcome == "passed"
    assert "in each of 11 slices by tag" in check_sentence(kept)
    open_ = check_of(runs, "AP@3[tag]=0.05")
    assert (open_.outcome, open_.passed) == ("undecided", True)
    assert "whether the drop is less than 0.05 cannot be told in 10 of 11 slices by tag" in check_sentence(open_)


@pytest.mark.slow
def test_a_drop_that_one_slice_would_show_is_not_shown_among_many() -> None:
    """8 of 10 questions lose: alone that is more than 0.2; among 30 slices it may be chance."""
    runs = two_runs([[f"s{k % 30}"] for k in range(300)], set(range(0, 180, 30)))
    assert check_of(runs, "AP@3[tag=s0]=0.05").outcome == "failed"
    among = check_of(runs, "AP@3[tag=s0]=0.05", "AP@3[tag]=0.05")
    assert among.outcome == "undecided"
    assert "which is not shown, corrected for 30 slices" in check_sentence(among)
    every = check_of(runs, "AP@3[tag]=0.05", "AP@3[tag=s0]=0.05")
    assert "cannot be told in 30 of 30 slices by tag" in check_sentence(every)


def test_tiny_slices_are_counted_and_not_tested() -> None:
    """A slice of fewer than five traces is neither a hypothesis nor kept in silence."""
    runs = two_runs([["big"] if k < 60 else [f"s{k}"] for k in range(63)], {61})
    check = check_of(runs, "AP@3[tag]=0.3")
    assert check.outcome == "passed"
    assert "3 slices of fewer than 5 traces cannot be tested" in check_sentence(check)


@pytest.mark.slow
def test_a_slice_that_is_not_there_is_an_error() -> None:
    """A gate on a misspelled tag must not pass."""
    with pytest.raises(ConfigError, match="no trace of the comparison has it; did you mean 'ids'"):
        check_of(two_runs(TAGS, set()), "AP@3[tag=idz]=0.1")


@pytest.mark.slow
def test_comment_and_junit_name_the_slice() -> None:
    """The comment says which slice broke the limit; a test case bears the limit with its slice."""
    runs = two_runs(TAGS, set(range(15)))
    gates = Gates(max_drop=("AP@3[tag]=0.2",))
    result = compare(*runs, gates=gates)
    checks = check_gates([runs[1]], gates, result)
    assert "tag ids (15 questions) by 1.0000" in pull_request_comment(runs[1], result, checks)
    (case,) = ET.fromstring(junit(checks)).iter("testcase")
    assert case.attrib["name"] == "max-drop AP@3[tag]=0.2"


@pytest.mark.slow
def test_a_limit_on_slices_says_which_drops_it_sees() -> None:
    """Undecided or passed, its line names the drop seen in the largest and the smallest slice; more slices see less."""
    runs = two_runs(TAGS[15:], set())
    line = check_sentence(check_of(runs, "AP@3[tag]=0.05"))
    seen = [float(each) for each in re.findall(r"drops of ([0-9.]+) or more in tag", line)]
    assert len(seen) == 2
    assert 0.05 < seen[0] < seen[1]
    alone = float(
        re.findall(
            r"it sees drops of ([0-9.]+) or more in tag s1 ", check_sentence(check_of(runs, "AP@3[tag=s1]=0.05"))
        )[0]
    )
    assert alone < seen[1]


@pytest.mark.slow
def test_slices_are_foreseen_before_a_run() -> None:
    """`run --dry-run` says of the largest and the smallest slice what will be seen; an absent slice yields nothing."""
    runs = two_runs(TAGS[15:], set())
    gates = Gates(max_drop=("AP@3=0.05", "AP@3[tag]=0.05", "AP@3[tag=rest]=0.05", "AP@3[tag=none]=0.05"))
    lines = [foresight_sentence(each) for each in foresights(runs[0], gates, 300)]
    assert [line.split(":")[0] for line in lines] == [
        "gate max-drop AP@3=0.05, 300 questions",
        "gate max-drop AP@3[tag]=0.05, tag rest, 300 questions",
        "gate max-drop AP@3[tag]=0.05, tag s9, 30 questions",
        "gate max-drop AP@3[tag=rest]=0.05, tag rest, 300 questions",
    ]
    alone, _, few = (float(re.findall(r"drops of about ([0-9.]+)", line)[0]) for line in lines[:3])
    assert alone < few
