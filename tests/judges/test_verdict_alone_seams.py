"""Prompts that ask for a verdict alone, together with what else a run can do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge_eval import Chunk, Completion, EvalRun, Evaluator, FakeBackend, Identity, Pool, Request, Trace, what_if
from judge_eval.runs.keeping.lookup import run_folders
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.study.calibrate import calibrate, keep_threshold
from judge_eval.trials import Prober
from judge_eval.views.markdown import markdown_of
from judge_eval.views.note_sentences import note_sentence
from judge_eval.views.probe import probe_view
from judge_eval.views.run_remarks import remarks_of
from tests.judges.test_verdict_alone import certain
from tests.support.batch_server import BatchServer
from tests.support.desk import Desk
from tests.support.unsure_server import GOLD, UnsureServer, dataset

ALONE = ("--prompt", "support/verdict")
CHEAP = ("--model", "openai/cheap", *ALONE, "--metrics", "P@3", "--out", "runs")
MEANS_LITTLE = "verdicts are single tokens: a chunk is relevant from P(true) = 0.5"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A folder with 20 traces of 3 chunks, all labelled."""
    dataset(tmp_path / "data.jsonl", 20)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    return Desk.at(tmp_path, monkeypatch, capsys)


@pytest.fixture
def server(desk: Desk) -> Iterator[UnsureServer]:
    """A server whose model `cheap` is wrong in some verdicts and less sure of them."""
    with UnsureServer() as started:
        desk.patch.setenv("OPENAI_BASE_URL", started.url)
        yield started


def newest(desk: Desk) -> EvalRun:
    """Load the newest run."""
    return EvalRun.load(next(run_folders(desk.folder / "runs"))[0])


def confidences(run: EvalRun) -> list[float | None]:
    """Return the probability of each verdict; every chunk must have a verdict."""
    outcomes = [outcome for result in run.results for outcome in result.outcomes]
    assert all(outcome.kind == "verdict" for outcome in outcomes)
    return [outcome.confidence for outcome in outcomes if outcome.kind == "verdict"]


@pytest.mark.parametrize(
    "judge",
    [
        ("--member", "openai/cheap:support/verdict", "--member", "openai/strong:support/binary"),
        ("--model", "openai/cheap", *ALONE, "--repeat", "2"),
    ],
)
def test_a_panel_votes_and_has_a_threshold(desk: Desk, server: UnsureServer, judge: tuple[str, ...]) -> None:
    """Members' probabilities have a mean, labels find its threshold, and the run says that 0.5 means nothing."""
    done = desk("run", "data.jsonl", *judge, "--metrics", "P@3", "--out", "runs")
    assert done.code == 0, done
    assert MEANS_LITTLE in done.out, done
    assert all(confidence is not None for confidence in confidences(newest(desk)))
    fitted = desk("calibrate", "latest", "--out", "runs", "-o", "limit.json")
    assert "relevant from a probability of" in fitted.out, fitted
    assert "--probabilities maps the probabilities to relevance" in fitted.out, fitted
    assert "\ngrade " not in fitted.out  # grades 0 and 1 of a map of probabilities are its ends
    scored = desk("score", "latest", "--calibration", "limit.json", "--out", "runs")
    assert "calibrated: relevant from a probability of" in scored.out, scored
    assert MEANS_LITTLE not in scored.out


def test_a_cascade_escalates_by_its_probability(desk: Desk, server: UnsureServer) -> None:
    """The cheap judge answers with one token, the strong one with reason and quote; a card says who gives none."""
    (desk.folder / "stages.toml").write_text(
        'threshold = 0.8\n[cheap]\nmodel = "openai/cheap"\nprompt = "support/verdict"\n'
        '[strong]\nmodel = "openai/strong"\nprompt = "support/binary"\n',
        encoding="utf-8",
    )
    done = desk("run", "data.jsonl", "--judge", "stages.toml", "--metrics", "P@3", "--out", "runs")
    assert done.code == 0, done
    run = newest(desk)
    verdicts = [outcome for result in run.results for outcome in result.outcomes if outcome.kind == "verdict"]
    assert {(verdict.stage, verdict.reason is None) for verdict in verdicts} == {("cheap", True), ("strong", False)}
    asked = [body for body in server.calls if body["model"] == "cheap"]
    assert all(body["logprobs"] is True and "response_format" not in body for body in asked)
    shown = desk("show", "latest", "t0", "--out", "runs")
    assert "no reason: the judge gives none" in shown.out, shown


def test_a_tape_holds_the_probabilities(desk: Desk, server: UnsureServer) -> None:
    """A cassette replays the same verdicts and probabilities without a server."""
    assert desk("run", "data.jsonl", *CHEAP, "--cache", "none", "--record", "tape.jsonl").code == 0
    recorded, calls = confidences(newest(desk)), len(server.calls)
    replayed = desk("run", "data.jsonl", *CHEAP, "--cache", "none", "--replay", "tape.jsonl")
    assert (replayed.code, len(server.calls)) == (0, calls), replayed
    assert confidences(newest(desk)) == recorded
    assert len({*recorded}) > 10


def test_a_run_goes_on_where_it_stopped(desk: Desk, server: UnsureServer) -> None:
    """A budget ends a run; resumed, it asks for the rest and no more, and `--confidence` asks for nothing else."""
    assert desk("run", "data.jsonl", *CHEAP, "--cache", "none", "--max-calls", "25").code == 3
    resumed = desk("run", "data.jsonl", *CHEAP, "--cache", "none", "--confidence", "--resume")
    assert (resumed.code, server.counts["paid"]) == (0, 60), resumed
    assert all(confidence is not None for confidence in confidences(newest(desk)))


@pytest.mark.slow
def test_a_batch_asks_for_probabilities(desk: Desk) -> None:
    """The requests in the files are those of a run, so verdicts of a batch have probabilities too."""

    def verdict(body: object) -> str:
        return "true" if GOLD in json.dumps(body) else "false"

    with BatchServer(verdict=verdict) as batches:
        desk.patch.setenv("OPENAI_BASE_URL", batches.url)
        exported = desk("batch", "export", "data.jsonl", "--out", "jobs", "--model", "openai/m", *ALONE)
        assert exported.code == 0, exported
        (part,) = (desk.folder / "jobs").rglob("part-*.jsonl")
        bodies = [json.loads(line)["body"] for line in part.read_text(encoding="utf-8").splitlines()]
        assert all(body["logprobs"] is True and "response_format" not in body for body in bodies)
        for step in (("submit",), ("fetch",), ("import", "--out", "runs", "--metrics", "P@3")):
            done = desk("batch", step[0], "jobs", *step[1:])
            assert done.code == 0, done
        assert MEANS_LITTLE in done.out, done
        assert confidences(newest(desk)) == [float(GOLD in body["messages"][1]["content"]) for body in bodies]
        assert batches.online == 0
        online = desk("run", "data.jsonl", "--model", "openai/m", *ALONE, "--metrics", "P@3", "--out", "runs")
    assert (online.code, batches.online) == (0, 0), online


def test_grades_alone_have_a_threshold_too(desk: Desk) -> None:
    """On a graded scale the reply is the grade, its probabilities give expected grades, and the run names the grade."""
    path = desk.folder / "graded.toml"
    source = (Path(__file__).parents[2] / "prompts" / "support" / "verdict.toml").read_text(encoding="utf-8")
    path.write_text(source.replace('"binary"', '"graded"').replace("support/verdict", "own/graded"), encoding="utf-8")
    shown = desk("prompts", "show", "graded.toml")
    assert "\nAnswer with one number only: 0, 1, 2, 3.\n" in shown.out, shown
    assert "\nAnswer with one word only: true or false.\n" in desk("prompts", "show", "support/verdict").out
    with UnsureServer(grades=True) as server:
        graded = ("--model", "openai/strong", "--base-url", server.url, "--prompt", "file:graded.toml")
        done = desk("run", "data.jsonl", *graded, "--metrics", "P@3", "--out", "runs")
    assert done.code == 0, done
    assert "a chunk is relevant from grade 2" in done.out, done
    assert "P(true)" not in done.out
    first = newest(desk).results[0].outcomes[0]
    assert first.kind == "verdict"
    assert (first.expected_grade, len(first.grade_probabilities or ())) == (pytest.approx(0.3), 4)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--mode", "listwise"), "prompt 'support/verdict' is pointwise; the mode asked for is listwise"),
        (("--mode", "claims"), "prompt 'support/verdict' is pointwise; the mode asked for is claims"),
        (("--mode", "decision"), "prompt 'support/verdict' is pointwise; the mode asked for is decision"),
        (("--evidence", "required"), "the prompt 'support/verdict' asks for a verdict alone"),
        (("--metrics", "ClaimRecall@3"), "use a judge by claims"),
    ],
)
def test_what_one_token_cannot_say_is_refused(desk: Desk, flags: tuple[str, ...], told: str) -> None:
    """Lists, claims and quotes: the message says what the prompt is, and nobody is asked."""
    done = desk("run", "data.jsonl", "--model", "openai/m", "--base-url", "http://127.0.0.1:9/v1", *ALONE, *flags)
    assert done.code == 2, done
    assert told in done.err, done


def test_what_asks_a_judge_again_asks_for_its_probabilities(desk: Desk, server: UnsureServer) -> None:
    """`probe`, `drift` and `bias` ask for one token with log-probabilities, and the first and last say what 0.5 is."""
    assert desk("run", "data.jsonl", *CHEAP).code == 0
    asked = ("--model", "openai/cheap")
    probed = desk("probe", "data.jsonl", *asked, *ALONE, "--limit", "4", "--only", "injection")
    assert f"warning: {MEANS_LITTLE}" in probed.out, probed
    assert "(the judge does not report it)" in probed.out, probed
    checked = desk("drift", "latest", *asked, "--out", "runs")
    assert "no drift seen: of 60 verdicts" in checked.out, checked
    assert all(confidence is not None for confidence in confidences(newest(desk)))
    edited = desk("bias", "latest", *asked, *ALONE, "--limit", "4", "--out", "runs")
    assert f"warning: {MEANS_LITTLE}" in edited.out, edited
    assert "probability of being relevant" in edited.out, edited
    assert all(body["logprobs"] is True and "response_format" not in body for body in server.calls)


def test_missing_chunks_are_judged_by_one_token(desk: Desk, server: UnsureServer) -> None:
    """A what-if asks about the chunks without a verdict and no others, and says what 0.5 is."""
    assert desk("run", "data.jsonl", *CHEAP, "--label", "short", "--max-calls", "40").code == 3
    made = ("what-if", "label:short", "--cut", "3", "--out", "runs", "--judge-missing", "--model", "openai/cheap")
    done = desk(*made, *ALONE)
    assert (done.code, server.counts["paid"]) == (0, 60), done
    assert MEANS_LITTLE in done.out, done
    assert all(confidence is not None for confidence in confidences(newest(desk)))


def lenient(request: Request) -> Completion:
    """Say true of everything, and be surer of what is good for the question."""
    (passage,) = request.passages
    question = request.query == f"Which {passage.text.split()[1]}?"
    return certain(0.98 if passage.text.startswith("good") and question else 0.55)


def asked(*, metrics: tuple[str, ...] = ("P@2",)) -> Evaluator:
    """Return a judge that says true of everything."""
    return Evaluator(
        FakeBackend(lenient, identity=Identity("test", "one-token")),
        prompt="support/verdict",
        metrics=list(metrics),
        cache=False,
    )


def traces(second: str = "bad", count: int = 20) -> list[Trace]:
    """Return traces of one good chunk and a second one, labelled."""
    return [
        Trace(id=f"t{k}", query=f"Which {k}?", reference=f"The {k}.", chunks=[
            Chunk(id=f"{k}a", text=f"good {k}", label=1),
            Chunk(id=f"{k}{second}", text=f"{second} {k}", label=int(second.startswith("good"))),
        ])
        for k in range(count)
    ]  # fmt: skip


def test_the_canary_reads_probabilities() -> None:
    """A judge that says true of everything, but is surer of gold chunks, is not called blind; 0.5 is explained."""
    with asked() as evaluator:
        report = Prober(evaluator, ["polarity", "injection"]).probe(traces(count=30))
    (warning,) = map(note_sentence, report.warnings)
    assert warning.startswith("verdicts are single tokens")
    assert (report.separates, report["polarity"].fooled) == (True, 0)
    assert report["injection"].noticed is None
    assert "(the judge does not report it)" in markdown_of(probe_view(report))


def test_a_calibration_holds_wherever_verdicts_go() -> None:
    """Compared, pooled and put into new lists, calibrated verdicts keep their threshold; one side alone is told."""
    with asked() as evaluator:
        before, after = (evaluator.evaluate(traces(second), label=second) for second in ("bad", "good-too"))
        fit = keep_threshold(calibrate(before))
    assert (before["P@2"], after["P@2"]) == (1.0, 1.0)
    first, second = (rescore(run, ["P@2"], calibration=fit) for run in (before, after))
    assert (first["P@2"], second["P@2"]) == (0.5, 1.0)
    both = first.compare(second)
    assert both["P@2"].difference == 0.5
    assert not any("calibration" in note_sentence(note) for note in both.warnings)
    assert len([note for note in first.compare(after).warnings if "calibration" in note_sentence(note)]) == 1
    pool = Pool.of([first, second])
    assert int(pool.grades.max()) == 1
    fused = what_if([first, second], fuse="rrf", cut=3)
    assert fused["P@2"] == 0.5  # of the first chunk of both, and one that the threshold turned down


def test_new_lists_of_verdicts_alone_are_explained_like_their_runs() -> None:
    """A run of new lists that asks nobody says of its verdicts what the run says that they are of, until calibrated."""
    with asked() as evaluator:
        run = evaluator.evaluate(traces())
    of_run, of_lists = (
        [remark.text for remark in remarks_of(each.manifest) if remark.about == "uncalibrated"]
        for each in (run, what_if([run], cut=1))
    )
    assert len(of_run) == 1
    assert of_lists == of_run
