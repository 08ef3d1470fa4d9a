"""What the cluster's parts do, over a stand-in for Ray in this process."""

import json
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from judge_eval import Evaluator, FakeBackend, Identity, distributed
from judge_eval.cli.flags.judging import RunningFlags
from judge_eval.distributed import RayDriver
from judge_eval.errors import ConfigError
from judge_eval.llm.options import Options
from judge_eval.runs.folder.journal import BEGUN
from judge_eval.runs.judging import telemetry
from judge_eval.runs.scoring.counting import Progress, read_progress
from judge_eval.views.run_remarks import took
from tests.support.replies import one
from tests.support.runs import things

pytestmark = pytest.mark.foreign


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A Ray whose actors live in this process, one thread each."""

    class Actor:
        def __init__(self, kind: Any, *given: Any) -> None:
            self._made, self._thread = kind(*given), ThreadPoolExecutor(1)
            self._make = partial(kind, *given)
            self.judge = SimpleNamespace(remote=self._judge)

        def _judge(self, items: Any) -> Any:
            done: Future[Any] = self._thread.submit(self._judge_here, items)
            return SimpleNamespace(future=lambda: done)

        def _judge_here(self, items: Any) -> Any:
            block = self._made.judge(items)
            if not module.__dict__["dies_at"] or module.__dict__["dies_at"].pop(0):
                return block
            module.__dict__["again"] = True
            self._made = self._make()  # what it judged is lost
            return self._made.judge(items)

    def remote(kind: Any) -> Any:
        made = SimpleNamespace(remote=lambda *given: Actor(kind, *given))
        return SimpleNamespace(options=lambda **_: made)

    module = ModuleType("ray")
    stand_in = {
        "is_initialized": lambda: True,
        "cluster_resources": lambda: {"CPU": 2.0},
        "remote": remote,
        "put": lambda value: value,
        "kill": lambda actor: None,
        "dies_at": [],  # of each block to come, whether it is delivered; those after the last are
        "again": False,
        "get_runtime_context": lambda: SimpleNamespace(was_current_actor_reconstructed=module.__dict__["again"]),
    }
    for name, value in stand_in.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


@pytest.mark.usefixtures("ray")
def test_a_row_of_a_dataset_is_the_line_of_a_run(tmp_path: Path) -> None:
    """A Ray dataset's `result` is what `results.jsonl` holds, a repeated judge's votes included."""
    data = things(4)
    rows = [{"position": n, **json.loads(trace.model_dump_json())} for n, trace in enumerate(data)]
    for row in rows:
        del row["metadata"]
    with Evaluator("fake/hash", metrics=["AP@3"], repeat=3, cache=False) as evaluator:
        run = evaluator.evaluate(data, out=tmp_path)
        assert run.folder is not None
        table = distributed._Judging(evaluator, 1)(pa.Table.from_pylist(rows))
    lines = (run.folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0])["votes"]
    assert [json.loads(line) for line in table["result"].to_pylist()] == [json.loads(line) for line in lines]


@pytest.mark.parametrize("otel", ["on", "content"])
def test_scores_of_a_cluster_are_told_as_those_of_one_machine(
    ray: ModuleType, monkeypatch: pytest.MonkeyPatch, otel: Any
) -> None:
    """A run on a cluster tells OpenTelemetry its scores, with texts where the option says so."""
    pytest.importorskip("opentelemetry", reason="opentelemetry is not installed")
    messages: list[tuple[str, bool]] = []

    def note(results: Any, *, content: bool = False) -> None:
        messages.extend((result.trace_id, content) for result in results)

    monkeypatch.setattr(telemetry, "emit_scores", note)
    data = things(5)
    with Evaluator("fake/hash", cache=False, options=Options(otel=otel)) as evaluator:
        evaluator.evaluate(data, driver=RayDriver(evaluator, workers=1, block=2))
    assert sorted(messages) == [(trace.id, otel == "content") for trace in data]


def test_a_worker_is_sent_eight_traces_at_once(ray: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed worker loses is bound by the block: 8 traces, unless the option says otherwise."""
    sizes: list[int] = []
    judge = distributed.Worker.judge

    def noted(worker: distributed.Worker, items: Any) -> distributed.Block:
        sizes.append(len(items))
        return judge(worker, items)

    monkeypatch.setattr(distributed.Worker, "judge", noted)
    with Evaluator("fake/hash", cache=False) as evaluator:
        for flags, most in ((RunningFlags(engine="ray"), 8), (RunningFlags(engine="ray", block=3), 3)):
            sizes.clear()
            evaluator.evaluate(things(20), driver=flags.driver(evaluator))
            assert sum(sizes) == 20
            assert max(sizes) == most
        with pytest.raises(ConfigError, match="0: must be at least 1 trace"):
            RunningFlags(engine="ray", block=0).driver(evaluator)


@pytest.mark.parametrize("cached", [True, False])
def test_what_a_dead_worker_paid_has_a_bound(ray: ModuleType, tmp_path: Path, cached: bool) -> None:
    """The calls of a block that a worker judged and did not deliver are in `lost`, in the tally and in its words."""
    ray.__dict__["dies_at"] = [True, False]
    backend = FakeBackend(lambda _: one(True, "Passage"), identity=Identity("fake", "paying"))
    with Evaluator(backend, cache=tmp_path / "cache" if cached else False) as evaluator:
        run = evaluator.evaluate(things(8), driver=RayDriver(evaluator, workers=1, block=2))
    tally = run.manifest.tally
    # Both workers are in this process and count together; the block that was lost has 6 calls.
    assert backend.calls == (24 if cached else 30)
    assert tally.lost is not None
    assert 6 <= tally.lost <= 3 * 6
    assert f"workers died: up to {tally.lost} more calls may have been paid" in took(tally)


@pytest.mark.usefixtures("ray")
def test_a_driver_does_not_bound_what_it_would_lose(tmp_path: Path) -> None:
    """Workers begin the requests, so the driver notes none: after its death nothing says that none were paid."""
    noted: list[tuple[bool, int | None]] = []

    def watch(progress: Progress) -> None:
        folder = Path(str(progress.folder))
        news, _ = read_progress(folder)
        assert news is not None
        noted.append(((folder / BEGUN).exists(), news.ended))

    with Evaluator("fake/hash", cache=False) as evaluator:
        evaluator.evaluate(things(4), out=tmp_path, watch=watch, driver=RayDriver(evaluator, workers=1, block=2))
    assert set(noted) == {(False, None)}


@pytest.mark.usefixtures("ray")
def test_a_run_that_goes_on_keeps_its_prompts_on_a_cluster(tmp_path: Path) -> None:
    """Workers judge by the version that the run began with, not by the one an id alone means now."""
    data = things(3)
    with Evaluator("fake/overlap", prompt="support/binary@1", cache=False) as evaluator:
        begun = evaluator.evaluate(data, out=tmp_path)
    assert begun.folder is not None
    keys = [[call.key for call in result.calls] for result in begun.results]
    results, manifest = begun.folder / "results.jsonl", begun.folder / "manifest.json"
    results.write_bytes(results.read_bytes().splitlines(keepends=True)[0])
    # A run that was killed has no digest of its results yet.
    killed = {**json.loads(manifest.read_bytes()), "status": "interrupted", "files": {}, "digest": None}
    manifest.write_text(json.dumps(killed))
    with Evaluator("fake/overlap", cache=False) as evaluator:
        driver = RayDriver(evaluator, workers=1)
        run = evaluator.evaluate(data, out=tmp_path, resume=begun.folder, driver=driver)
        assert evaluator.chosen_judge.describe()["prompt"]["version"] == 2
    assert run.manifest.judge == begun.manifest.judge
    assert [[call.key for call in result.calls] for result in run.results] == keys
