"""Asking a cached backend for several completions."""

from __future__ import annotations

import asyncio

from judge_eval.llm.cache.cached import Cached
from judge_eval.wire import Completion, Request


def complete_all(cached: Cached, *requests: Request) -> list[Completion]:
    """Complete requests at once, in an event loop of their own."""

    async def run() -> list[Completion]:
        return await asyncio.gather(*map(cached.complete, requests))

    return asyncio.run(run())
