"""Times calls against random faults, beside the same client without any hold; `faults` prints it."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.support import dataset, median, server
from judge_eval.data.reading import open_dataset
from judge_eval.errors import CallError
from judge_eval.judges import Pointwise
from judge_eval.llm.backend import Backend, Wrapper
from judge_eval.llm.options import Options
from judge_eval.llm.retry import Retried
from judge_eval.llm.stack import build_stack, create_backend
from judge_eval.wire import Completion, Request

FAULTS = ("--rate-429=0.05", "--retry-after=1", "--rate-500=0.05", "--rate-reset=0.01")
HANGS = "--rate-hang=0.005"
SCENARIOS = {
    "faults": (*FAULTS, HANGS),
    "faults, no hangs": FAULTS,
    "a quota told once": ("--tell-once=500", "--retry-after=1"),
    "6,000 a minute, not advertised": ("--rpm=6000", "--no-advertise"),
}
"""What goes wrong, as arguments of the mock server."""


class Room(Wrapper):
    """A backend with room for so many calls, and no hold of any kind."""

    def __init__(self, inner: Backend, most: int) -> None:
        super().__init__(inner)
        self._room = asyncio.Semaphore(most)

    async def complete(self, request: Request) -> Completion:
        """Ask when there is room."""
        async with self._room:
            return await self.inner.complete(request)


def free(options: Options) -> Backend:
    """Stack retries around the client, and nothing else."""
    return Retried(Room(create_backend("openai/m", options), options.concurrency))


def held(options: Options) -> Backend:
    """Stack what the product does."""
    return build_stack("openai/m", None, options).backend


def seconds(stack: Callable[[Options], Backend], options: Options, requests: Iterator[Request]) -> float:
    """Make the calls, with as many workers as the engine has, and return the wall time."""

    async def go() -> float:
        backend = stack(options)

        async def work() -> None:
            for request in requests:
                try:
                    await backend.complete(request)
                except CallError:
                    lost.append(request)

        lost: list[Request] = []
        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(options.concurrency + options.concurrency // 4)))
        took = time.perf_counter() - started
        await backend.aclose()
        if lost:
            print(f"  {len(lost)} calls lost")
        return took

    return asyncio.run(go())


def pacing(verdicts: int, rounds: int) -> None:
    """Print the times of each scenario; each variant has a server with equal faults of its own, in turn."""
    os.environ.setdefault("OPENAI_API_KEY", "sk-mock")
    judge = Pointwise("support/binary")
    with tempfile.TemporaryDirectory() as name:
        data = dataset(Path(name) / "data.jsonl", max(1, verdicts // 5), 5, 400)
        requests = [request for trace in open_dataset(data) for request in next(judge.plan(trace))]
        for scenario, faults in SCENARIOS.items():
            for width in (16, 64):
                took: dict[str, list[float]] = {"no hold": [], "as it is": []}
                for turn in range(rounds):
                    for variant, times in took.items():
                        seed = f"--seed={turn}"
                        with server("--latency", "0.05", seed, *faults) as url:
                            options = Options(base_url=url, timeout=10, concurrency=width)
                            stack = free if variant == "no hold" else held
                            times.append(seconds(stack, options, iter(requests)))
                base = took["no hold"]
                print(f"{scenario}, {width} in flight, {len(requests)} verdicts:")
                for variant, times in took.items():
                    ratio = median([a / b for a, b in zip(times, base, strict=True)])
                    spread = f"{min(times):.1f} to {max(times):.1f} s"
                    print(f"  {variant:<10} {median(times):5.1f} s ({spread}), {ratio:.2f} times no hold")
