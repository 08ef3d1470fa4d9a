"""Measures the CPU a call costs this process: the backend's stack beside the SDK's own `create`.

Run `python -m benchmarks.client_cpu`: the server has a process of its own, all variants send equal bodies,
and each runs several times in turn, since absolute times are noisy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from judge_eval.llm.http.openai import create
from judge_eval.llm.limit import Limited
from judge_eval.llm.retry import Retried
from judge_eval.wire import Request
from tests.support.requests import ask

TEXT = "San Marzano tomatoes are crushed by hand for the sauce of a Neapolitan pizza. " * 12
Variant = Callable[[str, list[Request], int], Awaitable[None]]


async def spread(calls: list[Request], width: int, one: Callable[[Request], Awaitable[Any]]) -> None:
    """Make all calls with `width` workers."""
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await one(call)

    await asyncio.gather(*(work() for _ in range(width)))


async def bare_sdk(url: str, calls: list[Request], width: int) -> None:
    """Loop over `AsyncOpenAI.chat.completions.create` and read the reply's JSON."""
    import openai

    client = openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0)

    async def one(request: Request) -> None:
        answer = await client.chat.completions.create(
            model="m",
            temperature=0,
            max_completion_tokens=request.max_tokens,
            messages=[{"role": m.role, "content": m.content} for m in request.messages],  # type: ignore[misc]
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "judgment", "strict": True, "schema": dict(request.form.schema)},
            },
        )
        json.loads(answer.choices[0].message.content or "")

    await spread(calls, width, one)
    await client.close()


def stack(transport: Any) -> Variant:
    """Make the variant that runs the backend's stack over a transport."""

    async def run(url: str, calls: list[Request], width: int) -> None:
        inner = create("m", base_url=url, concurrency=width, transport=transport)
        backend = Retried(Limited(inner, concurrency=width, start=width))

        async def one(request: Request) -> None:
            json.loads((await backend.complete(request)).text)

        await spread(calls, width, one)
        await backend.aclose()

    return run


def measure(variant: Variant, url: str, count: int, width: int) -> tuple[float, float]:
    """Return CPU and wall-clock seconds of one run."""
    calls = [ask(f"{number} {TEXT}") for number in range(count)]
    cpu, wall = time.process_time(), time.perf_counter()
    asyncio.run(variant(url, calls, width))
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    """Print CPU per call, and the ratio to the bare SDK, for each variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1500)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "k")
    variants: dict[str, Variant] = {"bare SDK create": bare_sdk, "stack, httpx": stack("httpx")}
    try:
        import aiohttp  # noqa: F401

        variants["stack, aiohttp"] = stack("aiohttp")
    except ImportError:
        pass
    command = [sys.executable, "-m", "tests.support.chat_server", "--no-keep", "--latency", str(given.latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            figures: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
            for name in variants:
                measure(variants[name], url, 64, given.width)  # imports, platform look-up
            for _ in range(given.rounds):
                for name, variant in variants.items():
                    figures[name].append(measure(variant, url, given.calls, given.width))
        finally:
            server.terminate()
    base = statistics.median(cpu for cpu, _ in figures["bare SDK create"])
    for name, runs in figures.items():
        cpu = statistics.median(cpu for cpu, _ in runs)
        wall = statistics.median(wall for _, wall in runs)
        print(
            f"{name:18} {cpu / given.calls * 1e3:6.3f} ms CPU a call, {cpu / base:5.2f} of the bare SDK; "
            f"{given.calls / wall:6.0f} calls/s"
        )


if __name__ == "__main__":
    main()
