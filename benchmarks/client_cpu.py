"""Measures the CPU a call costs this process: the stack of each wire beside the SDK's own `create`.

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
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from judge_eval.llm.http import anthropic_messages, gemini, openai
from judge_eval.llm.limit import Limited
from judge_eval.llm.retry import Retried
from judge_eval.wire import Request
from tests.support.requests import ask

TEXT = "San Marzano tomatoes are crushed by hand for the sauce of a Neapolitan pizza. " * 12
WIRES: dict[str, Any] = {
    "openai": openai.create, "anthropic": anthropic_messages.create, "gemini": gemini.create,
}  # fmt: skip
Variant = Callable[[str, list[Request], int], Awaitable[None]]


async def spread(calls: list[Request], width: int, first: Callable[[Request], Awaitable[Any]]) -> None:
    """Make all calls with `width` workers."""
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await first(call)

    await asyncio.gather(*(work() for _ in range(width)))


async def bare_sdk(url: str, calls: list[Request], width: int) -> None:
    """Loop over `AsyncOpenAI.chat.completions.create` and read the reply's JSON."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="k", base_url=url, max_retries=0)

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


def stack(provider: str) -> Variant:
    """Make the variant that runs a provider's stack."""

    async def run(url: str, calls: list[Request], width: int) -> None:
        settings = {"base_url": url, "concurrency": width, "provider": provider}
        inner = WIRES[provider]("m", **settings)
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
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        os.environ.setdefault(name, "k")
    variants: dict[str, tuple[str, Variant]] = {
        "bare SDK create": ("chat_server", bare_sdk),
        "openai": ("chat_server", stack("openai")),
    }
    for wire in ("anthropic", "gemini"):
        variants[wire] = (f"own_wires {wire}", stack(wire))
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    with ExitStack() as servers:
        kinds = {kind for kind, _ in variants.values()}
        urls = {kind: servers.enter_context(serving(kind, given.latency)) for kind in kinds}
        for kind, variant in variants.values():
            measure(variant, urls[kind], 64, given.width)  # imports, platform look-up
        for _ in range(given.rounds):
            for name, (kind, variant) in variants.items():
                figures[name].append(measure(variant, urls[kind], given.calls, given.width))
    base = statistics.median(cpu for cpu, _ in figures["bare SDK create"])
    for name, runs in figures.items():
        cpu = statistics.median(cpu for cpu, _ in runs)
        wall = statistics.median(wall for _, wall in runs)
        print(
            f"{name:18} {cpu / given.calls * 1e3:6.3f} ms CPU a call, {cpu / base:5.2f} of the bare SDK; "
            f"{given.calls / wall:6.0f} calls/s"
        )


@contextmanager
def serving(kind: str, latency: float) -> Iterator[str]:
    """Run a server in a process of its own and yield its URL."""
    module, *wire = kind.split()
    command = [sys.executable, "-m", f"tests.support.{module}", *wire, "--no-keep", "--latency", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
