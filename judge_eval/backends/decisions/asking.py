"""Asks any server of decision models, in its own dialect."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn, Unpack

from pydantic_core import to_json

from judge_eval.backends.chat.bodies import plain_params
from judge_eval.backends.chat.calling import Caller, CallerOptions, CallingBackend, address_of, identified
from judge_eval.backends.chat.endpoint import DEFAULT
from judge_eval.backends.chat.failures import (
    Declined,
    MovedError,
    beginning,
    raise_failure,
    read_failure,
    whole,
)
from judge_eval.backends.chat.receiving import Received
from judge_eval.backends.chat.replies import count_of, model_of, status_of
from judge_eval.backends.decisions.dialects import DIALECTS, Dialect
from judge_eval.errors import CallError, ConfigError, RequestTooLargeError, TransientError, advise
from judge_eval.foreign import read_json
from judge_eval.wire import Completion, Questionnaire, Request, Usage

_OURS = frozenset({"model", "input", "state", "questions", "stream"})
_LEAST_SDK = (3, 26)
_MANY = re.compile(
    r"(too many|at most|maximum|max|no more than|exceed\w*|up to|limit)\b.{0,60}\bquestions?\b"
    r"|\bquestions?\b.{0,60}(too many|at most|maximum|no more than|exceed|up to|limit)",
    re.IGNORECASE | re.DOTALL,
)
_REQUEST_ID = "x-request-id"


class Decisions(CallingBackend):
    """A server that answers questions with probabilities.

    One call is one HTTP request, without retries. A `RequestTooLargeError` says that halves of it may pass.

    Args:
        model: The model's name, as the server knows it.
        params: `dialect`, which says how this server is asked (`openai`, `vllm`, `sglang`, `systemone`;
            `openai` for OpenAI's own server unless given), and further fields of the request.
        calling: How the server is called: `base_url`, `timeout` and all else of `CallerOptions`.

    Raises:
        ConfigError: An argument or the base URL cannot be used, no dialect is named, or the SDK is too old.
    """

    parts_requests = True
    """Whether a request that is too large for it may be parted."""

    def __init__(
        self,
        model: str,
        *,
        params: Mapping[str, Any] | None = None,
        **calling: Unpack[CallerOptions],
    ) -> None:
        _check_sdk()
        given = dict(params or {})
        named = given.pop("dialect", None)
        self._params = plain_params(given, ours=_OURS)
        self.dialect: Dialect = _dialect(named, address_of(calling.get("base_url")).public)
        """How the server is asked."""
        self._caller = Caller(self.dialect.path, **calling)
        self._proven = False
        """Whether the server has answered: then what it says of one request is not said of all."""
        shown = {"dialect": self.dialect.name, **self._params}
        self.identity = identified("decisions", model, self._caller.place, shown)

    def body(self, asked: Questionnaire) -> bytes:
        """Write the JSON body that asks a questionnaire.

        Lone surrogates are replaced: no UTF-8 can hold them, and servers that refuse them in JSON would
        refuse every question of the request.
        """
        fields = {"model": self.identity.model, **self._params, **self.dialect.write(asked)}
        try:
            return to_json(fields)  # in a quarter of the time that json.dumps takes
        except ValueError:
            return whole(json.dumps(fields, ensure_ascii=False, separators=(",", ":"))).encode()

    async def complete(self, request: Request) -> Completion:
        """Answer one request.

        Raises:
            ConfigError: The prompt is not for decision models, the key is missing, or the transport.
            RequestTooLargeError: The request holds more than the server takes.
            CallError: This call brought no completion.
            FatalCallError: Key, quota, address or model are wrong.
        """
        asked = request.questionnaire
        if asked is None:
            raise ConfigError(
                f"decisions/{self.identity.model} answers questions and writes nothing; judge in decision "
                "mode (--mode decision), or name a model that writes"
            )
        if len(asked.questions) > self.dialect.most:
            told = f"{len(asked.questions)} questions, and the dialect {self.dialect.name} takes"
            raise RequestTooLargeError(f"{told} {self.dialect.most}")
        received = await self._caller.post(self.body(asked))
        if not 200 <= received.status < 300:
            self._fail(received)
        completion = self._read(received, asked)
        self._proven = True
        return completion

    def _fail(self, received: Received) -> NoReturn:
        status, headers, content = received
        place, body = self._caller.place, read_failure(content)
        if status == 504 and not isinstance(body, dict):
            # A gateway gave up: the same request would meet the same end.
            told = f"HTTP 504 from {place}: its gateway would not wait for the answer"
            raise RequestTooLargeError(told, why="unreachable")
        try:
            self._raise(status, body, headers)
        except MovedError as error:
            if not self._proven:
                raise
            raise CallError(str(error)) from None

    def _raise(self, status: int, body: Any, headers: Mapping[str, str]) -> NoReturn:
        """Raise what a status and a body stand for."""
        try:
            raise_failure(status, body, headers, self._caller.place, self._caller.scrub)
        except Declined as declined:
            if _MANY.search(declined.objection.message):
                raise RequestTooLargeError(declined.error.detail) from None
            raise declined.error from None

    def _read(self, received: Received, asked: Questionnaire) -> Completion:
        """Read the body of an HTTP 200, whose answers are checked one by one."""
        _, headers, content = received
        place, scrub = self._caller.place, self._caller.scrub
        try:
            body = read_json(content)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            shown = beginning(content, scrub)
            raise TransientError(f"HTTP 200 from {place} with no JSON object: {shown}", kind="body")
        if failure := body.get("error"):
            self._raise(status_of(failure), {"error": failure}, headers)
        answers = self.dialect.read(body.get("answers"), asked.questions)
        told = headers.get(_REQUEST_ID, "")[:100]
        of_request = f" ({told})" if told else ""
        answers = [
            one._replace(detail=beginning(one.detail + of_request, scrub)) if one.why else one
            for one in answers
        ]
        return Completion(
            "", usage=self._usage(body.get("usage")), model=model_of(body, scrub), answers=tuple(answers)
        )

    def _usage(self, usage: Any) -> Usage:
        fresh, written = self.dialect.tokens
        details = usage if isinstance(usage, dict) else {}
        return Usage(
            count_of(usage, fresh),
            count_of(usage, written),
            count_of(details.get(f"{fresh}_details"), "cached_tokens"),
            count_of(details.get(f"{written}_details"), "reasoning_tokens"),
        )


def _dialect(named: Any, place: str) -> Dialect:
    """Find the dialect.

    Raises:
        ConfigError: None is named, or one that does not exist.
    """
    known = ", ".join(DIALECTS)
    if named is None:
        if place == DEFAULT:
            return DIALECTS["openai"]
        raise ConfigError(
            f"which dialect {place} speaks cannot be guessed; name it: -p dialect=NAME ({known})"
        )
    if not isinstance(named, str) or named not in DIALECTS:
        raise ConfigError(f"no dialect {named!r}; {advise(str(named), list(DIALECTS))}")
    return DIALECTS[named]


def _check_sdk() -> None:
    """See that the SDK is one that knows decisions.

    Raises:
        ConfigError: It is older.
    """
    from openai import VERSION

    parts = [int(part) for part in re.findall(r"\d+", VERSION)[:2]]
    if tuple(parts) < _LEAST_SDK:
        least = ".".join(map(str, _LEAST_SDK))
        raise ConfigError(
            f"decision models need the openai SDK {least} or later, and {VERSION} is installed: "
            f"pip install -U 'openai>={least}'"
        )


create = Decisions
"""Makes the `decisions` backend."""
