from __future__ import annotations

import xml.etree.ElementTree as ET
from html import escape

import numpy as np
import pytest

from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import Difference
from judge_eval.compare.gate import (
    Limit,
    check_drops,
    check_gates,
    check_under,
    decide_drop,
    gate_limits,
    planned_traces,
    seen_before,
    seen_drop,
    seen_in_slice,
)
from judge_eval.compare.options import Gates, Undecided
from judge_eval.errors import ConfigError, RefusedError, UnknownNameError
from judge_eval.export.ci_reports import MARKER, MOST, junit, pull_request_comment
from judge_eval.runs.judging.session import place_in_ci
from judge_eval.stats import compare_paired
from judge_eval.views.comparison import check_lines, gate_title
from judge_eval.views.gate_sentences import check_sentence, reason_sentence
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:02d}" for k in range(20)]
TEXTS = dict.fromkeys(NAMES, "abc")


def worse(count: int) -> tuple[object, ...]:
    """Two runs, the second without the relevant chunk in `count` traces."""
    first = judged(traces_of(TEXTS), {"a": 1}, label="main")
    second = judged(traces_of(TEXTS), {(n, "a"): 1 for n in NAMES[count:]}, label="candidate")
    return first, second


def test_a_mean_under_the_limit_fails_by_how_much() -> None:
    """`fail-under` compares the mean; the sentence names metric, mean and distance."""
    _, run = worse(10)
    (check,) = check_under(run, gate_limits(Gates(fail_under=("AP@3=0.7",))))  # type: ignore[arg-type]
    assert not check.passed
    assert check_sentence(check) == "AP@3 is 0.5000, 0.2000 under 0.7"
    assert check_under(run, gate_limits(Gates(fail_under=("AP@3=0.5",))))[0].passed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lost", "limit", "undecided", "passed", "warns"),
    [
        (10, "0.03", "warn", False, False),  # the whole interval of the drop lies above
        (10, "0.03", "pass", False, False),
        (1, "0.03", "warn", True, True),  # the drop is 0.05, but may be less: undecided
        (1, "0.03", "pass", True, False),
        (1, "0.03", "fail", False, False),
        (1, "0.3", "fail", True, False),
        (0, "0", "warn", True, False),  # no drop at all
        (0, "0", "fail", True, False),
    ],
)
def test_what_is_undecided_fails_warns_or_passes(
    lost: int, limit: str, undecided: Undecided, passed: bool, warns: bool
) -> None:
    """`max-drop` fails where more is shown; what is undecided passes with a warning unless it is set otherwise."""
    result = compare(*worse(lost))  # type: ignore[arg-type]
    (check,) = check_drops(result, gate_limits(Gates(max_drop=(f"AP@3={limit}",))), undecided=undecided)
    assert (check.passed, check.warns) == (passed, warns)
    assert (len(check.movers) > 0) is not passed


def test_a_failed_check_names_the_traces_that_lost_most() -> None:
    """The movers are the traces that lost, the greatest loss first, at most five."""
    result = compare(*worse(10))  # type: ignore[arg-type]
    (check,) = check_drops(result, gate_limits(Gates(max_drop=("AP@3=0.1",))))
    assert len(check.movers) == 5
    assert all(m.differences["AP@3"] == -1 for m in check.movers)
    assert {m.trace_id for m in check.movers} <= set(NAMES[:10])


def test_non_inferiority_needs_evidence() -> None:
    """Twenty equal traces show that less than 0.3 was lost, and not that less than 0.05 was."""
    equal = compare(*worse(0))  # type: ignore[arg-type]
    (wide,) = check_drops(equal, gate_limits(Gates(non_inferior=("AP@3=0.3",))))
    assert (wide.outcome, wide.passed) == ("passed", True)
    for undecided in ("pass", "warn", "fail"):
        limits = gate_limits(Gates(non_inferior=("AP@3=0.05",)))
        (narrow,) = check_drops(equal, limits, undecided=undecided)  # type: ignore[arg-type]
        assert (narrow.outcome, narrow.passed) == ("undecided", False)
    assert "it sees drops of 0.22 or more with 20 traces (80% power)" in check_sentence(narrow)
    assert "it takes 48 traces like these or more to show whether it is less than 0.05" in check_sentence(narrow)


@pytest.mark.parametrize("text", ["AP@5", "=0.5", "AP@5=", "AP@5=nan", "AP@5=-1", "AP@5=inf"])
def test_unreadable_limits_are_refused(text: str) -> None:
    """A limit is METRIC=VALUE with a finite value of at least 0."""
    with pytest.raises(ConfigError):
        Limit.parse("max-drop", text)


def test_limits_know_parameters_and_aliases() -> None:
    """A metric's parameters hold `=` themselves, and an alias means its metric; a typo is advised on."""
    assert Limit.parse("fail-under", "NDCG(gain=exp)@10=0.5") == Limit("fail-under", "NDCG(gain=exp)@10", 0.5)
    assert Limit.parse("fail-under", "ContextPrecision@5=0.5").metric == "AP@5"
    with pytest.raises(UnknownNameError):
        Limit.parse("fail-under", "APP@5=0.5")


@pytest.mark.slow
def test_the_report_starts_with_its_marker_and_stays_short() -> None:
    """However many traces changed and however long their text, a comment can hold it."""
    names = [f"{'n' * 90}{k}" for k in range(300)]
    texts = dict.fromkeys(names, "abc" * 10)
    more = {name: {"query": "|" * 119 + name} for name in names}
    wide = {n: {"chunks": [f"no {k}" for k in range(41)], **more[n]} for n in names}
    first = judged(traces_of(dict.fromkeys(texts, ""), **wide), {}, label="a|b`c")
    second = judged(traces_of(dict.fromkeys(texts, ""), **wide), {"c1": 1})
    result = compare(first, second)
    text = pull_request_comment(second, result, check_drops(result, gate_limits(Gates(max_drop=("P@3=0.1",)))))
    assert text.startswith(MARKER)
    assert len(text) < MOST
    assert "more" in text
    assert text.rstrip().endswith("</details>")


def test_junit_is_xml_whatever_the_text() -> None:
    """Control characters and markup in a query do not break the file; failures carry the sentence."""
    more = {n: {"query": 'a\x00<b>&"q ' + n} for n in NAMES}
    first = judged(traces_of(TEXTS, **more), {"a": 1})
    result = compare(first, judged(traces_of(TEXTS, **more), {}))
    checks = check_drops(result, gate_limits(Gates(max_drop=("AP@3=0.1", "P@3=1"))))
    root = ET.fromstring(junit(checks).encode("utf-8"))
    assert root.attrib == {"tests": "2", "failures": "1", "errors": "0"}
    (failure,) = root.iter("failure")
    assert "which is more than 0.1" in failure.attrib["message"]


def test_label_and_address_come_from_github_and_gitlab() -> None:
    """A pull or merge request is labelled and linked; a branch is labelled so that `label:main` finds it."""
    github = {"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r"}
    pull = {**github, "GITHUB_REF": "refs/pull/12/merge", "GITHUB_REF_NAME": "12/merge", "GITHUB_SHA": "abc"}
    assert place_in_ci(pull) == ("PR #12", "https://github.com/o/r/pull/12")
    named = {**pull, "GITHUB_HEAD_REF": "main"}  # of a fork: never the label of the base branch's runs
    assert place_in_ci(named) == ("main (#12)", "https://github.com/o/r/pull/12")
    branch = {**github, "GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main", "GITHUB_RUN_ID": "7"}
    assert place_in_ci(branch) == ("main", "https://github.com/o/r/actions/runs/7")
    assert place_in_ci({**branch, "GITHUB_SHA": "abc"}) == ("main", "https://github.com/o/r/commit/abc")
    gitlab = {"GITLAB_CI": "true", "CI_PROJECT_URL": "https://gitlab.com/o/r"}
    assert place_in_ci({**gitlab, "CI_MERGE_REQUEST_IID": "3"}) == (
        "MR !3",
        "https://gitlab.com/o/r/-/merge_requests/3",
    )
    merge = {**gitlab, "CI_MERGE_REQUEST_IID": "3", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "feature-x"}
    assert place_in_ci(merge)[0] == "feature-x (!3)"
    commit = {**gitlab, "CI_COMMIT_REF_NAME": "main", "CI_COMMIT_SHA": "abc"}
    assert place_in_ci(commit) == ("main", "https://gitlab.com/o/r/-/commit/abc")
    assert place_in_ci({**gitlab, "CI_COMMIT_REF_NAME": "main", "CI_JOB_URL": "javascript:alert(1)"}) == ("main", None)
    assert place_in_ci({}) == (None, None)


def test_a_failed_gate_stands_first_in_the_same_words() -> None:
    """Comment, JUnit, notebook and page begin with a failed gate: its title, its limits, the traces that lost most."""
    before, after = worse(10)
    result = compare(before, after)  # type: ignore[arg-type]
    checks = check_gates([after], Gates(fail_under=("AP@3=0.2",), max_drop=("AP@3=0.05",)), result)  # type: ignore[list-item]
    title, lines = gate_title(checks), [line for check in checks for line in check_lines(check)]
    assert (title, checks.passed) == ("Gate failed: 1 of 2", False)
    assert [line.partition(" ")[0] for line in lines] == ["failed:", *(f"{name}:" for name in NAMES[:5]), "passed:"]
    text = pull_request_comment(after, result, checks)  # type: ignore[arg-type]
    assert text.startswith(f"{MARKER}\n\n**{title}**")
    first, *_ = ET.fromstring(junit(checks)).iter("failure")
    assert first.attrib["message"].splitlines() == [title, *lines[:-1]]
    assert ET.fromstring(junit(checks))[0][0].attrib["name"].startswith("max-drop")
    for shown in (checks, result.replace(checks=tuple(checks))):
        html = shown._repr_html_()
        assert html.startswith(f"<div><p><b>{title}</b></p>")
        places = [html.index(escape(line)) for line in lines]
        assert places == sorted(places)
    kept = result.replace(checks=tuple(check_gates([after], Gates(fail_under=("AP@3=0.2",)), result)))  # type: ignore[list-item]
    assert kept._repr_html_().index("Gate passed") > kept._repr_html_().index("t00")


def test_a_failed_mean_names_the_traces_with_the_worst_values() -> None:
    """The lowest values under the limit; if failed verdicts leave the mean open, the traces without a value."""
    _, run = worse(3)
    (check,) = check_gates([run], Gates(fail_under=("AP@3=0.9",)))  # type: ignore[list-item]
    assert check_lines(check)[1:] == [f"{name}: 0.0000 (...) question {name}" for name in NAMES[:3]]
    assert check_gates([run], Gates(fail_under=("AP@3=0.1",)))[0].worst == ()  # type: ignore[list-item]
    unanswered = judged(
        traces_of({"x": "ab", "y": "ab"}),
        {("x", "a"): 1, ("y", "a"): RefusedError("no"), ("y", "b"): RefusedError("no")},
    )
    (undecided,) = check_gates([unanswered], Gates(fail_under=("AP@3=0.6",), undecided="fail"))
    assert (undecided.outcome, undecided.passed) == ("undecided", False)
    assert [(t.trace_id, t.value) for t in undecided.worst] == [("y", None)]
    assert check_lines(undecided)[1].startswith("y: no value (!!) ")


def test_a_name_in_a_query_calls_nobody() -> None:
    """A query that holds `@name` does not notify that person from a pull request; links are text."""
    more = {"x": {"query": "ask @someone, <b>me@home</b> | [link](http://x)"}}
    result = compare(judged(traces_of({"x": "ab"}, **more), {"a": 1}), judged(traces_of({"x": "ab"}, **more), {"b": 1}))
    text = pull_request_comment(None, result, [])
    assert "@someone" not in text
    assert "me@home" in text
    assert "<b>" not in text
    assert "[link](" not in text


def test_students_bound_passes_where_no_great_loss_can_be_unseen() -> None:
    """Where it was shown to hold, with enough traces for the limit and for what one trace has to lose."""
    common = {
        "metric": "AP@5", "candidate": 1, "n": 50, "difference": 0.0, "standard_error": 0.0141, "p": 1.0,
        "baseline_mean": 0.5, "candidate_mean": 0.5, "p_holm": 1.0, "wins": 25, "ties": 0, "losses": 25,
        "lower": -0.08, "upper": 0.08, "t_lower": -0.03, "t_upper": 0.03,
    }  # fmt: skip

    def outcome(greatest: float, **more: float | None) -> str:
        values = {**common, "baseline_range": (0.2, greatest), **more}
        return decide_drop(Difference(**values), 0.05)[0]

    assert outcome(0.75) == "passed"
    assert outcome(0.75, t_lower=None) == "undecided"
    assert outcome(1.0) == "undecided"  # 2.5 expected losers of all they have can be unseen
    assert outcome(1.0, n=60) == "passed"
    assert outcome(0.75, clusters=40) == "undecided"


def test_failed_verdicts_leave_gaffkes_bound_alone() -> None:
    """Student's bound is of the values given, not of those that an open trace could have."""
    d = np.random.default_rng(0).normal(0, 0.02, 100)
    before, after = np.full(100, 0.5), 0.5 + d
    known = compare_paired(before, after, limits=(0.0, 1.0), planning=False)
    low, high = after.copy(), after.copy()
    low[0], high[0] = 0.0, 1.0
    opened = compare_paired(before, after, ends=((before, before), (low, high)), limits=(0.0, 1.0), planning=False)
    assert known.t_lower is not None
    assert known.lower is not None
    assert known.lower < known.t_lower < known.difference
    assert (opened.t_lower, opened.t_upper) == (None, None)


def test_a_plan_allows_for_what_the_traces_do_not_show() -> None:
    """The named number is above that for the drop as it is; without any variation it is a least number."""
    values = {
        "metric": "AP@5", "candidate": 1, "n": 40, "baseline_mean": 0.7, "candidate_mean": 0.69, "p": 1.0,
        "p_holm": 1.0, "wins": 18, "ties": 0, "losses": 22, "difference": -0.01, "standard_error": 0.016,
        "lower": -0.07, "upper": 0.05, "baseline_range": (0.2, 1.0),
    }  # fmt: skip
    known = Difference(**values)
    least, planned = planned_traces(known, 0.05)
    assert least is not None
    assert planned is not None
    assert 40 < least < planned
    assert f"about {planned} traces like these" in reason_sentence(known, 0.05)
    assert f"({least} if the drop is as it is here)" in reason_sentence(known, 0.05)
    assert planned_traces(Difference(**values | {"standard_error": None}), 0.05)[1] is None


@pytest.mark.foreign
@pytest.mark.parametrize(
    ("traces", "spread", "slices"), [(20, 0.1, 1), (50, 0.1, 1), (50, 0.3, 1), (200, 0.2, 1), (50, 0.1, 20)]
)
def test_what_a_gate_sees_is_foreseen(traces: int, spread: float, slices: int) -> None:
    """The least drop told before a run is, within .02, what the gate says after it, also of one slice of many."""
    rng, seen = np.random.default_rng(3), []
    for _ in range(10):
        found = normal_differences(rng, traces, spread)
        seen.append(seen_in_slice(found, 0.05, slices) if slices > 1 else seen_drop(found, 0.05))
    assert None not in seen
    told, _ = seen_before(0.05, spread, traces, 1.0, slices)
    assert told == pytest.approx(np.mean(seen), abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "limit"), [(0.1, 0.05), (0.3, 0.05), (0.2, 0.1), (0.1, 0.3)])
def test_so_many_traces_show_an_unchanged_run(spread: float, limit: float) -> None:
    """Of the number told before a run, an unchanged run passes in some 80%; of a third of it in far fewer."""
    rng, (_, traces) = np.random.default_rng(5), seen_before(limit, spread, 50, 1.0)
    assert traces is not None

    def passed(n: int) -> float:
        kept = [decide_drop(normal_differences(rng, n, spread), limit)[0] == "passed" for _ in range(40)]
        return float(np.mean(kept))

    assert passed(traces // 3) < 0.6
    assert passed(traces) > 0.7


def normal_differences(rng: np.random.Generator, traces: int, spread: float) -> Difference:
    """Compare runs whose differences are normal, with a mean of 0, about a baseline that can lose and gain."""
    d = np.clip(rng.normal(0, spread, traces), -1, 1)
    before = np.clip(0.75, np.maximum(0, -d), np.minimum(1, 1 - d))
    test = compare_paired(before, before + d, limits=(0.0, 1.0), planning=False)
    fields = {name: getattr(test, name) for name in SEEN}
    return Difference(metric="AP", candidate=1, p=1.0, p_holm=1.0, method="gaffke", **fields)


SEEN = ("n", "baseline_mean", "candidate_mean", "difference", "lower", "upper", "t_lower", "t_upper", "baseline_range",
        "standard_error", "wins", "ties", "losses", "n_open")  # fmt: skip
