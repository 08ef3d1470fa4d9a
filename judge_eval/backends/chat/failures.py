"""What a chat server's failures stand for, and how its words are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

from judge_eval.backends.chat.capabilities import Objection
from judge_eval.backends.chat.headers import retry_after
from judge_eval.backends.chat.secrets import Scrubber
from judge_eval.errors import (
    CallError,
    FatalCallError,
    FilteredError,
    RefusedError,
    RequestTooLargeError,
    TransientError,
)
from judge_eval.foreign import read_json

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
_SHOWN = 300  # characters of a server's words
_SOUGHT = 5_000  # characters of them that are looked at


class Declined(Exception):  # noqa: N818 - not an error of a call yet: the ladder may have an answer
    """The server objects to the form of the request.

    Args:
        objection: Its words.
        error: What to raise if nothing can be left out.
    """

    def __init__(self, objection: Objection, error: CallError) -> None:
        self.objection, self.error = objection, error
        super().__init__(objection.message)


class MovedError(FatalCallError):
    """The server sends the request to another address; nothing goes there."""


def read_failure(content: bytes) -> Any:
    """Read the body of a failure: as JSON where it is, else as text."""
    try:
        return read_json(content)
    except ValueError:
        return content.decode("utf-8", "replace")


def raise_failure(
    status: int, body: Any, headers: Mapping[str, str], place: str, scrub: Scrubber
) -> NoReturn:
    """Raise what an HTTP status and its body stand for; always raises.

    Args:
        status: The HTTP status.
        body: The body as JSON, or as text.
        headers: The reply's headers.
        place: The server's address, for messages.
        scrub: What keeps keys out of them.

    Raises:
        FatalCallError: Key, quota, address or model are wrong: no call can succeed.
        MovedError: The server sends the request elsewhere.
        TransientError: It may pass: 408, 409, 425, 429 and everything from 500.
        Declined: The server objects to the form of the request (400, 422).
        RefusedError: The server declined this very request.
    """
    if 300 <= status < 400:
        raise _moved(status, headers.get("location"), place, scrub)
    objection, flagged = _objection(body, scrub)
    said = f"HTTP {status} from {place}: {objection.message or 'no message'}"
    code = objection.code
    if code in _NO_CREDIT or status == 402:
        raise FatalCallError(f"{said} (no credit is left; add some, then resume)")
    if flagged:
        raise FilteredError(f"content filter: {said}")
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
        raise RequestTooLargeError(f"the request is too long: {said}")
    if "model output limit was reached" in objection.message:
        raise RefusedError(said, why="truncated")
    if status in (400, 422):
        raise Declined(objection, RefusedError(said))
    raise RefusedError(said)


def _moved(status: int, location: str | None, place: str, scrub: Scrubber) -> MovedError:
    """Make the error of a redirect, which names both hosts but no path or query: these may hold a key."""
    try:
        parts = urlsplit(urljoin(place, location or ""))
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        target = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        host = None
    if not location or host is None:
        target = "an address that cannot be read"
    return MovedError(
        f"HTTP {status}: {place} redirects to {beginning(target, scrub)}, and redirects are not followed: "
        "question and chunks would go there; if that is the server you mean, give its address as base URL"
    )


def _objection(body: Any, scrub: Scrubber) -> tuple[Objection, bool]:
    """Find message, code and parameter in any spelling, and whether a content filter spoke."""
    if not isinstance(body, dict):
        return Objection(beginning(body, scrub)), False
    error = body.get("error", body)
    if not isinstance(error, dict):
        return Objection(beginning(error, scrub)), False
    detail, metadata = error.get("detail"), error.get("metadata")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        where = detail[0].get("loc")
        parts = [as_line(part) for part in where if part != "body"] if isinstance(where, list) else []
        param = beginning(".".join(parts), scrub)
        said = f"{param}: {as_line(detail[0].get('msg'))}"
        return Objection(beginning(said, scrub), as_line(detail[0].get("type")), param), False
    metadata = metadata if isinstance(metadata, dict) else {}
    message = error.get("message") or detail or metadata.get("raw") or ""
    kind = as_line(error.get("type"))
    code = error.get("code")
    code = as_line(code)[:_SHOWN] if isinstance(code, str) else kind if kind in _NO_CREDIT else ""
    flagged = code == "content_filter" or "flagged_input" in metadata or bool(metadata.get("reasons"))
    param = beginning(as_line(error.get("param")), scrub)
    return Objection(beginning(message or body, scrub), code, param), flagged


def beginning(value: Any, scrub: Callable[[str], str]) -> str:
    """Show the beginning of something in one line, cleaned before it is cut."""
    text = value[: _SOUGHT * 4].decode("utf-8", "replace") if isinstance(value, bytes) else value
    text = text if isinstance(text, str) else spelled(text)
    if len(text) > _SOUGHT:
        # The word that is cut may be a key's beginning; where it is the only one, its end is not shown.
        text = (text[:_SOUGHT].rsplit(None, 1) or [""])[0]
    text = scrub(whole(" ".join(text.split())))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def spelled(value: Any) -> str:
    """Write something as JSON, in words where that cannot be."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "JSON that nests too deeply"


def as_line(value: Any) -> str:
    """Take a name or a number as a text of one line; what is neither has none."""
    return whole(" ".join(str(value).split())) if isinstance(value, str | int) else ""


def whole(text: str) -> str:
    """Replace lone surrogates, which JSON can spell but no file can hold."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
