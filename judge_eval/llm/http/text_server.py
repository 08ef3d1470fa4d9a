"""A server whose models write texts: the form of a request that it takes is negotiated when it objects to one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from judge_eval.errors import ConfigError, DeniedError, RefusedError
from judge_eval.files import replacing
from judge_eval.foreign import read_json, within
from judge_eval.llm.http import client
from judge_eval.llm.http.bounded import Received
from judge_eval.llm.http.capabilities import BOUNDS, LEFT_OUT, ROUTE, STREAM, Capabilities, Objection
from judge_eval.llm.http.chat_format import ChatCompletions, plain_params
from judge_eval.llm.http.decisions import Decisions
from judge_eval.llm.http.failures import Declined, OtherRouteError, beginning
from judge_eval.spelling import option
from judge_eval.wire import Completion, Form, Message, Request, Usage

FILE = "servers.json"
KEPT_FOR = timedelta(days=30)
"""Afterwards a server is asked again: it may have learned."""
FORMS: dict[str, tuple[str, ...]] = {}
"""What was negotiated in this process, by server and model."""


class LearnedForm:
    """What a model at a server does not take: as stated, and as negotiated before."""

    def __init__(self, name: str, stated: Sequence[str]) -> None:
        self.name, self._stated = name, Capabilities.except_for(stated).dropped
        self.folder: Path | None = None
        """Where the file is, beside a cache."""

    def recall(self) -> Capabilities:
        """Return what may be sent."""
        negotiated = FORMS.get(self.name) or self.noted()[0]
        return Capabilities.except_for((*self._stated, *negotiated))

    def noted(self) -> tuple[tuple[str, ...], str]:
        """Return what the file says, with its date; nothing if it is old or not readable."""
        entry = read_learned(self.folder).get(self.name)
        names, day = within(entry, "unsupported"), within(entry, "date")
        with suppress(TypeError, ValueError):
            if datetime.now(UTC).date() - date.fromisoformat(day or "") <= KEPT_FOR:
                return tuple(name for name in names or () if name in LEFT_OUT), str(day)
        return (), ""

    def keep(self, can: Capabilities) -> None:
        """Remember what may be sent."""
        names = tuple(name for name in can.dropped if name not in self._stated)
        FORMS[self.name] = names
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


QUESTION = "A shop opens at nine and closes at five. Is it open at noon? Judge this as the schema says."
"""What a server is asked to find the form that it takes: never a user's text, which it may decline for itself."""


class _OwnQuestion:
    """A form of a request, with the package's own question in the place of all texts."""

    def __init__(self, asked: Form) -> None:
        self.digest, self.scale, self.listwise = asked.digest, asked.scale, asked.listwise
        self.schema, self.schema_name = asked.schema, asked.schema_name

    def render(self, request: Request) -> tuple[Message, ...]:
        """Write the question."""
        del request
        return (Message("user", QUESTION),)


class TextServer(client.HttpBackend):
    """A server whose models write texts; a class of each wire says how requests are written and replies read.

    One call is one HTTP request, without retries. If the server objects to a form that it has not answered yet,
    a question of the package's own finds the form that it takes, once for all calls, in at most 8 requests; a text
    that is declined in a form which the server takes is refused for itself.

    Args:
        model: The model's name, as the server knows it.
        params: Further fields of the request, such as `temperature` (0 unless given; None: not sent),
            `seed`, `reasoning_effort`, or `logprobs` with `top_logprobs`.
        unsupported: What the server does not take, in the words of `Completion.dropped`; it is always left out.
        calling: How the server is called: `provider`, and the other fields of `Options`.
    """

    _wire: ClassVar[type[ChatCompletions]]
    _other: ClassVar[type[ChatCompletions] | None] = None
    """What is spoken for a model that the server answers by it alone."""
    _own_headers: ClassVar[Mapping[str, str]] = {}
    """What each request carries besides the key."""

    def __init__(self, model: str, **calling: Any) -> None:
        super().__init__(self._wire.path, model, headers=self._own_headers, **calling)
        entry = self.entry
        self._params = plain_params({"temperature": 0, **self._options.params}, self._wire.ours)
        self._first = self._wire(model, self._params, entry.bounds_texts)
        self._second = self._other(model, self._params, entry.bounds_texts) if self._other is not None else None
        self._decisions: Decisions | None = None
        self._ask = partial(Decisions, model, **{**calling, "params": {"dialect": entry.decisions}})
        self.splits_requests = entry.has_decision_models
        """Whether its decision models are asked under the same name, and requests to them may be split."""
        stated = (*entry.unsupported, *self._options.unsupported)
        sampled = Capabilities.except_for(stated).sampled(self._params)
        if entry.bounds_texts and BOUNDS not in stated:
            sampled[BOUNDS] = True  # another schema, so other answers
        if ROUTE in stated:
            if self._second is None:
                way = f"leave {ROUTE!r} out of {option('unsupported')}"
                raise ConfigError(f"{entry.name}/{model} is not asked by Chat Completions; {way}")
            sampled[ROUTE] = False
        self._spoken_in_batches = self._spoken(Capabilities.except_for(stated))
        self.identity = client.identified(entry.name, model, self.place, sampled, self.variant)
        self._learned = LearnedForm(f"{self.place}{self.variant} {model} {self._wire.path}", stated)
        self._can = self._learned.recall()
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._accepted: set[bytes] = set()
        """Digests of the forms of reply that the server has answered as they are asked for now."""
        self._denied: tuple[float, DeniedError] | None = None
        """Why no form of a request was taken, and until when nobody tries again."""
        self._own_usage = Usage()
        """The tokens of the package's own question, which are counted with the next answer."""

    @property
    def capabilities(self) -> Capabilities:
        """What this server takes, as far as it is known."""
        return self._can

    @property
    def target(self) -> str:
        """The URL that bodies are posted to, as far as it is known."""
        wire = self._spoken(self._can)
        return super().target if wire is self._first else self._address.under(wire.path)

    def takes_more(self, dropped: Sequence[str]) -> bool:
        """Whether the server is known to take a parameter that shapes answers and is among those left out."""
        then = Capabilities.except_for(dropped).sampled(self._params)
        return bool(self._accepted) and then | self._can.sampled(self._params) != then

    def body(self, request: Request) -> bytes:
        """Write the JSON body of a request in a batch."""
        return self._spoken_in_batches.write(request, self._can)

    def read(self, content: bytes, status: int = 200) -> Completion:
        """Read a reply from a file; raises as `complete`, or `Declined` if the server objects to the form."""
        return self._read(Received(status, {}, content), self._can, self._spoken_in_batches)

    def shown(self, value: Any) -> str:
        """Show the beginning of what a server wrote, in one line and without a key."""
        return beginning(value, self.scrub)

    def unsupported_after(self, objection: Objection) -> tuple[str, ...]:
        """Name what must be left out after an objection; empty if its words do not say it."""
        following = self._can.after(objection, [name for name in self._sent if name != STREAM])
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
            ("strict JSON", forms.get(can.mode, "by the prompt")),
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
        if request.questionnaire is not None and self.splits_requests:
            self._decisions = self._decisions or self._ask()
            return await self._decisions.complete(request)
        while True:
            can = self._can
            try:
                return await self._answered(request, can)
            except Declined as declined:
                if declined.objection.of_caller or not await self._learns(request, can, declined.error):
                    raise declined.error from None

    async def _answered(self, request: Request, can: Capabilities) -> Completion:
        completion = await self._call(request, can)
        if can is self._can:
            self._accepted.add(request.form.digest)
        if self._own_usage != Usage():
            completion = replace(completion, usage=completion.usage + self._own_usage)
            self._own_usage = Usage()
        return completion

    def _lock(self) -> asyncio.Lock:
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _learns(self, request: Request, can: Capabilities, error: RefusedError) -> bool:
        """Find the form that the server takes, once for all calls; return whether it is another one than before."""
        async with self._lock():
            if self._can is can and request.form.digest not in self._accepted:
                if self._denied is not None and monotonic() < self._denied[0]:
                    raise DeniedError(str(self._denied[1]), error.cause)
                await self._negotiate(request, error)
            return self._can is not can

    async def _negotiate(self, request: Request, error: RefusedError) -> None:
        """Ask the package's own question in weaker forms: without what the server's words name, else rung by rung."""
        # A rung after which the words are others has helped, so the next ones start from it.
        sent, cause = self._sent, ""
        start, form, tried = self._can, self._can, list[Capabilities]()
        following: Capabilities | None = self._can
        while following is not None and len(tried) < MOST_REQUESTS:
            form = following
            tried.append(form)
            try:
                await self._ask_own(request, form)
            except Declined as declined:
                named = form.after(declined.objection, sent)
                if declined.error.cause != cause:
                    start, cause = form, declined.error.cause
                if named is None or named in tried:
                    named = next((rung for rung in start.rungs(sent) if rung not in tried), None)
                following = named
                continue
            except DeniedError as there:
                if ROUTE in form.without and ROUTE not in self._can.without:
                    raise DeniedError(f"{error.detail}; there: {there}", there.cause) from None
                raise
            if form is self._can:
                self._accepted.add(request.form.digest)
            else:
                self._can, self._accepted = form, {request.form.digest}
                self._learned.keep(form)
            return
        denied = DeniedError(f"{error.detail} (no form of a request is taken: {len(tried)} were tried)", error.cause)
        self._denied = monotonic() + _PAUSE, denied
        raise denied

    @property
    def _sent(self) -> tuple[str, ...]:
        """What may be left out of a request."""
        more = ((STREAM, self._wire.streams), (BOUNDS, self.entry.bounds_texts), (ROUTE, self._second is not None))
        return (*self._params, *(name for name, is_sent in more if is_sent))

    async def _ask_own(self, request: Request, form: Capabilities) -> None:
        """Ask the package's own question; whatever is not an objection to the form takes it."""
        question = Request(_OwnQuestion(request.form), "", (), request.max_tokens)
        with suppress(RefusedError):
            self._own_usage += (await self._call(question, form)).usage

    async def _call(self, request: Request, can: Capabilities) -> Completion:
        wire = self._spoken(can)
        body = wire.write(request, can)
        if wire.streams and STREAM not in can.without:
            body = body[:-1] + b',"stream":false}'
        return self._read(await self.post(body, "" if wire is self._first else wire.path), can, wire)

    def _spoken(self, can: Capabilities) -> ChatCompletions:
        return self._second if self._second is not None and ROUTE in can.without else self._first

    def _read(self, received: Received, can: Capabilities, wire: ChatCompletions) -> Completion:
        try:
            completion, dropped = self._completion(received, wire.read), can.dropped
        except OtherRouteError as error:
            if self._second in (None, wire):
                raise
            raise Declined(Objection(str(error), param=ROUTE), RefusedError(str(error), cause=error.cause)) from None
        return replace(completion, dropped=dropped) if dropped else completion


MOST_REQUESTS = 8
"""The most questions of a negotiation."""
_PAUSE = 10.0  # seconds in which a server that takes nothing is not asked again
