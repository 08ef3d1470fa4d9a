"""Cascades from end to end: labels of a file, whole traces first, and a server that judges by one."""

from __future__ import annotations

import csv
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from judge_eval.study.cascade_file import CascadeFile, read_cascade
from tests.support.chat_faults import Faults
from tests.support.command import Shell
from tests.support.desk import Desk
from tests.support.serving import ask
from tests.support.stages import stages_file
from tests.support.unsure_server import GOLD, UnsureServer, dataset

MODELS = ("--cascade", "openai/cheap", "--strong-model", "openai/strong")
KEY = {"OPENAI_API_KEY": "sk-x"}


@pytest.fixture
def server() -> Iterator[UnsureServer]:
    """A cheap judge wrong in 12%, a strong one that is right."""
    with UnsureServer() as started:
        yield started


def read(data: Path) -> list[dict[str, Any]]:
    """Read the traces of a file as plain data."""
    return [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]


def people(path: Path, data: Path, *, wrong: int = 0, every: int = 1, **more: object) -> Path:
    """Write labels as CSV: the truth of each trace's chunks, but of each `wrong`-th trace its contrary."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["trace_id", "chunk_id", "label", *more])
        for number, row in enumerate(read(data)):
            for chunk in row["chunks"] if number % every == 0 else ():
                label = chunk["label"] if not wrong or number % wrong else 1 - chunk["label"]
                table.writerow([row["id"], chunk["id"], label, *more.values()])
    return path


def unlabelled(path: Path, count: int) -> tuple[Path, Path]:
    """Write a dataset with its labels, and the same without them."""
    labelled = dataset(path.with_name("labelled.jsonl"), count)
    rows = read(labelled)
    for row in rows:
        for chunk in row["chunks"]:
            del chunk["label"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return labelled, path


def refit(desk: Desk, server: UnsureServer, data: Path, *flags: object) -> CascadeFile:
    """Fit a cascade to data, and read its file."""
    result = desk("cascade", "fit", data, *MODELS, "--base-url", server.url, *flags, **KEY)
    assert result.code == 0, result.err
    return read_cascade(desk.folder / "cascade.json")


@pytest.mark.slow
def test_labels_of_a_file_are_the_target(desk: Desk, server: UnsureServer) -> None:
    """Labels beside bare data fit as those inside do; file, `show` and the run say where they are from."""
    labelled, bare = unlabelled(desk.folder / "bare.jsonl", 120)
    table = people(desk.folder / "people.csv", labelled)
    inside = refit(desk, server, labelled, "--target", "labels")
    beside = refit(desk, server, bare, "--target", "labels", "--labels", table)
    assert beside.labels == str(table)
    assert (beside.fit.target, beside.fit.n, beside.fit.holds) == ("people", 120, True)
    assert beside.fit == inside.fit
    assert beside.fit.threshold is not None
    shown = desk("cascade", "show", "cascade.json").out.replace("\n", " ")
    assert f"target: the labels ({table})" in shown
    result = desk("run", bare, "--judge", "cascade.json", "-q", **KEY)
    assert result.code == 0, result.err
    assert "is other than people's in at most" in result.out
    run = EvalRun.load(max((desk.folder / "runs").glob("2*"), key=lambda at: at.stat().st_mtime_ns))
    verdicts = [(r.trace_id, o) for r in run.results for o in r.outcomes if o.kind == "verdict"]
    truth = {(r["id"], c["id"]): c["label"] for r in read(labelled) for c in r["chunks"]}
    wrong = sum(o.relevant != bool(truth[trace, o.chunk_id]) for trace, o in verdicts)
    assert len(verdicts) == 360
    assert wrong / 360 <= 0.05


@pytest.mark.slow
def test_people_who_differ_leave_no_guarantee(desk: Desk, server: UnsureServer) -> None:
    """Where people differ from the strong judge in a tenth, no threshold keeps 5%, and all say so."""
    labelled, bare = unlabelled(desk.folder / "bare.jsonl", 120)
    table = people(desk.folder / "people.csv", labelled, wrong=10)
    file = refit(desk, server, bare, "--target", "labels", "--labels", table)
    assert (file.fit.holds, file.fit.threshold, file.guarantee) == (False, None, None)
    assert file.fit.strong_alone is not None
    assert file.fit.strong_alone.value == pytest.approx(0.1)
    shown = desk("cascade", "show", "cascade.json").out
    assert "everything escalates, without a guarantee: the strong judge itself errs too often" in shown
    loose = refit(desk, server, bare, "--target", "labels", "--labels", table, "--alpha", "0.3")
    assert loose.fit.holds
    assert loose.fit.threshold is not None


def test_a_sample_is_of_labelled_traces_alone(desk: Desk, server: UnsureServer) -> None:
    """With labels for every other trace half are drawn; too few or doubtful ones are refused."""
    labelled, bare = unlabelled(desk.folder / "bare.jsonl", 120)
    call = ("cascade", "fit", bare, *MODELS, "--base-url", server.url, "--target", "labels", "--labels")
    half = people(desk.folder / "half.csv", labelled, every=2)
    result = desk(*call, half, "--dry-run", **KEY)
    assert "60 of 60 traces drawn" in result.out
    few = people(desk.folder / "few.csv", labelled, every=3)
    result = desk(*call, few, **KEY)
    assert result.code == 2
    assert "40 traces are too few" in result.err
    assert "40 of 120 traces hold labelled chunks" in result.err
    doubtful = people(desk.folder / "doubtful.csv", labelled, probability=0.5)
    with doubtful.open("a", encoding="utf-8") as file:
        file.write("other,c,1,0.9\n")
    result = desk(*call, doubtful, **KEY)
    assert result.code == 2
    assert "unequal chances" in result.err
    result = desk("cascade", "fit", bare, *MODELS, "--labels", half, **KEY)
    assert result.code == 2
    assert "--labels needs --target labels" in result.err
    split = desk.folder / "split.csv"
    rows = [f"{row['id']},c1,{vote},{by}" for row in read(bare)[:30] for by, vote in (("Anna", 0), ("Ben", 1))]
    agreed = [f"{row['id']},c1,1,Anna" for row in read(bare)[30:]]
    split.write_text("\n".join(["trace_id,chunk_id,label,by", *rows, *agreed]) + "\n", encoding="utf-8")
    note = "30 chunks left out: as many people find them relevant as not"
    assert note in desk(*call, split, "--dry-run", **KEY).out
    tight = desk(*call, split, "--alpha", "0.01", **KEY)
    assert (tight.code, note in " ".join(tight.err.split())) == (2, True)
    assert server.counts["calls"] == 0


@pytest.mark.slow
def test_a_listwise_pass_comes_first(desk: Desk, server: UnsureServer) -> None:
    """Whole traces are read once each, single chunks by the strong judge; the file makes the same judge."""
    data = dataset(desk.folder / "traces.jsonl", 150)
    stages = stages_file(desk.folder, {"model": "openai/cheap", "mode": "listwise"}, "openai/strong")
    file = refit(desk, server, data, "--judge", stages)
    assert (file.cheap.mode, file.strong.mode) == ("listwise", "pointwise")
    assert (file.cheap.prompt, file.strong.prompt) == ("listwise/support/binary@2", "support/binary@2")
    asked = [body for body in server.calls if body["model"] == "cheap"]
    listwise = [body for body in asked if "Judge every chunk above." in body["messages"][-1]["content"]]
    assert len(listwise) == 150
    assert all(body["logprobs"] for body in asked)
    # Told relevant without a quote, a chunk is asked about once more by itself.
    assert len(asked) - len(listwise) <= 0.12 * 450
    assert file.fit.threshold is not None
    assert 0 < file.fit.kept < file.fit.n
    assert file.fit.cheap_alone.value == pytest.approx(0.12, abs=0.08)
    assert (file.cheap.verdicts, file.strong.verdicts) == (450, 150)
    before = len(server.calls)
    output = desk("run", data, "--judge", "cascade.json", "-q", "--out", "judged", **KEY)
    assert output.code == 0, output.err
    assert {body["model"] for body in server.calls[before:]} == {"strong"}  # whole traces are in the cache
    run = EvalRun.load(next((desk.folder / "judged").glob("2*")))
    stages = run.manifest.tally.stages
    assert stages["cheap"] + stages["strong"] == 450
    for result in run.results:
        for outcome, chunk in zip(result.outcomes, result.trace.chunks, strict=True):
            assert outcome.kind == "verdict"
            assert outcome.chunk_id == chunk.id
            if outcome.stage == "strong":
                assert outcome.relevant == (GOLD in chunk.text)
            else:
                assert outcome.side_confidence is not None
                assert outcome.side_confidence >= file.fit.threshold
    assert "on data like the 150 traces" in output.out


@contextmanager
def served(shell: Shell, *flags: str | Path) -> Iterator[str]:
    """Serve in a process of its own; yields the address."""
    process = shell.start("serve", "--port", "0", *flags, **KEY)
    assert process.stdout is not None
    try:
        first = process.stdout.readline().decode()
        assert " on http://" in first, process.communicate(timeout=30)
        yield first.split(" on ", 1)[1].strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def submitted(url: str, data: Path, label: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Submit the traces of a file and wait; returns the answer and the outcomes."""
    rows = read(data)
    status, output, _ = ask(f"{url}/api/v1/runs?wait=30", method="POST", body={"traces": rows, "label": label})
    assert status == 202, output
    results = ask(f"{url}/api/v1/runs/{output['id']}/results?limit=1000")[1]["results"]
    return output, [outcome for result in results for outcome in result["outcomes"]]


@pytest.mark.slow
def test_a_served_cascade_of_a_file_judges_over_rest(tmp_path: Path, server: UnsureServer) -> None:
    """Of each verdict the answer says the stage, strong ones are right, and the run keeps the guarantee."""
    shell = Shell(tmp_path)
    data = dataset(tmp_path / "traces.jsonl", 120)
    fit = shell("cascade", "fit", data, *MODELS, "--base-url", server.url, "-o", "cascade.toml", **KEY)
    assert fit.code == 0, fit.err
    file = read_cascade(tmp_path / "cascade.toml")
    assert file.fit.threshold is not None
    new = dataset(tmp_path / "new.jsonl", 20, chunks=4)
    with served(shell, "--judge", "cascade.toml") as url:
        server.reset()
        result, outcomes = submitted(url, new, "asked")
        assert result["status"] == "done"
        assert len(outcomes) == 80
        texts = [chunk["text"] for row in read(new) for chunk in row["chunks"]]
        for outcome, text in zip(outcomes, texts, strict=True):
            if outcome["stage"] == "strong":
                assert outcome["relevant"] == (GOLD in text)
            else:
                assert outcome["stage"] == "cheap"
                side = outcome["confidence"] if outcome["relevant"] else 1 - outcome["confidence"]
                assert side >= file.fit.threshold - 0.005  # as rounded to two decimals
        stages = [outcome["stage"] for outcome in outcomes]
        bought = [body["model"] for body in server.calls]
        # The last chunk of each trace is new; what was judged before is in the cache.
        assert bought.count("cheap") == 20
        assert 0 < bought.count("strong") <= stages.count("strong")
        head = ask(f"{url}/api/v1/runs/{result['id']}/page")[1]["head"]
        assert head["stages"] == {"cheap": stages.count("cheap"), "strong": stages.count("strong")}
        assert "on data like the 120 traces it was fitted on" in head["cascade"][1]
    kept = EvalRun.load(next((tmp_path / "runs").glob("2*"))).manifest
    assert (kept.id, kept.judge["guarantee"]["digest"]) == (result["id"], file.digest)


@pytest.mark.slow
def test_a_served_cascade_with_a_named_threshold_judges_over_rest(tmp_path: Path, server: UnsureServer) -> None:
    """A cascade with a named threshold serves as it runs; a failed strong verdict stays none."""
    shell = Shell(tmp_path)
    data = dataset(tmp_path / "traces.jsonl", 12)
    two = 'threshold = 0.85\n[cheap]\nmodel = "openai/cheap"\n[strong]\nmodel = "openai/strong"\n'
    (tmp_path / "two.toml").write_text(two)
    (tmp_path / "judge_eval.toml").write_text("attempts = 1\n")
    flags = ("--judge", "two.toml", "--base-url", server.url)
    with served(shell, *flags) as url:
        result, outcomes = submitted(url, data, "named")
        stages = [outcome["stage"] for outcome in outcomes]
        assert (result["status"], len(stages), set(stages)) == ("done", 36, {"cheap", "strong"})
        head = ask(f"{url}/api/v1/runs/label:named/page")[1]["head"]
        assert head["cascade"][1].startswith("the threshold was named, not fitted: nothing bounds")
        server.faults = Faults(fail_texts=('"model":"strong"', '"model": "strong"'))
        other = dataset(tmp_path / "other.jsonl", 12, chunks=5)
        result, outcomes = submitted(url, other, "failing")
        assert result["status"] == "incomplete"
        kinds = {(outcome["kind"], outcome.get("stage")) for outcome in outcomes}
        # What the strong judge said of the first three chunks is in the cache.
        assert kinds == {("verdict", "cheap"), ("verdict", "strong"), ("no_verdict", None)}
    run = shell("run", data, *flags, "--out", "alone", "-q", **KEY)
    assert run.code in (0, 3), run.err
    alone = EvalRun.load(next((tmp_path / "alone").glob("2*")))
    assert [o.stage for r in alone.results for o in r.outcomes if o.kind == "verdict"] == stages


@pytest.mark.slow
def test_serve_refuses_what_run_refuses(tmp_path: Path) -> None:
    """A cascade without a threshold, or flags that no cascade takes, end `serve` before it listens."""
    shell = Shell(tmp_path)
    two = '[cheap]\nmodel = "openai/cheap"\n[strong]\nmodel = "openai/strong"\n'
    (tmp_path / "two.toml").write_text(two)
    result = shell("serve", "--port", "0", "--judge", "two.toml", **KEY)
    assert result.code == 2
    assert "the cascade has no threshold" in result.err
    result = shell("serve", "--port", "0", "--model", "fake/overlap", "--cascade-threshold", "0.9")
    assert result.code == 2
    assert "No such option: --cascade-threshold" in result.err
