"""How a chat server's reply is read: a completion, or the error it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from judge_eval.backends.chat.failures import as_line, beginning, raise_failure, spelled, whole
from judge_eval.backends.chat.secrets import Scrubber
from judge_eval.errors import TransientError
from judge_eval.foreign import read_json
from judge_eval.wire import MOST_TOKENS, Completion, Finish, TokenLogprob, Usage

_FINISHES: Mapping[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filter",
    "refusal": "refusal",
}
_LOWEST = 9999.0
"""How OpenAI writes a logarithm of minus infinity, without its sign."""
_LONGEST = 300  # characters of a model's name
_STATUS = re.compile(r"[45][0-9]{2}")


def read_completion(
    content: bytes, dropped: tuple[str, ...], headers: Mapping[str, str], place: str, scrub: Scrubber
) -> Completion:
    """Read the body of an HTTP 200.

    Args:
        content: The body.
        dropped: What was left out of the request, for the record.
        headers: The reply's headers.
        place: The server's address, for messages.
        scrub: What keeps keys out of them, and of the completion.

    Raises:
        TransientError: The body is no completion, or stands for an error that may pass.
        RefusedError: The body says that this request was declined.
        FatalCallError: The body says that no request can succeed.
        Declined: The body objects to the form of the request.
    """

    def odd(what: str) -> TransientError:
        return TransientError(f"HTTP 200 from {place} {what}: {beginning(content, scrub)}", kind="body")

    try:
        body = read_json(content)
    except ValueError:
        raise odd("with a body that is not JSON") from None
    if not isinstance(body, dict):
        raise odd("with JSON that is no object")
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    failure = body.get("error") or (choice.get("error") if isinstance(choice, dict) else None)
    if failure:
        raise_failure(status_of(failure), {"error": failure}, headers, place, scrub)
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise odd("without a choice")
    text = _text(message.get("content"))
    finish: Finish = _FINISHES.get(as_line(choice.get("finish_reason")), "stop")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and finish == "stop":
        finish, text = "refusal", text or whole(refusal)
    clean = scrub.reply(text)
    return Completion(
        text=clean,
        finish=finish,
        usage=_usage(body.get("usage")),
        model=model_of(body, scrub),
        dropped=dropped,
        # A text that held a key is no longer what its tokens spell.
        logprobs=_logprobs(choice.get("logprobs")) if choice.get("logprobs") and clean == text else (),
    )


def model_of(body: Mapping[str, Any], scrub: Scrubber) -> str:
    """Read the name of the model that answered."""
    return scrub.reply(as_line(body.get("model")))[:_LONGEST]


def status_of(failure: Any) -> int:
    """Find the HTTP status that an error inside a 200 stands for; one that says nothing may pass."""
    code = failure.get("code") if isinstance(failure, dict) else None
    if isinstance(code, str) and _STATUS.fullmatch(code):
        code = int(code)
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    words = spelled(failure)[:2000]
    if "invalid_request" in words or "content_filter" in words:
        return 400
    return 429 if "rate_limit" in words else 502


def _text(content: Any) -> str:
    """Join the text of a message's content; thoughts among its parts are not text."""
    if isinstance(content, str):
        return whole(content)
    if isinstance(content, list):
        parts = [
            part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"
        ]
        return whole("".join(part for part in parts if isinstance(part, str)))
    return ""


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    return Usage(
        count_of(usage, "prompt_tokens"),
        count_of(usage, "completion_tokens"),
        count_of(usage.get("prompt_tokens_details"), "cached_tokens"),
        count_of(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def count_of(record: Any, name: str) -> int:
    """Read a number of tokens; 0 where there is none."""
    value = record.get(name) if isinstance(record, dict) else None
    return value if isinstance(value, int) and 0 <= value < MOST_TOKENS else 0


def _logprobs(logprobs: Any) -> tuple[TokenLogprob, ...]:
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    tokens_read = []
    for entry in tokens if isinstance(tokens, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
            return ()
        others = entry.get("top_logprobs")
        top = tuple(
            (whole(other["token"]), _finite(other.get("logprob")))
            for other in (others if isinstance(others, list) else ())
            if isinstance(other, dict) and isinstance(other.get("token"), str)
        )
        tokens_read.append(TokenLogprob(whole(entry["token"]), _finite(entry.get("logprob")), top))
    return tuple(tokens_read)


def _finite(value: Any) -> float:
    """Read a logarithm; some servers write -Infinity where OpenAI writes -9999."""
    if isinstance(value, int | float) and abs(value) <= _LOWEST:
        return float(value)
    return -_LOWEST
