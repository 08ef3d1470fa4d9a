"""A server whose models write texts: the form of a request that it takes is negotiated before the first answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Unpack
from weakref import WeakKeyDictionary

from judge_eval.errors import DeniedError, RefusedError, TransientError
from judge_eval.files import replacing
from judge_eval.foreign import read_json
from judge_eval.llm.backend import PassedTurnError
from judge_eval.llm.http import client
from judge_eval.llm.http.bounded import Received
from judge_eval.llm.http.capabilities import LEFT_OUT, Capabilities, Objection
from judge_eval.llm.http.chat_format import Bodies, plain_params
from judge_eval.llm.http.decisions import Decisions
from judge_eval.llm.http.failures import Declined, beginning
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.wire import Completion, Request

FILE = "servers.json"
KEPT_FOR = timedelta(days=30)
"""Afterwards a server is asked again: it may have learned."""
_known: dict[str, tuple[str, ...]] = {}
"""What was negotiated in this process, by server and model."""


class LearnedForm:
    """What a model at a server does not take: as stated, and as negotiated before."""

    def __init__(self, name: str, stated: Sequence[str]) -> None:
        self.name, self._stated = name, Capabilities.lacking(stated).dropped
        self.folder: Path | None = None
        """Where the file is, beside a cache."""

    def recall(self) -> Capabilities:
        """Return what may be sent."""
        negotiated = _known.get(self.name) or self.noted()[0]
        return Capabilities.lacking((*self._stated, *negotiated))

    def noted(self) -> tuple[tuple[str, ...], str]:
        """Return what the file says, with its date; nothing if it is old or not readable."""
        entry = read_learned(self.folder).get(self.name)
        if not isinstance(entry, dict):
            return (), ""
        names, day = entry.get("unsupported"), entry.get("date")
        with suppress(TypeError, ValueError):
            if datetime.now(UTC).date() - date.fromisoformat(day or "") <= KEPT_FOR:
                return tuple(name for name in names or () if name in LEFT_OUT), str(day)
        return (), ""

    def keep(self, can: Capabilities) -> None:
        """Remember what may be sent."""
        names = tuple(name for name in can.dropped if name not in self._stated)
        _known[self.name] = names
        if self.folder is None:
            return
        entry = {"unsupported": names, "date": datetime.now(UTC).date().isoformat()}
        with suppress(OSError), replacing(self.folder / FILE, mode=0o600) as file:
            file.write(json.dumps({**read_learned(self.folder), self.name: entry}, indent=1).encode())


def read_learned(folder: Path | None) -> Mapping[str, Any]:
    """Read the file of a folder; a missing or odd one says nothing."""
    with suppress(OSError, ValueError):
        value = read_json((folder / FILE).read_bytes()) if folder is not None else None
        return value if isinstance(value, dict) else {}
    return {}


def forget_forms() -> None:
    """Forget what was negotiated in this process."""
    _known.clear()


@dataclass
class _LastRequest:
    """The last request before a server's first answer: of another call, since the first text may be odd."""

    request: Request
    """The one that was declined in all other forms."""
    form: Capabilities
    outcome: asyncio.Future[Completion]
    """Of that request."""

    def fail(self, error: Exception) -> None:
        """Have the first call end with an error, unless it was stopped."""
        if not self.outcome.done():
            self.outcome.set_exception(error)


class _LeftToAnother(Exception):  # noqa: N818 - it is no error
    def __init__(self, last: _LastRequest) -> None:
        self.last = last


class TextServer(client.HttpBackend):
    """A server whose models write texts; a class of each wire says how requests are written and replies read.

    One call is one HTTP request, without retries. If the server declines the first one, a form that it takes
    is negotiated, in at most 8 requests; after a success, a declined request does not affect others.

    Args:
        model: The model's name, as the server knows it.
        params: Further fields of the request, such as `temperature` (0 unless given; None: not sent),
            `seed`, `reasoning_effort`, or `logprobs` with `top_logprobs`.
        lacking: What the server does not take, in the words of `Completion.dropped`; it is always left out.
        calling: How the server is called: `base_url`, `timeout` and all else of `EndpointOptions`.
    """

    _path: ClassVar[str]
    """Under the base URL; `{model}` is the model."""
    _own_headers: ClassVar[Mapping[str, str]] = {}
    """What each request carries besides the key."""
    _writer: ClassVar[type[Bodies]]

    @staticmethod
    def _reader(body: Mapping[str, Any], scrub: Scrubber) -> Completion | None:
        """Read a reply; None if it holds no answer."""
        raise NotImplementedError

    def __init__(
        self,
        model: str,
        *,
        params: Mapping[str, Any] | None = None,
        lacking: Sequence[str] = (),
        **calling: Unpack[client.EndpointOptions],
    ) -> None:
        super().__init__(self._path, model, headers=self._own_headers, **calling)
        entry = self.entry
        self._bodies = self._writer(model, plain_params({"temperature": 0, **(params or {})}, self._writer.ours))
        self._params = self._bodies.params
        self._decisions: Decisions | None = None
        self._ask = partial(Decisions, model, params={"dialect": entry.decisions}, **calling)
        self.parts_requests = bool(entry.decisions) and entry.name != "openai"
        """Whether its decision models are asked under the same name, and requests to them may be split."""
        stated = (*entry.unsupported, *lacking)
        sampled = Capabilities.lacking(stated).sampled(self._params)
        self.identity = client.identified(entry.name, model, self.place, sampled, self.variant)
        self._learned = LearnedForm(f"{self.place}{self.variant} {model}", stated)
        self._can = self._learned.recall()
        self._talks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._accepted: set[bytes] = set()
        """Digests of the forms of reply that the server has answered as they are asked for now."""
        self._hopeless: DeniedError | None = None
        """Why no form of a request was taken; None if one was, or none was tried."""
        self._negotiating = False
        self._unanswered = 0
        """How many requests were declined or are under way since the server was last known to take none."""
        self._texts: set[bytes] = set()
        """Digests of what was declined before the first answer."""
        self._waiting = 0
        """How many calls wait for the first one."""
        self.others_wait: Callable[[], bool] = lambda: False
        """Whether other calls wait where they are admitted, and go first if this one passes its turn."""
        self._last: _LastRequest | None = None
        self._taken: Capabilities | None = None
        """A form in which another text was answered than the one that was declined in all others."""
        self._sure_until = 0.0
        """Until when nothing is sent, because the server takes nothing."""

    @property
    def capabilities(self) -> Capabilities:
        """What this server takes, as far as it is known."""
        return self._can

    def takes_more(self, dropped: Sequence[str]) -> bool:
        """Whether the server is known to take a parameter that shapes answers and is among those left out."""
        then = Capabilities.lacking(dropped).sampled(self._params)
        return bool(self._accepted) and then | self._can.sampled(self._params) != then

    def body(self, request: Request) -> bytes:
        """Write the JSON body that `complete` would send now."""
        return self._bodies.write(request, self._can)

    def read(self, content: bytes, status: int = 200) -> Completion:
        """Read a reply from a file; raises as `complete`, or `Declined` if the server objects to the form."""
        return self._read(Received(status, {}, content), self._can)

    def shown(self, value: Any) -> str:
        """Show the beginning of what a server wrote, in one line and without a key."""
        return beginning(value, self.scrub)

    def lacking_after(self, objection: Objection) -> tuple[str, ...]:
        """Name what must be left out after an objection; empty if its words do not say it."""
        following = self._can.after(objection, tuple(self._params))
        return following.dropped if following is not None else ()

    def facts(self) -> list[tuple[str, str]]:
        """Tell what is sent where, and what is left out, for people."""
        can, (names, day) = self._can, self._learned.noted()
        forms = {"strict": "yes", "json_schema": "a schema, not strict", "json_object": "JSON, no schema"}
        gone = {"logprobs", "top_logprobs"} & can.without
        return [
            *super().facts(),
            ("never sent", ", ".join(can.dropped) or "nothing is known to be unsupported"),
            *([("of which negotiated", f"{', '.join(names)} (on {day})")] if names else []),
            ("strict JSON", forms.get(can.mode, {"tool": "by a forced tool"}.get(can.mode, "by the prompt"))),
            ("log-probabilities", "no" if gone else "if asked for, unless the server declines"),
        ]

    async def aclose(self) -> None:
        """Close the connections of this event loop; a later call opens new ones."""
        await super().aclose()
        if self._decisions is not None:
            await self._decisions.aclose()

    def remember_in(self, folder: Path | None) -> None:
        """Keep what the server takes in a file of a cache's folder, and start with what it says."""
        self._learned.folder = folder
        if not self._accepted:
            self._can = self._learned.recall()

    async def complete(self, request: Request) -> Completion:
        """Answer one request."""
        if request.questionnaire is not None and self.parts_requests:
            self._decisions = self._decisions or self._ask()
            return await self._decisions.complete(request)
        if not self._accepted:
            return await self._first(request)
        can = self._can
        try:
            return await self._noted(request)
        except Declined as declined:
            if request.form.digest in self._accepted:
                return await self._odd(request, declined)
            async with self._talk():
                return await self._later(request, declined, can)

    def _talk(self) -> asyncio.Lock:
        return self._talks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _noted(self, request: Request) -> Completion:
        can = self._can
        completion = await self._call(request, can)
        if self._can is can:
            self._accepted.add(request.form.digest)
            self._hopeless = None
        return completion

    async def _first(self, request: Request) -> Completion:
        """Call a server that has not answered yet: one call goes ahead, the others wait for it."""
        try:
            return await self._in_turn(request)
        except _LeftToAnother as left:
            if not self._waiting:
                left.last.outcome.cancel()  # whoever sends the last request need not send this text, too
                raise PassedTurnError from None
            return await self._outcome(left.last)

    async def _in_turn(self, request: Request) -> Completion:
        lock, can = self._talk(), self._can
        if not await self._turn(lock):
            if self._accepted:
                return await self.complete(request)
            try:  # the first takes long: this one is made beside it
                return await self._noted(request)
            except Declined as declined:
                async with lock:
                    return await self._later(request, declined, can)
        try:
            if not self._accepted:
                if monotonic() < self._sure_until:
                    raise self._no_form()
                if self._last is not None:
                    return await self._send_last(request, self._last)
                try:
                    return await self._noted(request)
                except Declined as declined:
                    return await self._later(request, declined, self._can)
        finally:
            lock.release()
        return await self.complete(request)

    async def _turn(self, lock: asyncio.Lock) -> bool:
        """Wait for the lock until the server has answered, or for a while; return whether it is held."""
        self._waiting += 1
        try:
            while not self._accepted:
                try:
                    async with asyncio.timeout(_PATIENCE):
                        return await lock.acquire()
                except TimeoutError:
                    if self._unanswered <= _BESIDE and not self._negotiating and self._hopeless is None:
                        return False
            return False
        finally:
            self._waiting -= 1

    async def _later(self, request: Request, declined: Declined, can: Capabilities) -> Completion:
        """Answer a request that was declined as `can` says; meanwhile another may have found a form."""
        if self._hopeless is not None:
            self._sure_until = monotonic() + _PAUSE
            raise self._no_form()
        self._negotiating = True
        try:
            if self._can is can:
                return await self._negotiate(request, declined)
            try:
                return await self._noted(request)
            except Declined as again:
                return await self._negotiate(request, again)
        finally:
            self._negotiating = False

    def _no_form(self) -> DeniedError:
        assert self._hopeless is not None
        return DeniedError(self._hopeless.wording, self._hopeless.cause)

    async def _negotiate(self, request: Request, declined: Declined) -> Completion:
        """Find a form that the server takes: guided by its words where they are known, else rung by rung."""
        # A rung after which the server's words are others has helped, so the next ones start from it.
        first, sent, can, known = declined.error, tuple(self._params), self._can, bool(self._accepted)
        if declined.objection.of_caller:
            raise first from None
        if not known and self._taken is not None:
            return await self._in_taken(request, self._taken, first)
        tried = [can]
        while (sent_now := len(tried) if known else max(len(tried), self._unanswered)) < MOST_REQUESTS:
            step = can.after(declined.objection, sent)
            guided = step is not None and step not in tried
            if not guided:
                step = next((rung for rung in can.rungs(sent) if rung not in tried), None)
                if sent_now == MOST_REQUESTS - 1:
                    step = can.least(sent)
                    if not known and len(self._texts) == 1 and (self._waiting or self.others_wait()):
                        self._last = _LastRequest(request, step, asyncio.get_running_loop().create_future())
                        raise _LeftToAnother(self._last)
            if step is None or step in tried:
                break
            tried.append(step)
            try:
                completion = await self._call(request, step)
            except Declined as again:
                if guided or again.error.cause != declined.error.cause:
                    can, declined = step, again
                continue
            self._settle(request, step)
            return completion
        if known:
            raise first from None
        raise self._give_up(first, len(tried)) from None

    async def _in_taken(self, request: Request, form: Capabilities, first: RefusedError) -> Completion:
        """Answer a second text that is declined in the form that is tried first: then others are, too."""
        try:
            completion = await self._call(request, form)
        except Declined:
            raise first from None
        self._settle(request, form)
        return completion

    def _settle(self, request: Request, can: Capabilities) -> None:
        self._can, self._hopeless, self._accepted = can, None, {request.form.digest}
        self._learned.keep(can)

    def _give_up(self, error: RefusedError, forms: int) -> DeniedError:
        self._sure_until, self._unanswered = monotonic() + _PAUSE, 0
        words = f"{error.detail} (no form of a request is taken: {forms} were tried)"
        self._hopeless = DeniedError(words, error.cause)
        return self._no_form()

    async def _send_last(self, request: Request, last: _LastRequest) -> Completion:
        """Send the last request before a first answer; if it is taken, then also the first text in that form."""
        self._last = None
        try:
            completion = await self._call(request, last.form)
        except Declined as declined:
            last.fail(self._give_up(declined.error, MOST_REQUESTS))
            raise self._no_form() from None
        except BaseException:
            self._last = last  # it said nothing: the next caller's is the last one
            raise
        try:
            if request.digest == last.request.digest:
                if not last.outcome.done():
                    last.outcome.set_result(completion)
            elif last.outcome.done():  # nobody waits for that text: another one will show whether it was odd
                self._taken, self._unanswered = last.form, 0
                return completion
            else:
                last.outcome.set_result(await self._call(last.request, last.form))
        except Declined as declined:  # it is about that text, so nothing was learned of the form
            last.fail(declined.error)
            self._unanswered = 0
            self._texts.clear()
            return completion
        except Exception as error:  # it is the first call's; what this one has been answered is paid for
            last.fail(error)
        except asyncio.CancelledError:  # that ends this call at its next wait, once its answer is kept
            last.fail(TransientError("the call before it was stopped", kind="connection"))
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
                task.cancel()
            return completion
        self._settle(request, last.form)
        return completion

    async def _outcome(self, last: _LastRequest) -> Completion:
        """Wait until another call has sent the last request; if all of these were stopped, send it."""
        try:
            while not last.outcome.done():
                await asyncio.wait([last.outcome], timeout=_PATIENCE)
                if self._last is last and not self._waiting:
                    async with self._talk():
                        if self._last is last:
                            await self._send_last(last.request, last)
            return last.outcome.result()
        except asyncio.CancelledError:
            last.outcome.cancel()
            raise

    async def _odd(self, request: Request, declined: Declined) -> Completion:
        """Answer a request that is declined in a form which others were answered in, for itself alone."""
        first, can = declined.error, self._can
        for _ in range(MOST_REQUESTS):
            step = can.after(declined.objection, tuple(self._params))
            if step is None:
                break
            try:
                return await self._call(request, step)
            except Declined as again:
                can, declined = step, again
        raise first from None

    async def _call(self, request: Request, can: Capabilities) -> Completion:
        self._unanswered += 1
        declined = False
        try:
            return self._read(await self.post(self._bodies.write(request, can)), can)
        except Declined:
            declined = True
            if not self._accepted:
                self._texts.add(request.digest)
            raise
        finally:
            if not declined:
                self._unanswered = max(0, self._unanswered - 1)

    def _read(self, received: Received, can: Capabilities) -> Completion:
        completion, dropped = self._completion(received, self._reader), can.dropped
        return replace(completion, dropped=dropped) if dropped else completion


MOST_REQUESTS = 8
"""The most requests of a negotiation, the first one included."""
_PATIENCE = 1.0  # seconds that calls wait for the very first one
_BESIDE = 2  # calls that are made beside it if it takes longer; a negotiation needs the rest of the 8
_PAUSE = 10.0  # seconds in which a server that takes nothing gets no further request
