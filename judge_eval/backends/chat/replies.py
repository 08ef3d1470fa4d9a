"""How a chat server's reply is read: a completion, or the error it stands for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from judge_eval.backends.chat.capabilities import Objection
from judge_eval.backends.chat.headers import retry_after
from judge_eval.errors import CallError, FatalCallError, RefusedError, TransientError
from judge_eval.wire import Completion, Finish, TokenLogprob, Usage

_FINISHES: Mapping[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filter",
    "refusal": "refusal",
}
_NO_CREDIT = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_credits",
}
_NO_MODEL = re.compile(
    r"model_not_found|not a valid model|model .{1,80} (does not exist|not found)", re.IGNORECASE
)
_TOO_LONG = re.compile(
    r"context[_ ]length|maximum context|string_above_max_length|too long|too large", re.IGNORECASE
)
_SHOWN = 300


class Declined(Exception):  # noqa: N818 - not an error of a call yet: the ladder may have an answer
    """The server objects to the form of the request.

    Args:
        objection: Its words.
        error: What to raise if nothing can be left out.
    """

    def __init__(self, objection: Objection, error: CallError) -> None:
        self.objection, self.error = objection, error
        super().__init__(objection.message)


def read_completion(
    content: bytes, dropped: tuple[str, ...], headers: Mapping[str, str], place: str
) -> Completion:
    """Read the body of an HTTP 200.

    Args:
        content: The body.
        dropped: What was left out of the request, for the record.
        headers: The reply's headers.
        place: The server's address, for messages.

    Raises:
        TransientError: The body is no completion, or stands for an error that may pass.
        RefusedError: The body says that this request was declined.
        FatalCallError: The body says that no request can succeed.
        Declined: The body objects to the form of the request.
    """

    def odd(what: str) -> TransientError:
        return TransientError(f"HTTP 200 from {place} {what}: {_start(content)}", kind="body")

    try:
        body = json.loads(content)
    except ValueError:
        raise odd("with a body that is not JSON") from None
    if not isinstance(body, dict):
        raise odd("with JSON that is no object")
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    failure = body.get("error") or (choice.get("error") if isinstance(choice, dict) else None)
    if failure:
        raise_failure(_status_of(failure), {"error": failure}, headers, place)
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise odd("without a choice")
    text = _text(message.get("content"))
    finish: Finish = _FINISHES.get(str(choice.get("finish_reason")), "stop")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and finish == "stop":
        finish, text = "refusal", text or _whole(refusal)
    return Completion(
        text=text,
        finish=finish,
        usage=_usage(body.get("usage")),
        model=str(body.get("model") or ""),
        dropped=dropped,
        logprobs=_logprobs(choice.get("logprobs")) if choice.get("logprobs") else (),
    )


def raise_failure(status: int, body: Any, headers: Mapping[str, str], place: str) -> None:
    """Raise what an HTTP status and its body stand for; always raises.

    Args:
        status: The HTTP status.
        body: The body as JSON, or as text.
        headers: The reply's headers.
        place: The server's address, for messages.

    Raises:
        FatalCallError: Key, quota, address or model are wrong: no call can succeed.
        TransientError: It may pass: 408, 409, 425, 429 and everything from 500.
        Declined: The server objects to the form of the request (400, 422).
        RefusedError: The server declined this very request.
    """
    objection, flagged = _objection(body)
    said = f"HTTP {status} from {place}: {objection.message or 'no message'}"
    code = objection.code
    if code in _NO_CREDIT or status == 402:
        raise FatalCallError(f"{said} (no credit is left; add some, then resume)")
    if flagged:
        raise RefusedError(f"content filter: {said}")
    if status == 401:
        raise FatalCallError(f"{said} (the key was not accepted; check OPENAI_API_KEY and the base URL)")
    if status == 403 and re.search(r"logprobs", objection.message):
        # Some reasoning models decline log-probabilities as a matter of permission.
        raise Declined(
            Objection(f"not supported: {objection.message}", code, objection.param), RefusedError(said)
        )
    if status == 403:
        raise FatalCallError(f"{said} (the key may not use this model or server)")
    if status in (404, 405, 410) or (status == 400 and _NO_MODEL.search(objection.words)):
        raise FatalCallError(f"{said} (check the model's name, and that the base URL ends as in .../v1)")
    if status in (408, 409, 425, 429) or status >= 500:
        raise TransientError(
            said, kind="rate_limit" if status == 429 else "server",
            retry_after=retry_after(headers), sent=status != 429,
        )  # fmt: skip
    if status == 413 or _TOO_LONG.search(objection.words):
        raise RefusedError(f"the request is too long: {said}")
    if "model output limit was reached" in objection.message:
        raise RefusedError(said, why="truncated")
    if status in (400, 422):
        raise Declined(objection, RefusedError(said))
    raise RefusedError(said)


def _status_of(failure: Any) -> int:
    """Find the HTTP status that an error inside a 200 stands for; one that says nothing may pass."""
    code = failure.get("code") if isinstance(failure, dict) else None
    if isinstance(code, str) and code.isdigit():
        code = int(code)
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    words = json.dumps(failure)[:2000]
    if "invalid_request" in words or "content_filter" in words:
        return 400
    return 429 if "rate_limit" in words else 502


def _objection(body: Any) -> tuple[Objection, bool]:
    """Find message, code and parameter in any spelling, and whether a content filter spoke."""
    if not isinstance(body, dict):
        return Objection(_start(body)), False
    error = body.get("error", body)
    if not isinstance(error, dict):
        return Objection(_start(error)), False
    detail = error.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        parts = [str(part) for part in detail[0].get("loc", ()) if part != "body"]
        param = ".".join(parts)
        return Objection(
            f"{param}: {detail[0].get('msg', '')}"[:_SHOWN], str(detail[0].get("type", "")), param
        ), False
    message = error.get("message") or detail or (error.get("metadata") or {}).get("raw") or ""
    code, kind = error.get("code"), error.get("type")
    code = code if isinstance(code, str) else kind if isinstance(kind, str) and kind in _NO_CREDIT else ""
    metadata = error.get("metadata")
    flagged = code == "content_filter" or (
        isinstance(metadata, dict) and ("flagged_input" in metadata or bool(metadata.get("reasons")))
    )
    return Objection(_start(message or body), code, str(error.get("param") or "")), flagged


def _start(value: Any) -> str:
    """Show the beginning of something in one line."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _text(content: Any) -> str:
    """Join the text of a message's content; thoughts among its parts are not text."""
    if isinstance(content, str):
        return _whole(content)
    if isinstance(content, list):
        parts = [
            part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"
        ]
        return _whole("".join(part for part in parts if isinstance(part, str)))
    return ""


def _whole(text: str) -> str:
    """Replace lone surrogates, which JSON can spell but no file can hold."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    return Usage(
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
        _count(usage.get("prompt_tokens_details"), "cached_tokens"),
        _count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _count(record: Any, name: str) -> int:
    value = record.get(name) if isinstance(record, dict) else None
    return value if isinstance(value, int) and value >= 0 else 0


def _logprobs(logprobs: Any) -> tuple[TokenLogprob, ...]:
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    tokens_read = []
    for entry in tokens if isinstance(tokens, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
            return ()
        top = tuple(
            (_whole(other["token"]), _finite(other.get("logprob")))
            for other in entry.get("top_logprobs") or ()
            if isinstance(other, dict) and isinstance(other.get("token"), str)
        )
        tokens_read.append(TokenLogprob(_whole(entry["token"]), _finite(entry.get("logprob")), top))
    return tuple(tokens_read)


def _finite(value: Any) -> float:
    """Read a logarithm; some servers write -Infinity where OpenAI writes -9999."""
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return -9999.0
