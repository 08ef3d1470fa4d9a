"""Cascades on the command line: fitted, shown, judged by, refused for other judges."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge_eval.errors import ConfigError
from judge_eval.eval_run import EvalRun
from judge_eval.study.cascade_file import read_cascade
from tests.support.chat_faults import Faults
from tests.support.decision_server import DecisionServer
from tests.support.desk import Desk
from tests.support.golden import check_golden
from tests.support.stages import stages_file
from tests.support.unsure_server import GOLD, MODELS, UnsureServer, dataset


@pytest.fixture
def server() -> Iterator[UnsureServer]:
    """A cheap judge wrong in 12%, a strong one that is right."""
    with UnsureServer() as started:
        yield started


def fitted(desk: Desk, server: UnsureServer, *flags: object, count: int = 120) -> Path:
    """Fit a cascade to a new dataset, and return its file."""
    data = dataset(desk.folder / "traces.jsonl", count)
    result = desk("cascade", "fit", data, *MODELS, "--base-url", server.url, *flags, OPENAI_API_KEY="sk-x")
    assert result.code == 0, result.err
    return desk.folder / "cascade.json"


def judged(desk: Desk, server: UnsureServer, *flags: object) -> EvalRun:
    """Judge the dataset by what was fitted, and return the run."""
    result = desk(
        "run", "traces.jsonl", "--judge", "cascade.json", "-q", "--out", "judged", *flags,
        OPENAI_API_KEY="sk-x",
    )  # fmt: skip
    assert result.code == 0, result.err
    newest = max((desk.folder / "judged").iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
    return EvalRun.load(newest)


@pytest.mark.slow
def test_the_file_says_what_the_judges_said(desk: Desk, server: UnsureServer) -> None:
    """Each verdict of the sample is bought once; the figures are those of the server; the run keeps them."""
    file = read_cascade(fitted(desk, server))
    fit = file.fit
    # Every distinct chunk once by the cheap judge, one a trace by the strong one.
    assert server.counts["calls"] == 120 * 3 + 120
    cheap = [body for body in server.calls if body["model"] == "cheap"]
    assert all(body["logprobs"] and body["top_logprobs"] == 5 for body in cheap)
    assert not any(body.get("logprobs") for body in server.calls if body["model"] == "strong")
    assert (fit.n, fit.target, fit.alpha, fit.level, fit.allowed) == (120, "strong", 0.05, 0.95, 1)
    assert fit.threshold is not None
    assert fit.holds
    assert fit.errors <= 1
    assert fit.cheap_alone.value == pytest.approx(0.12, abs=0.08)
    assert fit.bound is not None
    assert fit.bound <= 0.05
    assert (file.cheap.verdicts, file.strong.verdicts, file.cheap.failed) == (360, 120, 0)
    assert file.cheap.tokens
    assert file.strong.tokens
    assert file.tokens
    assert file.tokens == pytest.approx(file.cheap.tokens + (1 - fit.coverage) * file.strong.tokens)
    before = server.counts["calls"]
    run = judged(desk, server)
    stages = [outcome.stage for result in run.results for outcome in result.outcomes if outcome.kind == "verdict"]
    assert run.manifest.tally.stages == {"cheap": stages.count("cheap"), "strong": stages.count("strong")}
    # What the sample bought is not bought again: only escalated chunks that were not drawn are asked about.
    assert server.counts["calls"] - before <= stages.count("strong")
    assert run.manifest.judge["guarantee"] == {
        "digest": file.digest, "target": "strong", "alpha": 0.05, "level": 0.95, "bound": fit.bound,
        "traces": 120, "coverage": fit.coverage,
    }  # fmt: skip
    wrong = sum(
        outcome.kind == "verdict" and outcome.relevant != bool(chunk.label)
        for result in run.results
        for outcome, chunk in zip(result.outcomes, result.trace.chunks, strict=True)
    )
    assert wrong / len(stages) <= 0.05


@pytest.mark.slow
def test_fitting_again_asks_nobody(desk: Desk, server: UnsureServer) -> None:
    """The two runs hold all there is: another alpha, and the same again, are fitted without a call."""
    file = fitted(desk, server)
    first, calls = read_cascade(file), server.counts["calls"]
    again = read_cascade(fitted(desk, server))
    loose = read_cascade(fitted(desk, server, "--alpha", "0.1"))
    assert server.counts["calls"] == calls
    assert again.fit == first.fit
    assert again.runs == first.runs == loose.runs
    assert loose.fit.kept >= first.fit.kept
    assert fitted(desk, server, "--cache", "none")
    assert server.counts["calls"] == calls


@pytest.mark.slow
def test_labels_may_be_the_target(desk: Desk, server: UnsureServer) -> None:
    """Against labels both judges err on their own; the strong one does not here, so the fit is the same."""
    strong = read_cascade(fitted(desk, server))
    people = read_cascade(fitted(desk, server, "--target", "labels"))
    assert people.fit.target == "people"
    assert people.labels == "the dataset"
    assert people.fit.threshold == strong.fit.threshold
    assert people.fit.strong_alone is not None
    assert people.fit.strong_alone.value == 0
    assert people.fit.over_strong is not None


@pytest.mark.slow
def test_one_trace_of_each_cluster_is_drawn(desk: Desk, server: UnsureServer) -> None:
    """Of 180 traces in 60 clusters one of each is drawn; file, `show` and runs say of what the risk is."""
    data = dataset(desk.folder / "traces.jsonl", 180, cluster=3)
    call = ("cascade", "fit", data, *MODELS, "--base-url", server.url)
    outcome = desk(*call, "--dry-run", OPENAI_API_KEY="sk-x")
    assert "60 of 180 traces drawn, one of a cluster (60 by metadata.cluster)" in outcome.out
    outcome = desk(*call, OPENAI_API_KEY="sk-x")
    assert outcome.code == 0, outcome.err
    assert "60 of 180 traces" in outcome.out
    assert "one of a cluster (60 by metadata.cluster), one random chunk of each" in outcome.out
    file = read_cascade(desk.folder / "cascade.json")
    assert (file.fit.n, file.traces, file.cluster, file.clusters) == (60, 180, "cluster", 60)
    sampled = EvalRun.load(next((desk.folder / "runs").glob("cascade-*/strong/*/manifest.json")).parent)
    drawn = [result.trace for result in sampled.results]
    assert len({trace.metadata["cluster"] for trace in drawn}) == len(drawn) == 60
    assert len({int(trace.id[1:]) % 3 for trace in drawn}) == 3  # not always the first of its cluster
    run = judged(desk, server)
    assert run.manifest.judge["guarantee"]["cluster"] == "cluster"
    outcome = desk("show", "--out", "judged", "latest")
    assert "on data like the 60 traces it was fitted on (one of each cluster), the answer for" in outcome.out
    assert "of a random trace of a random cluster is other than the strong judge's" in outcome.out


def test_clusters_are_what_is_counted(desk: Desk, server: UnsureServer) -> None:
    """Many traces of few clusters are too few; the key may be another, and without one each trace counts."""
    data = dataset(desk.folder / "traces.jsonl", 120, cluster=4, key="document")
    call = ("cascade", "fit", data, *MODELS, "--base-url", server.url)
    result = desk(*call, "--cluster", "document", OPENAI_API_KEY="sk-x")
    assert result.code == 2
    assert "30 traces are too few" in result.err
    assert "of 30 clusters by metadata.document, one trace of each is drawn" in result.err
    assert server.counts["calls"] == 0
    result = desk(*call, "--dry-run", OPENAI_API_KEY="sk-x")
    assert "120 of 120 traces drawn, 360 chunks" in result.out


def test_too_few_traces_cost_nothing(desk: Desk, server: UnsureServer) -> None:
    """Where nothing could be shown nobody is asked, and the number that is needed is told."""
    data = dataset(desk.folder / "few.jsonl", 40)
    result = desk("cascade", "fit", data, *MODELS, "--base-url", server.url, OPENAI_API_KEY="sk-x")
    assert result.code == 2
    assert "40 traces are too few" in result.err
    assert "takes 59" in result.err
    assert server.counts["calls"] == 0


@pytest.mark.slow
def test_a_dry_run_counts_both_judges(desk: Desk, server: UnsureServer) -> None:
    """Before fitting and before judging the calls of both are told; what is escalated is expected."""
    data = dataset(desk.folder / "traces.jsonl", 120)
    call = (*MODELS, "--base-url", server.url)
    result = desk("cascade", "fit", data, *call, "--dry-run", OPENAI_API_KEY="sk-x")
    assert "cheap: 360 calls" in result.out
    assert "strong: 120 calls" in result.out
    result = desk("run", data, *call, "--cascade-threshold", "0.9", "--dry-run", OPENAI_API_KEY="sk-x")
    assert "cheap: 360 calls" in result.out
    assert "strong: from 0 to 360 calls" in result.out
    assert server.counts["calls"] == 0
    file = read_cascade(fitted(desk, server))
    result = desk("run", data, "--judge", "cascade.json", "--dry-run", "--cache", "none", OPENAI_API_KEY="sk-x")
    assert f"strong: about {round((1 - file.fit.coverage) * 360)} calls are likely" in result.out


@pytest.mark.slow
def test_a_failure_of_the_strong_judge_is_never_left_out(desk: Desk, server: UnsureServer) -> None:
    """While the strong judge fails on a chunk nothing is fitted; then that one alone is asked for."""
    data = dataset(desk.folder / "traces.jsonl", 80)
    call = ("cascade", "fit", data, *MODELS, "--base-url", server.url)
    server.faults = Faults(rate_refusal=1.0)
    assert desk(*call, OPENAI_API_KEY="sk-x", JUDGE_EVAL_ATTEMPTS="1").code == 3
    assert not (desk.folder / "cascade.json").exists()
    server.faults = Faults()
    server.reset()
    assert desk(*call, OPENAI_API_KEY="sk-x").code == 0
    assert read_cascade(desk.folder / "cascade.json").fit.n == 80
    bought = [body["model"] for body in server.calls]
    assert (bought.count("cheap"), bought.count("strong")) == (240, 80)


@pytest.mark.slow
def test_where_nothing_passes_everything_escalates(desk: Desk) -> None:
    """A judge that is sure and wrong gets no threshold; judging by its file asks the strong one of all."""
    with UnsureServer(errors=0.4, sure=1.0) as server:
        data = dataset(desk.folder / "traces.jsonl", 60)
        result = desk("cascade", "fit", data, *MODELS, "--base-url", server.url, OPENAI_API_KEY="sk-x")
        assert result.code == 0
        assert "everything escalates: no threshold" in result.out
        assert "use the strong judge alone" in result.out
        file = read_cascade(desk.folder / "cascade.json")
        assert file.fit.threshold is None
        assert file.guarantee is None
        result = desk("run", data, "--judge", "cascade.json", OPENAI_API_KEY="sk-x")
        assert result.code == 0
        assert "0 verdicts by the cheap judge, 180 of 180 chunks (100.0%) escalated" in result.out
        assert "everything is escalated" in result.out
        result = desk("run", data, "--judge", "cascade.json", "--dry-run", OPENAI_API_KEY="sk-x")
        assert "strong: 0 calls, since everything is escalated" in result.out


def test_a_threshold_that_nobody_reaches_is_said_to_keep_nothing(desk: Desk) -> None:
    """A cheap judge that draws lots, .95 sure of each, gets a threshold above that."""
    data = dataset(desk.folder / "traces.jsonl", 60)
    lots = stages_file(desk.folder, {"model": "fake/hash", "mode": "decision"}, "fake/overlap")
    result = desk("cascade", "fit", data, "--judge", lots)
    assert result.code == 0
    assert "from a confidence of 0.96; none of the sample was as sure" in result.out
    assert "use the strong judge alone" in result.out


@pytest.mark.slow
def test_it_reads_as_agreed(desk: Desk, server: UnsureServer) -> None:
    """What fitting prints, showing prints again; and its JSON is the file."""
    fitted(desk, server)
    result = desk("cascade", "show", "cascade.json")
    text = re.sub(r"cascade [0-9a-f]{12}", "cascade DIGEST______", result.out)
    check_golden("cli/cascade_show.txt", text.replace(str(desk.folder), "FOLDER"))
    again = desk("cascade", "fit", "traces.jsonl", *MODELS, "--base-url", server.url, "--json", OPENAI_API_KEY="sk-x")
    assert json.loads(again.out) == json.loads((desk.folder / "cascade.json").read_text())
    result = desk("run", "traces.jsonl", "--judge", "cascade.json", "-q", OPENAI_API_KEY="sk-x")
    text = re.sub(r"cascade file [0-9a-f]{12}", "cascade file DIGEST______", result.out)
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{8}", "RUN-FOLDER", re.sub(r"run [0-9a-f]{8}", "run RUN-ID__", text))
    check_golden("cli/cascade_run.txt", text)


OTHER_JUDGES = [
    (("--cascade", "openai/other"), "(`--cascade openai/other`): cascade.json says openai/cheap"),
    (("--strong-model", "openai/other"), "(`--strong-model openai/other`): cascade.json says openai/strong"),
    (("--cascade-threshold", "0.5"), "(`--cascade-threshold 0.5`): cascade.json says"),
    (("--prompt", "relevance/binary"), "the strong judge differs in prompt"),
    (("--prompt", "support/binary@1"), "the strong judge differs in prompt"),
    (("--mode", "listwise"), "(`--mode listwise`): cascade.json says pointwise; leave one of the two out"),
    (("--evidence", "required"), "the cheap judge differs in evidence"),
    (("-p", "temperature=0.7"), "the strong model differs in params"),
    (("--base-url", "http://127.0.0.1:9/v1"), "the strong model differs in base_url"),
    (("--member", "openai/third"), "a cascade is of two judges"),
    (("--repeat", "3"), "a cascade is of two judges"),
]


@pytest.mark.slow
def test_other_judges_are_refused(desk: Desk) -> None:
    """A file is for the judges it was fitted on: what differs is named, and nothing is asked."""
    with UnsureServer() as server:
        fitted(desk, server, count=60)
        calls = server.counts["calls"]
        for flags, message in OTHER_JUDGES:
            done = desk("run", "traces.jsonl", "--judge", "cascade.json", *flags, OPENAI_API_KEY="sk-x")
            assert done.code == 2, flags
            assert message in done.err, flags
        assert server.counts["calls"] == calls


@pytest.mark.slow
def test_what_the_file_says_may_be_repeated(desk: Desk, server: UnsureServer) -> None:
    """Flags that name what the file names change nothing."""
    fitted(desk, server)
    flags = (*MODELS, "--prompt", "support/binary", "--base-url", server.url, "--mode", "pointwise")
    run = judged(desk, server, *flags, "--evidence", "flag", "--relevant", 1, "-p", "temperature=0")
    assert run.manifest.judge["guarantee"]


@pytest.mark.slow
def test_a_file_of_another_prompt_text_is_refused(desk: Desk, server: UnsureServer) -> None:
    """A prompt of one's own that was edited since is another one, whatever it is called."""
    own = desk.folder / "own.toml"
    own.write_text(desk("prompts", "show", "support/binary", "--toml").out or _toml())
    fitted(desk, server, "--prompt", f"file:{own}")
    assert judged(desk, server).manifest.judge["guarantee"]
    own.write_text(re.sub(r"version = \d+", "version = 99", own.read_text()))
    result = desk("run", "traces.jsonl", "--judge", "cascade.json", OPENAI_API_KEY="sk-x")
    assert result.code == 2
    assert "judge differs in prompt" in result.err


def _toml() -> str:
    from tests.support.forking import ROOT

    text = max((ROOT / "prompts" / "support").glob("binary*.toml")).read_text(encoding="utf-8")
    return re.sub(r"(?m)^version = \d+", "version = 1", re.sub(r'(?m)^id = ".*"', 'id = "own"', text))


@pytest.mark.slow
def test_a_changed_file_is_no_guarantee(desk: Desk, server: UnsureServer) -> None:
    """Its threshold and its bound must follow from its counts."""
    path = fitted(desk, server, count=60)
    written = path.read_text()
    for place, value in {"threshold": 0.5, "alpha": 0.01, "bound": 0.001, "n": 600}.items():
        changed = json.loads(written)
        changed["fit"][place] = value
        path.write_text(json.dumps(changed))
        with pytest.raises(ConfigError, match="the file was changed"):
            read_cascade(path)
        assert desk("cascade", "show", path).code == 2


def test_a_decision_model_comes_first(desk: Desk, server: UnsureServer) -> None:
    """It is asked at a server of its own by a dialect of its own, and again so by the file alone."""
    data = dataset(desk.folder / "traces.jsonl", 60)
    with DecisionServer("vllm", rule=lambda text: 0.97 if GOLD in text else 0.02) as deciding:
        cheap = {"model": "decisions/small", "base_url": deciding.url, "params": {"dialect": "vllm"}}
        stages = stages_file(desk.folder, cheap, "openai/strong")
        result = desk("cascade", "fit", data, "--judge", stages, "--base-url", server.url, OPENAI_API_KEY="sk-x")
        assert result.code == 0, result.err
        file = read_cascade(desk.folder / "cascade.json")
        assert (file.cheap.mode, file.strong.mode) == ("decision", "pointwise")
        assert file.cheap.params == {"dialect": "vllm"}
        assert (file.fit.kept, file.choice) == (60, "cheap")
        run = judged(desk, server)
        assert run.manifest.tally.stages == {"cheap": 180}
        assert deciding.counts["calls"] == 60
