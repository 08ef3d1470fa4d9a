import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge_eval.errors import ConfigError, TransientError
from judge_eval.llm.http.openai import create
from judge_eval.llm.load_balancer import LoadBalancer
from judge_eval.llm.options import Options
from judge_eval.llm.stack import build_stack
from judge_eval.wire import Passage, Request
from tests.support.application import CliRunner, app
from tests.support.chat_faults import Faults
from tests.support.chat_server import ChatServer
from tests.support.ports import quiet_port
from tests.support.requests import SmallForm


def request(n: int) -> Request:
    """Make a request."""
    return Request(SmallForm(), f"What is {n}?", (Passage(f"It is {n}."),), 200, reference="It is.")


@pytest.fixture
def dead_url() -> Iterator[str]:
    """An address where nobody listens, and nobody else begins to."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/v1"


class Time:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def ask(backend: LoadBalancer, count: int, start: int = 0) -> list[object]:
    """Ask many things at once, then close."""

    async def go() -> list[object]:
        try:
            return await asyncio.gather(
                *(backend.complete(request(start + n)) for n in range(count)), return_exceptions=True
            )
        finally:
            await backend.aclose()

    return asyncio.run(go())


@pytest.mark.slow
def test_calls_go_where_the_fewest_are_in_flight() -> None:
    """A server that answers nothing has half of the calls in flight at most; the other one does the rest."""
    with ChatServer() as slow, ChatServer() as quick:

        async def go() -> None:
            backend = LoadBalancer([create("m", base_url=server.url) for server in (slow, quick)])
            await asyncio.gather(*(backend.complete(request(100 + n)) for n in range(2)))
            slow.reset()
            quick.reset()
            slow.together = 1000  # it answers nothing until all the others are answered
            queue = iter(range(80))

            async def work() -> None:
                for n in queue:
                    await backend.complete(request(n))

            working = asyncio.gather(*(work() for _ in range(8)))
            while slow.in_flight + quick.counts["paid"] < 80:
                await asyncio.sleep(0.005)
            slow.release()
            await working
            assert backend.in_flight == [0, 0]
            await backend.aclose()

        asyncio.run(go())
        assert (slow.counts["paid"], quick.counts["paid"]) == (4, 76)


@pytest.mark.slow
def test_a_fleet_keeps_to_the_concurrency_of_all() -> None:
    """What the user allows in flight holds for all servers together, loop after loop."""
    with ChatServer(latency=0.2) as first, ChatServer(latency=0.2) as two:
        stack = build_stack("openai/m", None, Options(base_url=first.url, fleet=(two.url,), concurrency=6, attempts=1))
        fleet = stack.backend
        most = 0

        async def go() -> None:
            async def watch() -> None:
                nonlocal most
                while True:
                    most = max(most, first.in_flight + two.in_flight)
                    await asyncio.sleep(0.002)

            watching = asyncio.create_task(watch())
            await asyncio.gather(*(fleet.complete(request(n)) for n in range(20)))
            watching.cancel()
            await fleet.aclose()

        for _ in range(2):
            asyncio.run(go())
        assert 4 <= most <= 6
        assert first.counts["paid"] + two.counts["paid"] == 40


def test_dead_server_is_left_out_and_tried_again() -> None:
    """Calls for a server that is not there go to another at once; later one call tries it again."""
    clock, port = Time(), quiet_port()
    url = f"http://127.0.0.1:{port}/v1"
    with ChatServer() as alive:
        backend = LoadBalancer([create("m", base_url=url), create("m", base_url=alive.url)], clock=clock)
        assert not [line for line in ask(backend, 20) if isinstance(line, Exception)]
        assert alive.counts["paid"] == 20
        with ChatServer(port=port) as risen:
            ask(backend, 5, 100)
            assert risen.counts["paid"] == 0
            clock.now += 100
            ask(backend, 1, 200)
            assert risen.counts["paid"] == 1
            ask(backend, 10, 300)
            assert risen.counts["paid"] > 1


def test_no_server_at_all_is_a_transient_error(dead_url: str) -> None:
    """Where nobody is there the call fails as any unreachable one, after each server was tried."""
    backend = LoadBalancer([create("m", base_url=dead_url) for _ in range(3)])
    (result,) = ask(backend, 1)
    assert isinstance(result, TransientError)
    assert not result.sent


def test_call_that_may_be_done_is_not_repeated_elsewhere() -> None:
    """A call that was sent when its server fell silent fails, so that nothing is paid twice unasked."""
    with ChatServer(faults=Faults(rate_reset=1.0)) as broken, ChatServer(latency=0.2) as other:
        backend = LoadBalancer([create("m", base_url=broken.url), create("m", base_url=other.url)])
        (result,) = ask(backend, 1)
        assert isinstance(result, TransientError)
        assert other.counts["calls"] == 0


def test_fleet_has_one_identity_whoever_answers() -> None:
    """The identity is the first server's; another model in the fleet is refused."""
    urls = ["http://one.test/v1", "http://two.test/v1"]
    single = build_stack("openai/m", None, Options(base_url=urls[0])).backend.identity
    fleet = build_stack("openai/m", None, Options(base_url=urls[0], fleet=(urls[1],))).backend.identity
    assert fleet == single
    with pytest.raises(ConfigError, match="same model"):
        LoadBalancer([create("a", base_url=urls[0]), create("b", base_url=urls[1])])


def test_run_over_a_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead_url: str) -> None:
    """`--base-url` given twice spreads the calls, survives a dead server, and the cache answers again."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890")
    data = tmp_path / "data.jsonl"
    lines = [
        {"id": f"q{n}", "query": f"q{n}?", "reference": "r", "chunks": [f"text a{n}", f"text b{n}"]} for n in range(20)
    ]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with ChatServer(latency=0.01) as first, ChatServer(latency=0.01) as two:
        arguments = ["run", str(data), "--model", "openai/m", "--cache", str(tmp_path / "cache"), "-q",
                     "--out", str(tmp_path / "runs")]  # fmt: skip
        for url in (first.url, two.url, dead_url):
            arguments += ["--base-url", url]
        for _ in range(2):
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, done.output
        bodies = [json.dumps(call) for call in first.calls + two.calls]
        assert len(bodies) == len(set(bodies)) >= 40
        assert first.counts["paid"]
        assert two.counts["paid"]
