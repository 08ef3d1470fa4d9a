"""What the cluster's parts do, over a stand-in for Ray in this process."""

import json
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from judge_eval import Evaluator, distributed
from judge_eval.distributed import RayDriver
from judge_eval.llm.options import Options
from judge_eval.runs.judging import telemetry
from tests.support.runs import things

pytestmark = pytest.mark.foreign


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A Ray whose actors live in this process, one thread each."""

    class Actor:
        def __init__(self, kind: Any, *given: Any) -> None:
            self._made, self._thread = kind(*given), ThreadPoolExecutor(1)
            self.judge = SimpleNamespace(remote=self._judge)

        def _judge(self, items: Any) -> Any:
            done: Future[Any] = self._thread.submit(self._made.judge, items)
            return SimpleNamespace(future=lambda: done)

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
    }
    for name, value in stand_in.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


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
        assert evaluator.judge.describe()["prompt"]["version"] == 2
    assert run.manifest.judge == begun.manifest.judge
    assert [[call.key for call in result.calls] for result in run.results] == keys
