import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'context-judge[ray]'")

from judge_eval import Evaluator  # noqa: E402
from judge_eval.distributed import RayDriver, judge_dataset, share_of  # noqa: E402
from judge_eval.errors import ConfigError, FatalCallError  # noqa: E402
from judge_eval.judges import Cascade, Decision, Pointwise  # noqa: E402
from judge_eval.llm.options import Options  # noqa: E402
from tests.support.canned import error  # noqa: E402
from tests.support.chat_server import ChatServer  # noqa: E402
from tests.support.command import Shell  # noqa: E402
from tests.support.runs import things, unnamed  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture
def cluster() -> Iterator[object]:
    """Two nodes of two CPUs on this machine."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    made.add_node(num_cpus=2)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def test_limits_are_divided_and_budgets_refused() -> None:
    """Each worker gets its share of the limits; what cannot be divided is refused."""
    share = share_of(Options(concurrency=10, rpm=90.0, tpm=30.0), 3)
    assert (share.concurrency, share.rpm, share.tpm) == (3, 30.0, 10.0)
    assert share_of(Options(concurrency=2), 8).concurrency == 1
    for options in (Options(max_calls=5), Options(record=Path("x"))):
        with pytest.raises(ConfigError):
            share_of(options, 2)


@pytest.mark.timeout(300)
def test_two_nodes_give_the_run_of_one_process(cluster: object, tmp_path: Path) -> None:
    """10,000 verdicts over two nodes equal the single-process run, from a run and from a Ray dataset."""
    data = things(1000, 10)
    with Evaluator("fake/hash", metrics=["AP@10", "NDCG@10"], cache=False) as evaluator:
        alone = evaluator.evaluate(data, out=tmp_path / "alone")
        spread = evaluator.evaluate(data, out=tmp_path / "spread", driver=RayDriver(evaluator, workers=4))
        rows = [{"position": n, **json.loads(trace.model_dump_json())} for n, trace in enumerate(data[:300])]
        for row in rows:  # a table has no type for columns that are always empty
            row.pop("metadata")
            row["chunks"] = [{"id": chunk["id"], "text": chunk["text"]} for chunk in row["chunks"]]
        actual = judge_dataset(ray.data.from_items(rows), evaluator, workers=2).take_all()
    lines = [(run.folder / "results.jsonl").read_text() for run in (alone, spread) if run.folder]
    assert lines[0] == lines[1]
    assert spread.aggregates == alone.aggregates
    assert spread.manifest.tally == alone.manifest.tally
    results = {result.trace_id: result for result in alone.results}
    assert len(actual) == 300
    for row in actual:
        document = json.loads(row["result"])
        assert document["outcomes"] == json.loads(results[row["trace_id"]].model_dump_json())["outcomes"]
        assert row["AP@10"] == results[row["trace_id"]].scores["AP@10"]


@pytest.mark.timeout(300)
def test_a_cascade_on_two_nodes_is_that_of_one_process(cluster: object, tmp_path: Path) -> None:
    """Verdicts, stages, votes and what each of its two models was asked are those of one process."""
    data = Path(__file__).parents[2] / "fixtures" / "docs_qa.jsonl"
    judge = Cascade(Decision("support/decision"), Pointwise("support/binary"), 0.8)
    models = {"cheap": "fake/overlap", "strong": "fake/hash"}
    with Evaluator(models, judge=judge, metrics=["AP@5"], cache=False) as evaluator:
        alone = evaluator.evaluate(data, out=tmp_path / "alone")
        spread = evaluator.evaluate(data, out=tmp_path / "spread", driver=RayDriver(evaluator, workers=2))
    lines = [(run.folder / "results.jsonl").read_text() for run in (alone, spread) if run.folder]
    assert lines[0] == lines[1]
    tally = spread.manifest.tally
    assert tally == alone.manifest.tally
    assert tally.stages["cheap"] > 0
    assert tally.stages["strong"] > 0


@pytest.mark.timeout(300)
def test_node_killed_in_the_middle_loses_nothing(cluster: object, tmp_path: Path) -> None:
    """A node that dies mid-run costs, with a shared cache, only its calls in flight; each trace is judged once."""
    data = things(400, 5)
    with ChatServer(latency=0.05) as server:
        options = Options(base_url=server.url, concurrency=32)
        with Evaluator("openai/m", metrics=["AP@5"], cache=tmp_path / "cache", options=options) as evaluator:
            driver = RayDriver(evaluator, workers=2, block=16)

            def kill() -> None:
                while server.counts["paid"] < 400:
                    time.sleep(0.01)
                nodes = cluster.worker_nodes  # type: ignore[attr-defined]
                cluster.remove_node(next(iter(nodes)), allow_graceful=False)  # type: ignore[attr-defined]

            killer = threading.Thread(target=kill)
            killer.start()
            run = evaluator.evaluate(data, out=tmp_path / "runs", driver=driver)
            killer.join()
        assert [result.trace_id for result in run.results] == [trace.id for trace in data]
        tally = run.manifest.tally
        assert tally.failed_verdicts == 0
        assert tally.calls < server.counts["paid"] <= tally.calls + (tally.lost or 0)
        distinct = {json.dumps(call) for call in server.calls}
        assert server.counts["calls"] - len(distinct) <= 32 // 2  # the dead worker's share of the concurrency


@pytest.mark.timeout(200)
def test_fatal_error_of_a_worker_ends_the_run(cluster: object, tmp_path: Path) -> None:
    """A wrong key found out by a worker ends the run with the same error as on one machine."""
    with ChatServer() as server:
        server.script(*[error(401, "Incorrect API key") for _ in range(200)])
        options = Options(base_url=server.url, concurrency=8)
        with (
            Evaluator("openai/m", cache=False, options=options) as evaluator,
            pytest.raises(FatalCallError, match="Incorrect API key") as caught,
        ):
            evaluator.evaluate(things(50, 2), out=tmp_path / "runs", driver=RayDriver(evaluator, workers=2))
        assert caught.value.run_folder is None
    assert not (tmp_path / "runs").exists()  # as on one machine, a run without an answer leaves nothing


@pytest.mark.timeout(300)
def test_the_command_line_judges_on_a_cluster(cluster: object, tmp_path: Path) -> None:
    """`run --engine ray --ray-address` over HTTP gives the single process's run, within the limits of one."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(trace.model_dump_json() + "\n" for trace in things(60, 5)))
    address = cluster.address  # type: ignore[attr-defined]
    shell = Shell(tmp_path)
    with ChatServer(latency=0.05) as server:
        judge = ("run", data, "--model", "openai/m", "--base-url", server.url, "--cache", "none", "--json", "-q")
        alone = shell(*judge, "--out", tmp_path / "alone")
        assert alone.code == 0, alone.err
        assert server.counts["paid"] == 300
        server.most_in_flight = 0
        on_ray = ("--engine", "ray", "--ray-address", address, "--workers", "4", "--concurrency", "8")
        spread = shell(*judge, *on_ray, "--out", tmp_path / "spread")
        assert spread.code == 0, spread.err
        assert server.counts["paid"] == 600
        assert 2 <= server.most_in_flight <= 8
        # 1,200 a minute are 20 a second, for all workers together.
        paid: list[tuple[float, int]] = []
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.05):
                paid.append((time.monotonic(), server.counts["paid"] - 600))

        watcher = threading.Thread(target=watch)
        watcher.start()
        slowed = shell(*judge, *on_ray, "--rpm", "1200", "--limit", "40", "--out", tmp_path / "slowed")
        ended.set()
        watcher.join()
        assert slowed.code == 0, slowed.err
        under_way = [at for at, count in paid if 0 < count < 200]
        assert under_way[-1] - under_way[0] > 6
        for at, count in paid:
            later = max(more for then, more in paid if then <= at + 2)
            assert later - count <= 2 * 20 + 12
    lines = [next((tmp_path / name).glob("*/results.jsonl")).read_bytes() for name in ("alone", "spread")]
    assert unnamed(lines[0]) == unnamed(lines[1])
    values = [json.loads(done.out) for done in (alone, spread)]
    assert values[0]["aggregates"] == values[1]["aggregates"]
    assert values[0]["tally"] == values[1]["tally"]
    missing = shell(*judge, "--engine", "ray", "--max-calls", "5", "--ray-address", address)
    assert missing.code == 2
    assert "a budget cannot be shared" in missing.err
    assert "Traceback" not in missing.err


@pytest.mark.timeout(300)
def test_sigterm_keeps_what_the_workers_have(cluster: object, tmp_path: Path) -> None:
    """Stopped by SIGTERM, the workers bring what was paid for; --resume pays for the rest alone."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(trace.model_dump_json() + "\n" for trace in things(300, 5)))
    shell = Shell(tmp_path)
    with ChatServer(latency=0.05) as server:
        judge = (
            "run", data, "--model", "openai/m", "--base-url", server.url, "--cache", "none", "-q", "--json",
            "--engine", "ray", "--ray-address", cluster.address, "--workers", "2",  # type: ignore[attr-defined]
            "--concurrency", "8", "--resume=newest",
        )  # fmt: skip
        process = shell.start(*judge)
        while server.counts["paid"] < 300:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, result = process.communicate(timeout=60)
        assert process.returncode == 143, result
        assert b"stopped by SIGTERM" in result
        assert 300 <= server.counts["paid"] < 1500
        done = shell(*judge)
        assert done.code == 0, done.err
        assert json.loads(done.out)["tally"]["verdicts"] == 1500
        calls = [json.dumps(call, sort_keys=True) for call in server.calls]
        assert len(set(calls)) == len(calls) == 1500
