import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from judge_eval.errors import BudgetError, CallError, ConfigError, TransientError
from judge_eval.evaluator import Evaluator
from judge_eval.llm.backend import Identity
from judge_eval.llm.budget import Budgeted
from judge_eval.llm.hedge import Hedged
from judge_eval.llm.limit import Limited
from judge_eval.llm.options import Options
from judge_eval.llm.retry import Retried
from judge_eval.llm.stack import build_stack
from judge_eval.wire import Completion, Request, Usage
from tests.support.application import CliRunner, app
from tests.support.canned import Canned
from tests.support.chat_server import ChatServer
from tests.support.requests import ask
from tests.support.runs import traces
from tests.support.virtual_time import run


class Slow:
    """A backend whose calls take so many seconds each; None fails at once, a negative time fails after it."""

    identity: Identity | None = None
    scope: str | None = None

    def __init__(self, *seconds: float | None) -> None:
        self.seconds = list(seconds)
        self.calls = self.cancelled = 0

    async def complete(self, request: Request) -> Completion:
        """Answer with the number of the call."""
        self.calls += 1
        number, seconds = self.calls, self.seconds.pop(0) if self.seconds else 0.1
        try:
            await asyncio.sleep(abs(seconds or 0))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if seconds is None or seconds < 0:
            raise CallError(f"call {number} failed")
        return Completion(str(number))

    async def aclose(self) -> None:
        """Nothing to close."""


def answer(backend: Slow, after: float = 1.0) -> tuple[str, float, int]:
    """Ask once; return the answer, the seconds it took and how many calls were made a second time."""

    async def go() -> tuple[str, float, int]:
        hedged = Hedged(Limited(backend), after=after)
        loop = asyncio.get_running_loop()
        started = loop.time()
        text = (await hedged.complete(ask())).text
        return text, loop.time() - started, hedged.counts["hedge"]

    return run(go())


def test_a_slow_call_is_made_again_and_the_first_answer_is_taken() -> None:
    """The slower of the two is cancelled, whichever it is."""
    backend = Slow(60.0, 0.5)
    assert answer(backend) == ("2", pytest.approx(1.5), 1)
    assert (backend.calls, backend.cancelled) == (2, 1)
    backend = Slow(1.2, 60.0)
    assert answer(backend) == ("1", pytest.approx(1.2), 1)
    assert (backend.calls, backend.cancelled) == (2, 1)


def test_a_quick_call_is_made_once() -> None:
    """An answer in time costs nothing more."""
    backend = Slow(0.9)
    assert answer(backend) == ("1", pytest.approx(0.9), 0)
    assert backend.calls == 1


def test_a_failure_leaves_it_to_the_other_call() -> None:
    """One call that fails does not end the other; where both fail the first one's error is raised."""
    assert answer(Slow(3.0, None))[0] == "1"
    assert answer(Slow(-1.5, 2.0))[0] == "2"
    with pytest.raises(CallError, match="call 1 failed"):
        answer(Slow(-2.0, None))
    backend = Slow(None)
    with pytest.raises(CallError, match="call 1 failed"):
        answer(backend)
    assert backend.calls == 1


def test_waiting_for_a_place_is_not_slow() -> None:
    """Calls that wait their turn are not made again, however long they wait."""
    backend = Slow(*[0.5] * 12)

    async def go() -> int:
        hedged = Hedged(Limited(backend, concurrency=1), after=1.0)
        await asyncio.gather(*(hedged.complete(ask(f"passage {n}")) for n in range(12)))
        return hedged.counts["hedge"]

    assert run(go()) == 0
    assert backend.calls == 12


def test_a_budget_holds_for_the_second_call_too() -> None:
    """The second call is not made where the budget does not allow it; the first one is waited for."""
    backend = Slow(5.0)

    async def go() -> tuple[str, int]:
        budgeted = Budgeted(Limited(backend), max_calls=1)
        hedged = Hedged(budgeted, after=1.0)
        text = (await hedged.complete(ask())).text
        with pytest.raises(BudgetError):
            await hedged.complete(ask("another"))
        return text, budgeted.spent.calls

    assert run(go()) == ("1", 1)
    assert backend.calls == 1


def test_a_cancelled_caller_leaves_nothing_running() -> None:
    """Both calls end with whoever asked."""
    backend = Slow(60.0, 60.0)

    async def go() -> None:
        asking = asyncio.ensure_future(Hedged(Limited(backend), after=1.0).complete(ask()))
        await asyncio.sleep(2)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert len(asyncio.all_tasks()) == 1

    run(go())
    assert (backend.calls, backend.cancelled) == (2, 2)


def test_the_time_must_be_above_0() -> None:
    """No time to wait is an error."""
    with pytest.raises(ConfigError, match=r"hedge 0: write a number from 0.001"):
        build_stack("fake/overlap", None, Options(hedge=0))


@pytest.mark.slow
def test_a_run_past_a_server_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--hedge` calls that hang do not hold up the run; they are told among the retries."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mock")
    data = tmp_path / "data.jsonl"
    data.write_text("".join(trace.model_dump_json() + "\n" for trace in traces(20)), encoding="utf-8")
    with ChatServer() as server:
        server.script(*[Canned(fate="hang")] * 3)
        command = ["run", str(data), "--model", "openai/m", "--base-url", server.url, "--no-cache", "--json"]
        command += ["--out", str(tmp_path / "runs"), "--timeout", "60", "--hedge", "0.3", "-q"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        tally = json.loads(done.stdout)["tally"]
        assert tally["verdicts"] == 60
        assert server.counts["hang"] == 3
        assert tally["calls"] > 60
        assert tally["retries"]["hedge"] >= 3
        assert "timeout" not in tally["retries"]


class Hanging:
    """A backend whose calls take 50 ms, but for some at random that hang."""

    identity: Identity | None = None

    def __init__(self, share: float, seed: int = 1) -> None:
        self.share, self.random = share, random.Random(seed)
        self.calls = self.hung = 0

    async def complete(self, request: Request) -> Completion:
        """Answer, or hang and time out."""
        self.calls += 1
        if self.random.random() < self.share:
            self.hung += 1
            await asyncio.sleep(10)
            raise TransientError("no answer", kind="timeout")
        await asyncio.sleep(self.random.uniform(0.04, 0.06))
        return Completion("{}", usage=Usage(100, 10))

    async def aclose(self) -> None:
        """Nothing to close."""


def judge_all(backend: Hedged, calls: int) -> float:
    """Make so many calls, 64 at a time; return the seconds they took, repeats after time-outs included."""

    async def go() -> float:
        retried, left = Retried(backend, seed=1), iter(range(calls))

        async def work() -> None:
            for _ in left:
                await retried.complete(ask())

        await asyncio.gather(*(work() for _ in range(64)))
        return asyncio.get_running_loop().time()

    return run(go())


def test_auto_finds_the_seconds() -> None:
    """Calls that hang are made again after about three times what others take, and the run does not wait."""
    backend = Hanging(0.005)
    hedged = Hedged(Limited(backend, concurrency=64), after="auto")
    assert judge_all(hedged, 1000) < 3
    assert 1 <= backend.hung <= hedged.counts["hedge"] <= 50
    assert judge_all(Hedged(Limited(Hanging(0.005), concurrency=64), after=1e9), 1000) > 10


def test_auto_makes_a_twentieth_of_calls_again_at_most() -> None:
    """Where a fifth of calls hang, hedging does not multiply them."""
    backend = Hanging(0.2)
    hedged = Hedged(Limited(backend, concurrency=64), after="auto")
    judge_all(hedged, 500)
    assert 10 <= hedged.counts["hedge"] <= 0.05 * backend.calls


def test_auto_needs_answers_to_go_by() -> None:
    """The first calls are not made again: nothing is known of the time they take."""
    hedged = Hedged(Limited(Hanging(0.2), concurrency=64), after="auto")
    judge_all(hedged, 40)
    assert hedged.counts["hedge"] == 0


def test_what_both_calls_take_is_counted() -> None:
    """A cancelled call counts as the answer does, one that failed does not."""

    class Paid(Slow):
        async def complete(self, request: Request) -> Completion:
            return replace(await super().complete(request), usage=Usage(100, 10))

    async def go(backend: Slow, concurrency: int) -> tuple[int, Usage]:
        hedged = Hedged(Limited(backend, concurrency=concurrency), after=1.0)
        await hedged.complete(ask())
        return hedged.extra_calls, hedged.extra_usage

    assert run(go(Paid(60.0, 0.5), 2)) == (1, Usage(100, 10))
    assert run(go(Paid(2.0, 1.0), 2)) == (1, Usage(100, 10))  # both answer at the same moment
    assert run(go(Paid(3.0, None), 2)) == (0, Usage())
    assert run(go(Paid(0.5), 2)) == (0, Usage())


@pytest.mark.slow
def test_what_auto_is_called_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` comes from a flag, a configuration file, the environment or Python; nonsense is told plainly."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data.jsonl"
    data.write_text("".join(trace.model_dump_json() + "\n" for trace in traces(2)), encoding="utf-8")
    command = ["run", str(data), "--model", "fake/overlap", "-q", "--json", "--no-cache"]
    seen: list[object] = []
    noted = pytest.MonkeyPatch()
    noted.setattr("judge_eval.llm.options.check_hedge", lambda after, where: seen.append(after))

    def only(after: object) -> None:
        assert set(seen) == {after}
        seen.clear()

    assert CliRunner().invoke(app, [*command, "--hedge", "auto"]).exit_code == 0
    only("auto")
    monkeypatch.setenv("JUDGE_EVAL_HEDGE", "20")
    assert CliRunner().invoke(app, command).exit_code == 0
    only(20.0)
    monkeypatch.delenv("JUDGE_EVAL_HEDGE")
    (tmp_path / "judge_eval.toml").write_text("hedge = 30\n", encoding="utf-8")
    assert CliRunner().invoke(app, command).exit_code == 0
    only(30.0)
    (tmp_path / "judge_eval.toml").write_text('hedge = "auto"\n', encoding="utf-8")
    assert CliRunner().invoke(app, command).exit_code == 0
    only("auto")
    Evaluator("fake/overlap", metrics=["AP@5"], cache=None, options=Options(hedge="auto")).evaluate(traces(1))
    only("auto")
    noted.undo()
    (tmp_path / "judge_eval.toml").unlink()
    for given in ("soon", "0", "nan", "inf"):
        done = CliRunner().invoke(app, [*command, "--hedge", given])
        assert done.exit_code == 2
        assert f"--hedge {given}" in done.output.replace("0.0:", "0:")
        assert "auto" in done.output
    with pytest.raises(ConfigError, match=r"hedge 'soon': .*auto"):
        Options(hedge="soon")  # type: ignore[arg-type]
