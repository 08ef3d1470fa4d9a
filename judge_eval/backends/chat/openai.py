"""Asks any server that speaks OpenAI's Chat Completions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from judge_eval.backends.around.quota import RateSignal
from judge_eval.backends.base import Identity
from judge_eval.backends.chat.bodies import Bodies, plain_params
from judge_eval.backends.chat.calling import Caller, Transport
from judge_eval.backends.chat.capabilities import Capabilities, Objection
from judge_eval.backends.chat.failures import Declined, MovedError, beginning, raise_failure, read_failure
from judge_eval.backends.chat.receiving import MOST_BYTES
from judge_eval.backends.chat.replies import read_completion
from judge_eval.digest import canonical_json
from judge_eval.errors import CallError, ConfigError
from judge_eval.wire import Completion, Request


class OpenAI:
    """A server that speaks OpenAI's Chat Completions.

    One call is one HTTP request, without retries, but for a server that declines a field: then the
    request is repeated without it, and so are all later ones.

    Args:
        model: The model's name, as the server knows it.
        base_url: Where the server is, as in `https://host/v1`; else `OPENAI_BASE_URL`, else OpenAI's.
        timeout: Seconds one call may take in all, > 0.
        concurrency: The most calls in flight, for which connections are kept, >= 1.
        params: Further fields of the request, such as `temperature` (0 unless given; None: not sent),
            `seed`, `reasoning_effort`, or `logprobs` with `top_logprobs`.
        transport: `aiohttp` takes less CPU than `httpx`, and needs the extra `fast`; `auto` takes it where
            it is installed.
        key_variable: The environment variable that holds the key; read at the first call.
        lacking: What the server is known not to take, in the words of `Completion.dropped`; it is left out
            from the first request on.
        max_reply: The most bytes that are read of one reply, compressed or not, > 0; a larger one is an
            error of its call.

    Raises:
        ConfigError: An argument or the base URL cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        timeout: float = 120.0,
        concurrency: int = 256,
        params: Mapping[str, Any] | None = None,
        transport: Transport = "auto",
        key_variable: str = "OPENAI_API_KEY",
        lacking: Sequence[str] = (),
        max_reply: int = MOST_BYTES,
    ) -> None:
        if not model.strip():
            raise ConfigError("no model is named; write --model openai/<name>")
        self._caller = Caller(
            "/chat/completions",
            base_url=base_url,
            timeout=timeout,
            concurrency=concurrency,
            transport=transport,
            key_variable=key_variable,
            max_reply=max_reply,
        )
        self._bodies = Bodies(model, plain_params({"temperature": 0, **(params or {})}))
        self._params = self._bodies.params
        shown = tuple(sorted((name, canonical_json(value)) for name, value in self._params.items()))
        self.identity = Identity("openai", model, self._caller.place, shown)
        """Provider, model, public base URL and every parameter asked for."""
        self._can = Capabilities.lacking(lacking)
        self._proven = False
        """Whether a vague objection is to the request: a call has succeeded, or weaker forms have not."""
        self._walking: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @property
    def listener(self) -> Callable[[RateSignal], None] | None:
        """Told what the server advertises of its limits."""
        return self._caller.listener

    @listener.setter
    def listener(self, tell: Callable[[RateSignal], None] | None) -> None:
        self._caller.listener = tell

    @property
    def capabilities(self) -> Capabilities:
        """What this server was found to take so far."""
        return self._can

    @property
    def scope(self) -> str:
        """The name of the quota: a digest of base URL, key and model."""
        return self._caller.scope(self.identity.model)

    def check(self) -> None:
        """Make sure that a call can be made, as far as that can be known without one.

        Raises:
            ConfigError: The key is missing or cannot be sent; the message says which.
        """
        self._caller.check()

    def body(self, request: Request) -> bytes:
        """Write the JSON body that `complete` would send now."""
        return self._bodies.write(request, self._can)

    def read(self, content: bytes, status: int = 200) -> Completion:
        """Read a reply that came by another way than `complete`, by a file for instance.

        Raises:
            Declined: The server objects to the form of the request.
            CallError: The reply brings no completion.
            FatalCallError: It says that no call can succeed.
        """
        place, scrub = self._caller.place, self._caller.scrub
        if status != 200:
            raise_failure(status, read_failure(content), {}, place, scrub)
        return read_completion(content, self._can.dropped, {}, place, scrub)

    def shown(self, value: Any) -> str:
        """Show the beginning of what a server wrote, in one line and without a key."""
        return beginning(value, self._caller.scrub)

    def lacking_after(self, objection: Objection) -> tuple[str, ...]:
        """Name what would have to be left out after an objection; empty where nothing would help."""
        following = self._can.after(objection, tuple(self._params))
        return following.dropped if following is not None else ()

    async def complete(self, request: Request) -> Completion:
        """Answer one request.

        Raises:
            ConfigError: The key is missing, or the transport is not installed.
            CallError: This call brought no completion.
            FatalCallError: Key, quota, address or model are wrong.
        """
        can = self._can
        try:
            completion = await self._call(request, can)
        except Declined as declined:
            return await self._learn(request, can, declined)
        if self._can is can:
            self._proven = True
        return completion

    async def aclose(self) -> None:
        """Close the connections of this event loop; a later call opens new ones."""
        await self._caller.aclose()

    async def _learn(self, request: Request, can: Capabilities, declined: Declined) -> Completion:
        """Find out what the server takes: one call at a time does, the others learn from it."""
        walking = self._walking.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        while True:
            async with walking:
                if self._can is can:
                    return await self._walk(request, can, declined)
                can = self._can
            try:
                return await self._call(request, can)
            except Declined as again:
                declined = again

    async def _walk(self, request: Request, can: Capabilities, declined: Declined) -> Completion:
        """Leave out more and more until the server takes the request.

        An objection that says what it dislikes is believed at once. One that does not may be to this very
        request, so a weaker form is tried once in this backend's life, and kept only if it succeeds.
        """
        first, guessing = declined.error, False
        while True:
            following = can.after(declined.objection, tuple(self._params))
            if following is None and (guessing or (declined.objection.vague and not self._proven)):
                following = can.lower_mode()
                guessing = True
            if following is None:
                self._proven = self._proven or guessing
                raise first from None
            can = following
            if not guessing:
                self._can, self._proven = can, False
            try:
                completion = await self._call(request, can)
            except Declined as again:
                declined = again
                continue
            self._can, self._proven = can, True
            return completion

    async def _call(self, request: Request, can: Capabilities) -> Completion:
        """Make one HTTP request.

        Raises:
            Declined: The server objects to the form of the request.
        """
        status, headers, content = await self._caller.post(self._bodies.write(request, can))
        place, scrub = self._caller.place, self._caller.scrub
        if 200 <= status < 300:
            return read_completion(content, can.dropped, headers, place, scrub)
        try:
            raise_failure(status, read_failure(content), headers, place, scrub)
        except MovedError as error:
            if not self._proven:
                raise
            raise CallError(str(error)) from None  # of a server that has answered: this call alone


create = OpenAI
"""Makes the `openai` backend."""
