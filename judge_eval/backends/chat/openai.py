"""Asks any server that speaks OpenAI's Chat Completions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from judge_eval.backends.chat.bodies import Bodies, plain_params
from judge_eval.backends.chat.calling import Caller, CallerOptions, CallingBackend, identified
from judge_eval.backends.chat.capabilities import Capabilities, Objection
from judge_eval.backends.chat.failures import Declined, MovedError, beginning, raise_failure, read_failure
from judge_eval.backends.chat.replies import read_completion
from judge_eval.errors import CallError
from judge_eval.wire import Completion, Request


class OpenAI(CallingBackend):
    """A server that speaks OpenAI's Chat Completions.

    One call is one HTTP request, without retries, but for a server that declines a field: then the
    request is repeated without it, and so are all later ones.

    Args:
        model: The model's name, as the server knows it.
        params: Further fields of the request, such as `temperature` (0 unless given; None: not sent),
            `seed`, `reasoning_effort`, or `logprobs` with `top_logprobs`.
        lacking: What the server is known not to take, in the words of `Completion.dropped`; it is left out
            from the first request on.
        calling: How the server is called: `base_url`, `timeout` and all else of `CallerOptions`.

    Raises:
        ConfigError: An argument or the base URL cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        params: Mapping[str, Any] | None = None,
        lacking: Sequence[str] = (),
        **calling: Unpack[CallerOptions],
    ) -> None:
        self._caller = Caller("/chat/completions", **calling)
        self._bodies = Bodies(model, plain_params({"temperature": 0, **(params or {})}))
        self._params = self._bodies.params
        self.identity = identified("openai", model, self._caller.place, self._params)
        self._can = Capabilities.lacking(lacking)
        self._proven = False
        """Whether a vague objection is to the request: a call has succeeded, or weaker forms have not."""
        self._walking: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @property
    def capabilities(self) -> Capabilities:
        """What this server was found to take so far."""
        return self._can

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
