"""Reads a server's failures and the limits in its headers."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

from judge_eval import errors
from judge_eval.foreign import dicts_in, within
from judge_eval.llm.http.capabilities import Objection
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.llm.limit import Quota, RateSignal

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LIMITED = "x-ratelimit-limit-requests"
_REMAINING = "x-ratelimit-remaining-requests"
_ANTHROPIC = "anthropic-ratelimit-{0}-{1}"
_REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-goog-request-id")
_LONGEST_WAIT = 100  # characters of a header that says a time or a number
_MOST = 1e9  # of anything: seconds, requests, tokens
_LONGEST_PERIOD = 86_400.0  # seconds of a quota; a header that says more is not believed


def duration(text: str | None) -> float | None:
    """Read `"1s"`, `"6m0s"`, `"250ms"`, `"1.5"` as seconds; None for another text."""
    if not text or len(text) > _LONGEST_WAIT:
        return None
    text = text.strip().lower()
    number = _number(text)
    if number is not None:
        return number
    parts = _PART.findall(text)
    if not parts or "".join(value + unit for value, unit in parts) != text:
        return None
    seconds = sum(float(value) * _UNITS[unit] for value, unit in parts)
    return seconds if seconds < _MOST else None


def retry_after(headers: Mapping[str, str], now: datetime | None = None, *, quotas: bool = True) -> float | None:
    """Return the seconds, >= 0, that the server asks to wait; None if it does not say."""
    # `retry-after-ms` goes before `Retry-After` (seconds or an HTTP date, compared with `now`), and this
    # before the largest `x-ratelimit-reset-*` of what is used up; `quotas` says whether these count.
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    if asked is not None and len(asked) <= _LONGEST_WAIT:
        seconds = _number(asked)
        if seconds is not None:
            return seconds
        try:
            date = parsedate_to_datetime(asked)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            seconds = max(0.0, (date - (now or datetime.now(UTC))).total_seconds())
            return seconds if seconds < _MOST else None
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None
    resets = [
        (reset, _number(headers.get(f"x-ratelimit-remaining-{what}")))
        for what in ("requests", "tokens")
        if quotas and (reset := duration(headers.get(f"x-ratelimit-reset-{what}"))) is not None
        if reset <= _LONGEST_PERIOD
    ]
    used_up = [reset for reset, remaining in resets if remaining == 0]
    return max(used_up or [reset for reset, _ in resets], default=None)


def rate_signal(headers: Mapping[str, str]) -> RateSignal | None:
    """Read the advertised limits; None if there are none."""
    if _LIMITED in headers or _REMAINING in headers:
        return RateSignal(_quota(headers, "requests"), _quota(headers, "tokens"))
    if _ANTHROPIC.format("requests", "limit") in headers:
        tokens = _quota(headers, "tokens", _ANTHROPIC) or _quota(headers, "input-tokens", _ANTHROPIC)
        return RateSignal(_quota(headers, "requests", _ANTHROPIC), tokens)
    return None


def _quota(headers: Mapping[str, str], what: str, name: str = "x-ratelimit-{1}-{0}") -> Quota | None:
    limit = _number(headers.get(name.format(what, "limit")))
    remaining = _number(headers.get(name.format(what, "remaining")))
    text = headers.get(name.format(what, "reset"))
    reset = _until(text) if name == _ANTHROPIC else duration(text)
    if limit is None or limit < 1 or remaining is None or (reset or 0) > _LONGEST_PERIOD:
        return None
    return Quota(limit, min(remaining, limit), reset)


def _until(text: str | None) -> float | None:
    """Return the seconds, >= 0, until a time as RFC 3339 writes it; None for another text."""
    try:
        time = datetime.fromisoformat((text or "")[:_LONGEST_WAIT])
        return max(0.0, (time - datetime.now(UTC)).total_seconds())
    except (OverflowError, TypeError, ValueError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None and len(text) <= _LONGEST_WAIT else -1.0
    except ValueError:
        return None
    return value if 0 <= value < _MOST else None


FILTERED = frozenset({"content_filter", "invalid_prompt", "bio_policy", "misalignment_policy_violation"})
"""Codes of a request that is declined for its content."""
_NO_CREDIT = {
    "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits", "billing_error",
}  # fmt: skip
_NO_ACCESS = re.compile(
    r"api key (not valid|expired|not found)|credit balance is too low|user location is not supported", re.IGNORECASE
)
_NO_MODEL = re.compile(r"model_not_found|not a valid model|model .{1,80} (does not exist|not found)", re.IGNORECASE)
_WRONG_MODEL = "check the model's name, and that the base URL ends as in .../v1"
_OTHER_ROUTE = re.compile(
    r"(only supported in|use) /?v1/responses|not supported in the v1/chat/completions"
    r"|chatCompletion operation does not work",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context[_ ](length|size|window)|max(imum)? context|maximum (model|prompt) length|string_above_max_length"
    r"|(?<!took )too long|too large|exceeds the maximum number of tokens|inputs\W+tokens|less than \d+ tokens",
    re.IGNORECASE,
)
_LOADING = re.compile(r"\bloading\b.{0,40}\bmodel|\bmodel\b.{0,200}\bloading", re.IGNORECASE)
_VARYING = re.compile(r"\S*\d\S*|\"[^\"]*\"|'[^']*'|`[^`]*`")  # in equal refusals: numbers, ids, quotations
_SHOWN = 300  # characters of a server's words
_SOUGHT = 5_000  # characters of them that are looked at


class Declined(Exception):  # noqa: N818 - not an error of a call yet: the ladder may have an answer
    """The server objects to the form of the request; `error` is raised if nothing can be left out."""

    def __init__(self, objection: Objection, error: errors.RefusedError) -> None:
        self.objection, self.error = objection, error
        super().__init__(objection.message)


class MovedError(errors.DeniedError):
    """The server redirects the request, which is not followed."""


class OtherRouteError(errors.DeniedError):
    """The server answers the model by its Responses route alone."""


def raise_failure(
    status: int, body: Any, headers: Mapping[str, str], place: str, scrub: Scrubber, key: str = "OPENAI_API_KEY"
) -> NoReturn:
    """Raise what an HTTP status and its body stand for; `place`, `scrub` and `key` serve the message.

    Raises:
        DeniedError: Key, quota, address or model are wrong: no call can succeed.
        MovedError: The server sends the request elsewhere.
        OtherRouteError: Another route of the server answers the model.
        TransientError: It may pass: 408, 409, 425, 429 and everything from 500.
        Declined: The server objects to the form of the request (400, 422).
        RefusedError: The server declined this very request.
    """
    if 300 <= status < 400:
        raise _moved(status, headers.get("location"), place, scrub)
    objection, flagged = _objection(body, scrub)
    message = (
        f"HTTP {status} from {place}: {objection.message or 'no message'}{in_parentheses(request_id(headers, scrub))}"
    )
    code = objection.code
    cause = f"HTTP {status} {_VARYING.sub('', objection.words)}"
    if code in _NO_CREDIT or status == 402:
        raise errors.DeniedError(f"{message} (no credit is left; add some, then resume)", errors.NO_CREDIT)
    if flagged:
        raise errors.FilteredError(f"content filter: {message}")
    if status in (400, 404) and _OTHER_ROUTE.search(objection.message):
        raise OtherRouteError(f"{message} (Responses may answer it)", f"HTTP {status}")
    if status == 403 and re.search(r"logprobs", objection.message):
        # Some reasoning models decline log-probabilities as a matter of permission.
        raise Declined(
            Objection(f"not supported: {objection.message}", code, objection.param), errors.RefusedError(message)
        )
    denied = {
        401: f"the key was not accepted; check {key or 'the key'} and the base URL",
        403: "the key may not use this model or server",
        501: "the server does not do this, or not with this model",
        **dict.fromkeys((404, 405, 410), _WRONG_MODEL),
    }
    if status == 400 and _NO_ACCESS.search(objection.message):
        denied[400] = "the server does not serve this account or key"
    elif status == 400 and _NO_MODEL.search(objection.words):
        denied[400] = _WRONG_MODEL
    if status in denied:
        raise errors.DeniedError(f"{message} ({denied[status]})", f"HTTP {status}")
    if status in (400, 413, 422, 500) and (status == 413 or _TOO_LONG.search(objection.words)):
        raise errors.RequestTooLargeError(f"the request is too long: {message}")
    if status in (408, 409, 425, 429) or status >= 500:
        loading = status == 503 and _LOADING.search(objection.message) is not None
        raise errors.TransientError(
            message, kind="rate_limit" if status == 429 else "loading" if loading else "server",
            retry_after=retry_after(headers, quotas=status == 429) or _retry_info(body),
            sent=status != 429 and not loading,
        )  # fmt: skip
    if "model output limit was reached" in objection.message:
        raise errors.RefusedError(message, why="truncated")
    if status in (400, 422):
        raise Declined(objection, errors.RefusedError(message, cause=cause))
    raise errors.RefusedError(message, cause=cause)


def request_id(headers: Mapping[str, str], scrub: Scrubber) -> str:
    """Return the server's name of a request, as its support asks for it; "" without one."""
    for name in _REQUEST_IDS:
        if number := headers.get(name):
            return beginning(number[:_LONGEST_WAIT], scrub)
    return ""


def in_parentheses(number: str) -> str:
    """Write the name of a request after what is said of it."""
    return f" ({number})" if number else ""


def _retry_info(body: Any) -> float | None:
    """Return the seconds that Google's error details ask to wait."""
    delays = (detail.get("retryDelay") for detail in dicts_in(within(body, "error", "details")))
    return duration(next((delay for delay in delays if isinstance(delay, str)), None))


def _moved(status: int, location: str | None, place: str, scrub: Scrubber) -> MovedError:
    """Make the error of a redirect, without path and query, which may hold a key."""
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
        "the request would go there; if that is the server you mean, give its address as base URL",
        "a redirect",
    )


def _objection(body: Any, scrub: Scrubber) -> tuple[Objection, bool]:
    if isinstance(body, list) and len(body) == 1:  # as Gemini writes it for some requests
        body = body[0]
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
        problem = f"{param}: {as_line(detail[0].get('msg'))}"
        return Objection(beginning(problem, scrub), as_line(detail[0].get("type")), param), False
    metadata = metadata if isinstance(metadata, dict) else {}
    message = error.get("message") or detail or metadata.get("raw") or ""
    kind = as_line(error.get("type"))
    code = error.get("code")
    code = (
        as_line(code)[:_SHOWN]
        if isinstance(code, str)
        else kind
        if kind in _NO_CREDIT or _TOO_LONG.search(kind)
        else ""
    )
    flagged = code in FILTERED or "flagged_input" in metadata or bool(metadata.get("reasons"))
    param = beginning(as_line(error.get("param")), scrub)
    return Objection(beginning(message or body, scrub), code, param), flagged


def beginning(value: Any, scrub: Callable[[str], str]) -> str:
    """Show the beginning of a value in one line, without keys."""
    text = value[: _SOUGHT * 4].decode("utf-8", "replace") if isinstance(value, bytes) else value
    text = text if isinstance(text, str) else spelled(text)
    if len(text) > _SOUGHT:
        # The last word, which is cut, may be the beginning of a key.
        text = (text[:_SOUGHT].rsplit(None, 1) or [""])[0]
    text = scrub(whole(" ".join(text.split())))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def spelled(value: Any) -> str:
    """Write a value as JSON, or in words if it nests too deeply."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "JSON that nests too deeply"


def as_line(value: Any) -> str:
    """Return a name or a number as one line; "" for another value."""
    return whole(" ".join(str(value).split())) if isinstance(value, str | int) else ""


def whole(text: str) -> str:
    """Replace lone surrogates, which JSON can spell but no file can hold."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
