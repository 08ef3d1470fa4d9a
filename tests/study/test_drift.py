from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from judge_eval import EvalRun
from judge_eval.errors import ConfigError, DataError, RefusedError
from judge_eval.study.drift import DriftHistory, DriftReport, drift_report
from judge_eval.trials.drift import watch_judge
from judge_eval.views.drift import drift_view
from judge_eval.views.markdown import markdown_of
from tests.support.chat_answers import judge
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.forking import Forked
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:03d}" for k in range(40)]
PLACES = [(name, letter) for name in NAMES for letter in "abc"]
RELEVANT = {place for place in PLACES if place[1] == "a"}
OTHERS = {place for place in PLACES[:36] if place[1] == "b"}
Relevant: TypeAlias = set[tuple[str, str]]
GONE = {place for place in PLACES[:30] if place[1] == "a"}
SWAPPED = {place for place in PLACES[:18] if place[1] == "a"} | {place for place in PLACES[30:48] if place[1] == "a"}
LABELS = {n: {"chunks": [{"id": c, "text": f"{c} of {n}", "label": int(c == "a")} for c in "abc"]} for n in NAMES}


def asked(relevant: set[tuple[str, str]], labelled: bool = True, **settings: Any) -> EvalRun:
    """What a judge says to whom these chunks are relevant."""
    traces = traces_of(dict.fromkeys(NAMES, "abc"), **(LABELS if labelled else {}))
    return judged(traces, {**dict.fromkeys(relevant, 1), **settings.pop("failed", {})}, **settings)


def watched(history: Path, *looks: set[tuple[str, str]], **settings: Any) -> DriftReport:
    """Ask for each look in turn, after five equal ones; return the last report."""
    watch_judge(lambda _: asked(RELEVANT, **settings), history)
    for relevant in looks:
        report = watch_judge(lambda _, answers=relevant: asked(answers, **settings), history)  # type: ignore[misc]
    return report


def test_the_first_call_makes_the_baseline(tmp_path: Path) -> None:
    """Five looks are asked for at once, and nothing is compared yet."""
    folders: list[Path] = []

    def ask(folder: Path) -> EvalRun:
        folders.append(folder)
        return asked(RELEVANT)

    report = watch_judge(ask, tmp_path / "h.jsonl")
    assert (report.verdict, report.asked_before, report.looks, report.anchors) == ("baseline", 5, 0, 120)
    assert len(set(folders)) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["h.jsonl"]


def test_the_same_judge_is_stable(tmp_path: Path) -> None:
    """A judge that says the same is stable if its anchors are enough to see a fall, and its kappa is as before."""
    report = watched(tmp_path / "h.jsonl", RELEVANT)
    assert (report.verdict, report.became_relevant, report.became_irrelevant) == ("stable", 0, 0)
    assert (report.kappa_before, report.kappa_now) == (1.0, 1.0)
    assert "80 of 100" in report.why


@pytest.mark.parametrize("labelled", [True, False])
def test_a_judge_that_changed_has_drifted(tmp_path: Path, labelled: bool) -> None:
    """Relevant chunks that are irrelevant now raise the alarm, against labels and against earlier verdicts."""
    report = watched(tmp_path / "h.jsonl", set(sorted(RELEVANT)[8:]), labelled=labelled)
    assert (report.verdict, report.became_irrelevant, report.labelled) == ("drifted", 8, labelled)
    text = markdown_of(drift_view(report))
    assert text.startswith("**drifted: ")
    assert "0 became relevant, 8 irrelevant" in text


def test_a_noisy_judge_cannot_be_told_apart(tmp_path: Path) -> None:
    """Where repeats differ too often for so few anchors, it is said how many would do."""
    rng = np.random.default_rng(3)

    def ask(_: Path) -> EvalRun:
        return asked({place for place in PLACES if (place in RELEVANT) != (rng.random() < 0.2)})

    watch_judge(ask, tmp_path / "h.jsonl")
    report = watch_judge(ask, tmp_path / "h.jsonl")
    assert report.verdict == "cannot say"
    assert report.noise == pytest.approx(0.2, abs=0.05)
    assert f"needs {report.needed:,} anchors" in report.why


def test_an_older_run_is_the_baseline(tmp_path: Path) -> None:
    """Given a run, its verdicts are the one look before, and the first call is compared with them."""
    earlier = asked(RELEVANT)
    report = watch_judge(lambda _: asked(set()), tmp_path / "h.jsonl", earlier)
    assert (report.asked_before, report.looks, report.verdict) == (1, 1, "drifted")


def test_other_anchors_are_refused(tmp_path: Path) -> None:
    """A history is of its own chunks and labels: others are refused, and the file stays."""
    history = tmp_path / "h.jsonl"
    watched(history, RELEVANT)
    before = history.read_bytes()
    with pytest.raises(ConfigError, match="history of other anchors"):
        watch_judge(lambda _: asked(RELEVANT, labelled=False), history)
    assert history.read_bytes() == before


def test_a_look_with_many_failures_is_not_taken_in(tmp_path: Path) -> None:
    """Failed verdicts are no flips: above a tenth of them the look is refused, and its replies are kept."""
    history = tmp_path / "h.jsonl"
    watched(history, RELEVANT)
    failed = {place: RefusedError("no") for place in PLACES[:20]}
    with pytest.raises(ConfigError, match="20 of 120 verdicts failed"):
        watch_judge(lambda _: asked(RELEVANT, failed=failed), history)
    few = watch_judge(lambda _: asked(RELEVANT, failed=dict(list(failed.items())[:5])), history)
    assert (few.verdict, few.failed) == ("stable", 5)


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["{}"], "required"),
        (["not JSON"], "JSON"),
        ([None, '{"at": "2026-01-01T00:00:00Z", "baseline": true, "grades": [1]}'], "other chunks"),
    ],
)
def test_a_broken_history_is_named(tmp_path: Path, lines: list[str | None], fault: str) -> None:
    """A file that is no history is an error that names file and line."""
    history = tmp_path / "h.jsonl"
    watched(history, RELEVANT)
    head = history.read_text().splitlines()[0]
    history.write_text("\n".join(head if line is None else line for line in lines))
    with pytest.raises(DataError, match=fault) as caught:
        DriftHistory(history)
    assert "h.jsonl" in str(caught.value)


def test_a_report_follows_from_its_history(tmp_path: Path) -> None:
    """The same file gives the same report again, without a call."""
    history = tmp_path / "h.jsonl"
    report = watched(history, RELEVANT, set(sorted(RELEVANT)[8:]))
    assert drift_report(DriftHistory(history)) == report


def flipped(body: Any) -> Any:
    """Accept every chunk."""
    return {**judge(body), "verdict": True}


@pytest.mark.slow
def test_a_look_that_was_killed_is_paid_once(tmp_path: Path) -> None:
    """Killed with SIGKILL, a look goes on: no request is asked twice but those in flight, then drift is seen."""
    shell = Shell(tmp_path)
    with (tmp_path / "data.jsonl").open("w") as file:
        for name in NAMES:
            file.write(
                json.dumps({"id": name, "query": f"what is {name}", "reference": f"{name} is so", **LABELS[name]})
            )
            file.write("\n")
    with ChatServer(latency=0.004) as server:
        command = ["drift", "data.jsonl", "--model", "openai/m", "--base-url", server.url, "--concurrency", "4"]
        environment = shell.environment(OPENAI_API_KEY="sk-x")
        kills = 0
        for calls in (150, 400):
            process = Forked(command, tmp_path, environment, tmp_path / "said")
            while len(server.calls) < calls:
                time.sleep(0.005)
            process.kill()
            kills += process.wait() == -9
        done = shell(*command, OPENAI_API_KEY="sk-x")
        assert done.code == 0, done.err
        assert kills == 2
        assert 5 * len(PLACES) <= len(server.calls) <= 5 * len(PLACES) + kills * 8
        server.verdict = flipped
        done = shell(*command, OPENAI_API_KEY="sk-x")
        assert done.code == 1, done.out + done.err
        assert done.out.startswith("drifted: ")


@pytest.mark.parametrize(("was", "now"), [(set(PLACES), RELEVANT), (RELEVANT - GONE, RELEVANT - GONE ^ SWAPPED)])
def test_a_judge_whose_flips_cancel_is_another_judge(tmp_path: Path, was: Relevant, now: Relevant) -> None:
    """No smaller share of right verdicts, but more flips than repeats make: drifted, with the flips."""
    watch_judge(lambda _: asked(was), tmp_path / "h.jsonl")
    report = watch_judge(lambda _: asked(now), tmp_path / "h.jsonl")
    assert report.verdict == "drifted"
    assert report.why.startswith("the verdicts changed more than repeats do in this look (p=")
    assert f"{report.became_relevant} became relevant, {report.became_irrelevant} irrelevant" in report.why
    assert report.became_irrelevant == len(was - now) >= 6


def test_one_way_flips_against_an_older_run_without_labels_are_drift(tmp_path: Path) -> None:
    """Asked once then and once now, flips both ways may be repeats; flips one way are another judge."""
    earlier = asked(RELEVANT, labelled=False)
    report = watch_judge(lambda _: asked(RELEVANT - SWAPPED - GONE, labelled=False), tmp_path / "h.jsonl", earlier)
    assert (report.verdict, report.labelled) == ("drifted", False)
    assert report.why.startswith("the share of relevant verdicts went from 0.333 to ")
    both = watch_judge(lambda _: asked(RELEVANT ^ SWAPPED ^ OTHERS, labelled=False), tmp_path / "i.jsonl", earlier)
    assert both.verdict == "cannot say"


def test_flips_that_repeats_can_do_are_counted_in_the_reason(tmp_path: Path) -> None:
    """Two flips of 120 are no drift, and not silent either."""
    report = watched(tmp_path / "h.jsonl", RELEVANT ^ {PLACES[0], PLACES[1]})
    assert report.verdict == "stable"
    assert "1 became relevant, 1 irrelevant, no more than by repeats, which differ in 0.0%" in report.why
