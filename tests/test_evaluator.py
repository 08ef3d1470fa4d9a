import asyncio
import inspect
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from judge_eval import Evaluator, FakeBackend, Trace, evaluate
from judge_eval.errors import ConfigError, DataError, FatalCallError, MetricError, RefusedError, UnknownNameError
from judge_eval.llm.options import Options
from judge_eval.wire import Request
from tests.support.command import ROOT
from tests.support.judges import ALL, TWO, Stops, only
from tests.support.replies import one
from tests.support.runs import evaluator, traces


def test_verdicts_become_means() -> None:
    """The run holds each verdict in the dataset's order and the mean of every metric."""
    run = evaluator(only("q0-a", "q0-c", "q1-b")).evaluate(TWO)
    assert [result.trace_id for result in run.results] == ["q0", "q1"]
    assert [[o.grade for o in result.outcomes if o.kind == "verdict"] for result in run.results] == [
        [1, 0, 1],
        [0, 1, 0],
    ]
    assert run.results[0].scores["AP@3"] == pytest.approx((1 + 2 / 3) / 2)
    assert run["AP@3"] == pytest.approx(((1 + 2 / 3) / 2 + 1 / 2) / 2)
    assert run["MRR"] == pytest.approx(0.75)
    assert run.status == "done"
    assert run.manifest.tally.verdicts == 6
    with pytest.raises(UnknownNameError, match="metric in this run"):
        run["NDCG@7"]


def mumbling(times: int, *texts: str) -> tuple[FakeBackend, Counter[str]]:
    """A judge whose first replies about these texts cannot be read, and how often it was asked about each."""
    asked: Counter[str] = Counter()

    def answer(request: Request) -> str:
        text = request.passages[0].text
        asked[text] += 1
        return "Well..." if text in texts and asked[text] <= times else one(verdict=True, evidence="Text")

    return FakeBackend(answer), asked


@pytest.mark.parametrize("kept", [True, False], ids=["in a folder", "in memory"])
def test_few_unreadable_replies_are_asked_for_again_at_the_end(tmp_path: Path, kept: bool) -> None:
    """A reply that stays unreadable after its repair is asked for once more when the others are done."""
    calm, _ = mumbling(0)
    wanted = evaluator(calm).evaluate(traces(4))
    judge, asked = mumbling(2, "Text 1 1.")
    run = evaluator(judge).evaluate(traces(4), out=tmp_path if kept else None)
    assert run.status == "done"
    assert [r.outcomes for r in run.results] == [r.outcomes for r in wanted.results]
    assert [r.scores for r in run.results] == [r.scores for r in wanted.results]
    assert asked.pop("Text 1 1.") == 3
    assert set(asked.values()) == {1}
    assert (run.manifest.tally.verdicts, run.manifest.tally.calls) == (12, 14)
    assert run.aggregates == wanted.aggregates
    for_good, asked = mumbling(99, "Text 1 1.")
    run = evaluator(for_good).evaluate(traces(4), out=tmp_path / "bad" if kept else None)
    assert run.manifest.tally.failures == {"unparsable": 1}
    assert asked["Text 1 1."] == 4
    assert len(run.results) == 4


def test_a_judge_that_mumbles_often_is_not_asked_again() -> None:
    """Where more than a tenth of the replies are unreadable, the judge is at fault, and no more is paid."""
    judge, asked = mumbling(99, "Text 1 1.", "Text 2 0.")
    run = evaluator(judge).evaluate(traces(4))
    assert run.manifest.tally.failures == {"unparsable": 2}
    assert asked["Text 1 1."] == asked["Text 2 0."] == 2


def test_a_failed_verdict_counts_with_its_expected_value() -> None:
    """A trace that a failed verdict leaves open has no score and counts by expectation, inside the bounds."""
    run = evaluator(only("q0-a", "q1-b", failed=("q0-c",))).evaluate(TWO)
    ap = run.aggregate("AP@3")
    assert (ap.n_expected, ap.n_failed, ap.headline) == (1, 1, "bounds")
    assert ap.mean is not None
    assert ap.bounds is not None
    assert ap.bounds[0] < ap.mean < ap.bounds[1]
    assert ap.bounds == pytest.approx((((1 + 2 / 3) / 2 + 0.5) / 2, (1 + 0.5) / 2))
    assert run.results[0].scores["AP@3"] is None
    assert run.status == "incomplete"
    assert run.manifest.tally.failures == {"refused": 1}
    assert [(trace, failure.chunk_id) for trace, failure in run.failures()] == [("q0", "q0-c")]
    assert ":nan" not in run.manifest.model_dump_json().lower()


def test_where_all_failed_there_is_no_mean() -> None:
    """No verdict at all is no mean, never 0 and never NaN."""
    run = evaluator(FakeBackend(lambda _: RefusedError("no"))).evaluate(TWO)
    ap = run.aggregate("AP@3")
    assert (ap.mean, ap.n, ap.n_failed, ap.interval, ap.bounds) == (None, 0, 2, None, (0.0, 1.0))


def test_every_shape_of_data_is_taken(tmp_path: Path) -> None:
    """A trace, a mapping, a list, a generator, an async generator, a path and a text path judge alike."""
    path = tmp_path / "data.jsonl"
    path.write_text("".join(trace.model_dump_json() + "\n" for trace in TWO), encoding="utf-8")

    async def stream() -> AsyncIterator[Trace]:
        for trace in TWO:
            await asyncio.sleep(0)
            yield trace

    made = evaluator(only("q0-a", "q1-b"))
    shapes = (TWO, tuple(TWO), [t.model_dump() for t in TWO], (t for t in TWO), stream(), path, str(path))
    runs = [made.evaluate(data) for data in shapes]
    assert {run["AP@3"] for run in runs} == {0.75}
    assert len({run.manifest.dataset.digest for run in runs}) == 1
    assert made.evaluate(TWO[0])["AP@3"] == made.evaluate(TWO[0].model_dump())["AP@3"] == 1.0
    assert made.evaluate(TWO[1])["AP@3"] == evaluate(TWO[1], only("q1-b"), metrics=["AP@3"])["AP@3"]


def test_verbs_show_every_keyword_they_take() -> None:
    """`help()` of a sync verb lists the parameters of its async one, each described, and its own return."""
    names = list(inspect.signature(Evaluator.aevaluate).parameters)
    chosen = ["limit", "seed", "shard", "on_invalid", "name", "reader", "claims"]
    assert names[1:] == [
        "data",
        "watch",
        "driver",
        "retriever",
        "out",
        "label",
        "href",
        "tags",
        "baseline",
        "resume",
        "new_if_done",
        "push_every",
        "push_grace",
        *chosen,
    ]
    assert list(inspect.signature(Evaluator.evaluate).parameters) == names
    assert list(inspect.signature(Evaluator.plan).parameters)[2:] == chosen
    assert all(f"    {name}:" in str(Evaluator.evaluate.__doc__) for name in names[1:])
    assert inspect.signature(Evaluator.stream).return_annotation == "Iterator[TraceResult]"
    with pytest.raises(TypeError, match="limt"):
        evaluator(ALL).evaluate(TWO, limt=1)  # type: ignore[call-arg]


def test_results_can_be_streamed() -> None:
    """`stream` yields each result as it is there; leaving early is allowed."""
    made = evaluator(ALL)
    assert {result.trace_id for result in made.stream(traces(5))} == {f"q{n}" for n in range(5)}

    async def first() -> str:
        async for result in evaluator(ALL).astream(traces(3)):
            return result.trace_id
        raise AssertionError

    assert asyncio.run(first()).startswith("q")
    assert next(iter(made.stream(traces(500)))).trace_id


@pytest.mark.parametrize("data", [[], "empty.jsonl"])
def test_data_without_a_trace_are_an_error(data: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty dataset never looks like a run that went well."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DataError, match="no trace to judge"):
        evaluator(ALL).evaluate(data, out=tmp_path / "runs")  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()


def test_bad_data_are_found_before_anything_is_paid(tmp_path: Path) -> None:
    """A record that does not fit ends the evaluation before the first call, and names its place."""
    path = tmp_path / "data.jsonl"
    path.write_text(TWO[0].model_dump_json() + '\n{"query": "q", "chunks": ["a"]}\n')
    backend = FakeBackend(lambda _: one(False))
    with pytest.raises(DataError, match=r"data.jsonl:2: reference: the prompt needs the reference"):
        evaluator(backend).evaluate(path)
    with pytest.raises(DataError, match="row 1: query: this field is required"):
        evaluator(backend).evaluate([TWO[0], {}])
    with pytest.raises(DataError, match="the trace id 'q0' occurs twice"):
        evaluator(backend).evaluate([TWO[0], TWO[0]])
    with pytest.raises(DataError, match="row 0: is an int; give a `Trace`"):
        evaluator(backend).evaluate([3])
    with pytest.raises(DataError, match="Recall@3 needs to know how many"):
        evaluator(backend, metrics=["Recall@3"]).evaluate(TWO)
    assert backend.calls == 0


def test_what_is_skipped_is_skipped_for_good(tmp_path: Path) -> None:
    """A record skipped for its missing reference is neither judged nor counted as a trace."""
    path = tmp_path / "data.jsonl"
    bad = '{"id": "bad", "query": "q", "chunks": ["a"]}\n'
    path.write_text(bad + "not JSON\n" + TWO[0].model_dump_json() + "\n" + bad + TWO[1].model_dump_json())
    for limit, seed in ((None, None), (2, 5)):
        run = evaluator(ALL).evaluate(path, on_invalid="skip", limit=limit, seed=seed)
        assert [result.trace_id for result in run.results] == ["q0", "q1"]
        assert run.manifest.dataset.skipped == 3
    listed = evaluator(ALL).evaluate([{"query": "q", "chunks": ["a"]}, TWO[1]], on_invalid="skip")
    assert [result.trace_id for result in listed.results] == ["q1"]


def test_a_sample_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    """`limit` takes the first traces, with `seed` a sample that depends on the seed alone."""
    data = traces(30)
    ids = [[r.trace_id for r in evaluator(ALL).evaluate(data, limit=5, seed=seed).results] for seed in (None, 7, 7, 8)]
    assert ids[0] == ["q0", "q1", "q2", "q3", "q4"]
    assert ids[1] == ids[2] != ids[3]
    assert ids[1] == sorted(ids[1], key=lambda name: int(name[1:]))
    with pytest.raises(ConfigError, match="can be read only once"):
        evaluator(ALL).evaluate((t for t in data), limit=5)


def test_a_budget_leaves_gaps_that_are_counted() -> None:
    """What the budget does not allow has no verdict, with the reason."""
    run = evaluator(ALL, options=Options(max_calls=4)).evaluate(TWO)
    assert run.manifest.tally.failures == {"budget": 2}
    assert run.status == "incomplete"


def test_the_second_run_is_free(tmp_path: Path) -> None:
    """The same data are judged once; what a cache holds is counted as such."""
    runs = []
    for _ in range(2):
        with Evaluator("fake/overlap", cache=tmp_path / "cache") as made:
            runs.append(made.evaluate(TWO))
    assert [run.manifest.tally.calls for run in runs] == [6, 0]
    assert [run.manifest.tally.hits for run in runs] == [0, 6]
    assert [r.model_dump() for r in runs[0].results] == [r.model_dump() for r in runs[1].results]


def test_the_plan_counts_without_asking(tmp_path: Path) -> None:
    """A plan tells calls, hits and tokens, and asks nobody."""
    with Evaluator("fake/overlap", cache=tmp_path / "cache") as made:
        made.evaluate(TWO[0])
        dataset, plan = made.plan(TWO)
        assert (dataset.traces, plan.traces, plan.chunks, plan.calls, plan.hits) == (2, 2, 6, 3, 3)
        assert plan.input_tokens > 0
        assert made.stack.counts().calls == 3
        with pytest.raises(ConfigError, match="read only once"):
            made.plan(t for t in TWO)


def test_settings_are_checked_when_the_evaluator_is_made() -> None:
    """A typo in a metric or a prompt is told at once, with advice."""
    with pytest.raises(UnknownNameError, match="did you mean 'AP@5'"):
        Evaluator("fake/overlap", metrics=["APP@5"])
    with pytest.raises(UnknownNameError, match="did you mean 'support/binary'"):
        Evaluator("fake/overlap", prompt="suport/binary")
    with pytest.raises(MetricError, match="name at least one"):
        Evaluator("fake/overlap", metrics=[])
    with pytest.raises(ConfigError, match="provider/model"):
        Evaluator("gpt", cache=False).evaluate(TWO)


def test_progress_is_told() -> None:
    """Whoever watches sees traces, verdicts and failures add up."""
    seen = []
    evaluator(only(failed=("q0-b",))).evaluate(traces(4), watch=seen.append)
    assert (seen[-1].traces, seen[-1].total, seen[-1].verdicts, seen[-1].failed) == (4, 4, 11, 1)


def test_a_fatal_error_names_the_folder_and_keeps_what_was_judged(tmp_path: Path) -> None:
    """The run's folder says `failed`, and the error where to go on."""
    with pytest.raises(FatalCallError) as caught:
        evaluator(FakeBackend(Stops(1))).evaluate(TWO, out=tmp_path)
    folder = Path(str(caught.value.run_folder))
    assert json.loads((folder / "manifest.json").read_text())["status"] == "failed"


def test_a_run_that_could_not_start_leaves_nothing(tmp_path: Path) -> None:
    """If the first call ends it, no folder is left, nor those made for it; a folder of runs that stood before stays."""
    stood = tmp_path / "stood"
    stood.mkdir()
    for out in (stood, tmp_path / "new" / "runs"):
        with pytest.raises(FatalCallError) as caught:
            evaluator(FakeBackend(Stops(0))).evaluate(TWO, out=out)
        assert caught.value.run_folder is None
    assert [*tmp_path.rglob("*")] == [stood]


def test_a_run_that_goes_on_stays_though_its_first_call_fails(tmp_path: Path) -> None:
    """What an earlier session left is never removed."""
    with pytest.raises(FatalCallError) as caught:
        evaluator(FakeBackend(Stops(1))).evaluate(TWO, out=tmp_path)
    folder = Path(str(caught.value.run_folder))
    with pytest.raises(FatalCallError):
        evaluator(FakeBackend(Stops(0))).evaluate(TWO, out=tmp_path, resume=folder)
    assert folder.is_dir()


def test_one_evaluator_serves_many_evaluations() -> None:
    """Connections are kept between evaluations; after `close` they are made anew."""

    def thrice() -> Iterator[float | None]:
        with evaluator(only("q0-a")) as made:
            yield made.evaluate(TWO[0])["AP@3"]
            made.close()
            yield made.evaluate(TWO[0])["AP@3"]

    assert list(thrice()) == [1.0, 1.0]


@pytest.mark.slow
def test_closing_what_was_never_opened_starts_no_thread() -> None:
    """An evaluator that judged nothing closes without a loop: the process stays as it was."""
    script = """
import threading
from judge_eval import Evaluator

with Evaluator("fake/overlap") as evaluator:
    evaluator.close()
print([thread.name for thread in threading.enumerate()])
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "['MainThread']\n", done.stderr


def test_evaluate_takes_what_the_evaluator_takes(tmp_path: Path) -> None:
    """`evaluate` shows and takes each keyword of `Evaluator` and of its `evaluate`."""
    from inspect import signature

    from judge_eval import Evaluator, evaluate
    from judge_eval.evaluator import EvaluateKeywords

    shown = set(signature(evaluate).parameters) - {"data", "model"}
    both = {*signature(Evaluator).parameters, *signature(Evaluator.evaluate).parameters}
    assert shown == both - {"self", "data", "model"}
    assert shown == set(EvaluateKeywords.__annotations__)
    traces = [{"query": "q", "reference": "r", "chunks": ["a"]}] * 2
    run = evaluate(traces, "fake/overlap", cache=False, out=tmp_path, label="one", limit=1)
    assert (run.label, len(run.results)) == ("one", 1)


def test_a_run_maps_its_metrics_to_their_means() -> None:
    """One metric may be named as a text, and a run is read as a mapping of its metrics."""
    run = evaluator(FakeBackend(Stops(99)), metrics="AP@5").evaluate(traces(2))
    assert dict(run) == {"AP@5": run["AP@5"]}
    assert list(run) == ["AP@5"]
    assert "AP@5" in run
    assert "MRR" not in run
    assert bool(run)


def test_no_cache_is_not_a_folder_called_none() -> None:
    """Whoever writes `none` wants no cache: the error says how that is asked for."""
    with pytest.raises(ConfigError, match="cache=False"):
        evaluator(FakeBackend(Stops(99)), cache="none").evaluate(traces(1))
