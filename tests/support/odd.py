"""Replies as no sane server writes them: valid ones with something wrong in them, and any bytes."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from typing import Any

from judge_eval.judges.parsing import Problem, evidence_found, read_many, read_one
from judge_eval.judges.token_confidence import read_confidence
from judge_eval.schema import BINARY, GRADED
from judge_eval.wire import Completion, Passage
from tests.support.canned import REPLIES
from tests.support.replies import entry, fields, graded

KEY = "sk-odd-Zq8Vt3LmX2pR7wK9bN4cJ6hG1fD5sA0eYuTi"
"""The key in use, which odd replies repeat in whole and in part."""
# fmt: off
STATUSES = (
    200, 200, 200, 200, 201, 204, 299, 300, 302, 304, 307, 400, 400, 400, 401, 402, 403, 404, 405, 408, 409,
    410,
    413, 418, 422, 425, 429, 451, 500, 500, 502, 503, 529, 599,
)
TIMES = (
    "", "-1", "nan", "inf", "1e999", "9" * 400, "9" * 90_000, "1_0", "²", "Wed, 99 Foo 2020 99:99:99 XYZ",
    "Fri, 31 Dec 9999 23:59:59 -9999", "Mon, 01 Jan 0001 00:00:00 +2359", "6m0s", "1" * 99 + "d", "0x10",
    "\t",
    "1.5", "1 s", "ÿ", "Sun, 06 Nov 1994 08:49:37 GMT", "0", "1e-320", "250ms",
)
PLACES = (
    "", "/", "//", "https://elsewhere.example/v1", "http://[::1", "http://user:pw@evil.example:99999/",
    f"http://evil.example/{KEY}", "\x7f", "javascript:alert(1)", "ÿÿ", "http://[::1]:80/?k=" + KEY,
)
# fmt: on
_LIMITS = [f"x-ratelimit-{kind}-{of}" for kind in ("limit", "remaining", "reset") for of in ("requests", "tokens")]
_TIMED = ("retry-after", "retry-after-ms", *_LIMITS)


def full_count(small: int, share: float = 1.0) -> int:
    """Return how many cases to make: `small`, or that share of `JUDGE_EVAL_FUZZ` where it is set."""
    return max(small, int(int(os.environ.get("JUDGE_EVAL_FUZZ", "0")) * share))


def nested(depth: int, inner: Any = None) -> Any:
    """Put a value into so many lists."""
    for _ in range(depth):
        inner = [inner]
    return inner


def _odd_value(rng: random.Random) -> Any:
    part = rng.randrange(len(KEY) - 8)
    # fmt: off
    return rng.choice([
        None, True, False, 0, -1, 5, 1e308, -1e-320, 10**18, 2**63, 10**400, -(10**400), 10**4299,
        float("nan"), float("inf"), -float("inf"), "", "x", "²", "9" * 5000, "429", "500", "\ud800",
        "a\udfffb",
        "\x00\x1b[31m\x07\u202e", "x" * 70_000, " " * 400 + KEY, "w " * 145 + KEY, KEY, f"Bearer {KEY}",
        KEY[part:part + 8 + rng.randrange(20)], [], {}, [None], [[]], [{}], {"": None}, {"a": {"b": []}},
        [1, "a"],
        [{"loc": None}], [{"loc": 5, "msg": 7, "type": []}], [{"loc": ["body", None, ["x"]],
        "msg": {"a": KEY}}],
        {"metadata": "x"}, {"metadata": {"raw": [KEY]}}, {"message": ["x"], "code": {}},
        {"error": {"error": []}},
        "content_filter", "insufficient_quota", "model_not_found", "invalid_request", "rate_limit",
        "unsupported",
        "response_format is not supported", "Unsupported parameter: 'temperature'", "logprobs", nested(10),
        nested(150), nested(190), nested(250), {"top_logprobs": 5}, {"content": 5},
        {"content": [{"token": "x", "top_logprobs": 5}]},
        {"content": [{"token": " true", "logprob": 10**400, "top_logprobs": [{"token": "true",
        "logprob": 1e308}]}]},
    ])
    # fmt: on


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


def mutated(value: Any, rng: random.Random) -> Any:
    """Change one to three places of a JSON value: replaced, left out, wrapped, doubled."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(list(_places(value)))
        if not path:
            if rng.random() < 0.2:
                value = rng.choice([_odd_value(rng), [value], {"error": value}])
            continue
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        last, kind = path[-1], rng.random()
        if kind < 0.7:
            holder[last] = _odd_value(rng)
        elif kind < 0.85:
            del holder[last]
        elif isinstance(holder, dict):
            holder[rng.choice(("error", "detail", "logprobs", "refusal", "usage", "choices"))] = holder[last]
        else:
            holder.append(holder[last])
        if not isinstance(value, dict | list):
            break
    return value


def odd_spelling(value: Any, rng: random.Random) -> bytes:
    """Write JSON in some spelling, now and then with a wrong one in it."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    data = text.encode("utf-8", "surrogatepass")
    kind = rng.random()
    if kind < 0.80:
        return data
    if kind < 0.84:
        return data[: rng.randrange(len(data) + 1)]
    if kind < 0.88:
        at = rng.randrange(len(data) + 1)
        return data[:at] + rng.randbytes(rng.randrange(1, 6)) + data[at:]
    if kind < 0.90:
        return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig")), "surrogatepass")
    if kind < 0.94:
        return data.replace(b"0", rng.choice((b"1e400", b"NaN", b"-Infinity", b"1" * 5000, b"00", b"0.1e-9999")))
    if kind < 0.97:
        return data + rng.choice((b"}", b"\n" + data, b"\x00", b" " * 5000))
    return data.replace(b'"', rng.choice((b"'", b"", b'"\\ud800')), 1)


VALID = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(REPLIES.glob("*.json"))]
"""The recorded replies, right and wrong, that are changed."""
_CONTENTS = (
    lambda: fields(), lambda: graded(2), lambda: {"verdicts": [entry(1), entry(2, False), entry(3)]},
)  # fmt: skip


def _content(rng: random.Random) -> Any:
    """Write what a judge might: a changed verdict in a text."""
    text = odd_spelling(mutated(rng.choice(_CONTENTS)(), rng), rng).decode("utf-8", "replace")
    kind = rng.random()
    if kind < 0.1:
        text = "<think>" * rng.randrange(1, 400) + text
    elif kind < 0.2:
        text = '{"a":' * rng.choice((3, 300, 900, 2000)) + text
    elif kind < 0.22:
        text = "[" * 200_000 + text
    return text


def odd_body(rng: random.Random) -> bytes:
    """Make a body: mostly a recorded one, changed."""
    kind = rng.random()
    if kind < 0.004:
        return rng.choice((b"[" * 200_000, b'{"a":' * 100_000, b"[" * 200_000 + b"]" * 200_000))
    if kind < 0.05:
        return rng.choice(
            (b"", b"\x00" * 99, rng.randbytes(rng.randrange(300)), b"null", b"1e400", b'"x"', b"[]", b"<html>")
        )
    body = rng.choice(VALID)["body"]
    if isinstance(body, str):
        return body.encode()
    if kind < 0.3 and isinstance(body.get("choices"), list) and body["choices"]:
        body = json.loads(json.dumps(body))
        first = body["choices"][0]
        if isinstance(first, dict) and isinstance(first.get("message"), dict):
            first["message"]["content"] = _content(rng)
    return odd_spelling(mutated(body, rng), rng)


def odd_headers(rng: random.Random) -> dict[str, str]:
    """Make headers, a few of them about times and places."""
    headers = {name: rng.choice(TIMES) for name in rng.sample(_TIMED, rng.randrange(4))}
    if rng.random() < 0.3:
        headers["location"] = rng.choice(PLACES)
    return headers


def odd_reply(rng: random.Random) -> tuple[int, dict[str, str], bytes]:
    """Make a status, headers and a body."""
    return rng.choice(STATUSES), odd_headers(rng), odd_body(rng)


_PARTS = [KEY[at : at + 8] for at in range(len(KEY) - 7)]


def holds_key(text: str) -> bool:
    """Tell whether 8 characters of the key stand in a text."""
    return any(part in text for part in _PARTS)


def use(completion: Completion) -> None:
    """Do with a completion what is done with it: store it, and read verdicts in every way."""
    assert Completion.decode(completion.encode()) == completion
    for scale in (BINARY, GRADED):
        read = read_one(completion, scale)
        many = read_many(completion, scale, 3)
        for reading in [read, *(many.values() if isinstance(many, dict) else [many])]:
            if isinstance(reading, Problem):
                reading.detail.encode()
                continue
            (reading.evidence + reading.reason).encode()
            evidence_found(reading.evidence, Passage("San Marzano tomatoes."))
            read_confidence(completion, scale, reading.grade)
            read_confidence(completion, scale, reading.grade, 1)
