"""Cascades of the offline judges on the command line."""

from __future__ import annotations

import json

from tests.support.desk import Desk
from tests.support.stages import stages_file
from tests.support.unsure_server import dataset


def fakes(desk: Desk) -> tuple[object, ...]:
    """Name two offline judges by a judge file, the first of which gives probabilities."""
    return "--judge", stages_file(desk.folder, {"model": "fake/overlap", "mode": "decision"}, "fake/overlap")


def test_a_cheap_judge_without_probabilities_is_refused(desk: Desk) -> None:
    """Nothing says where it is sure, so nothing can be fitted."""
    data = dataset(desk.folder / "traces.jsonl", 60)
    result = desk("cascade", "fit", data, "--cascade", "fake/overlap", "--strong-model", "fake/hash")
    assert result.code == 2
    assert "returned no probability" in result.err


def test_without_a_threshold_the_way_to_one_is_named(desk: Desk) -> None:
    """Nothing is judged by a threshold that nobody named; a named one is said to have no guarantee."""
    data = dataset(desk.folder / "traces.jsonl", 4)
    result = desk("run", data, *fakes(desk))
    assert result.code == 2
    assert "cascade fit" in result.err
    result = desk("run", data, *fakes(desk), "--cascade-threshold", "0.9")
    assert result.code == 0
    assert "the threshold was named, not fitted" in result.out
    assert desk("run", data, *fakes(desk), "--cascade-threshold", "0.905").code == 2
    result = desk("run", data, "--model", "fake/overlap", "--cascade-threshold", "0.9")
    assert result.code == 2
    assert "(`--cascade-threshold`) is for a cascade" in result.err


def test_one_trace_and_probes_take_cascades(desk: Desk) -> None:
    """`judge` and `probe` judge by two as `run` does."""
    data = dataset(desk.folder / "traces.jsonl", 6)
    (desk.folder / "one.json").write_text(data.read_text().splitlines()[0])
    two = 'threshold = 0.9\n[cheap]\nmodel = "fake/overlap"\nmode = "decision"\n[strong]\nmodel = "fake/overlap"\n'
    (desk.folder / "two.toml").write_text(two)
    result = desk("judge", "one.json", "--judge", "two.toml", "--json")
    assert result.code == 0, result.err
    assert {outcome["stage"] for outcome in json.loads(result.out)["outcomes"]} <= {"cheap", "strong"}
    result = desk("probe", data, "--judge", "two.toml", "--only", "random")
    assert result.code in (0, 1), result.err


def test_a_gate_says_what_the_cascade_rests_on(desk: Desk) -> None:
    """Beside the limits JUnit and the comment say that it was named; a plain judge's say nothing."""
    data = dataset(desk.folder / "traces.jsonl", 6)
    limit = ("--fail-under", "AP@5=0.0", "-q", "-o")
    for name in ("gate.xml", "gate.md"):
        assert desk("run", data, *fakes(desk), "--cascade-threshold", "0.9", *limit, name).code == 0
        assert "the threshold was named, not fitted: nothing bounds" in (desk.folder / name).read_text()
        assert desk("run", data, "--model", "fake/overlap", *limit, name).code == 0
        assert "cascade" not in (desk.folder / name).read_text()


def test_comparing_with_a_plain_judge_is_warned_of(desk: Desk) -> None:
    """Runs of a cascade and of a plain judge are told apart in one sentence; its stages are no members."""
    data = dataset(desk.folder / "traces.jsonl", 6)
    assert desk("run", data, "--model", "fake/overlap", "--label", "plain").code == 0
    assert desk("run", data, *fakes(desk), "--cascade-threshold", "0.9", "--label", "two").code == 0
    result = desk("compare", "label:plain", "label:two")
    assert "the judges differ (judged by fake/overlap-1 with support/binary@2 there; " in result.out
    assert "a cascade (support/decision@1 first, support/binary@2 below 0.90) here)" in result.out
    result = desk("show", "label:two", "--members")
    assert "outvoted" not in result.out
    assert "cascade: " in result.out


def test_a_cascade_is_not_exported(desk: Desk) -> None:
    """A batch takes one model; the message says what to do with a cascade."""
    data = dataset(desk.folder / "traces.jsonl", 4)
    two = 'threshold = 0.9\n[cheap]\nmodel = "openai/m"\n[strong]\nmodel = "openai/n"\n'
    (desk.folder / "two.toml").write_text(two)
    result = desk("batch", "export", data, "--judge", "two.toml", "--out", "batch")
    assert result.code == 2
    assert "export its strong judge on what the cheap one left open, or run the cascade online" in result.err
    assert not (desk.folder / "batch").exists()
