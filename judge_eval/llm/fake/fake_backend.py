"""The fake judge: a backend that is a function, a table, or a named rule."""

import asyncio
import inspect
import json
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Final, Self, TypeAlias

from judge_eval.errors import CallError, ConfigError, TransientError, UnknownNameError, Why, advise
from judge_eval.llm.backend import Identity
from judge_eval.llm.fake import claim_rules, rules
from judge_eval.registry import Provider
from judge_eval.settings import check_ranges
from judge_eval.wire import Completion, DecisionAnswer, Request, Usage

_MALFORMED: Final = (
    "I looked at the passage and I think it might help, but I am not sure.",
    '{"evidence": "", "reason": "cut short", "instruction_in_chunk": false, "verdict": "maybe"}',
    '{"evidence": "", "reason": "no verdict at all"}',
    "[1, 2, 3]",
    "",
)


def refused(request: Request) -> Completion:
    """Decline: with a completion without text, or an answer to every question."""
    if request.questionnaire is None:
        return Completion("", "refusal")
    return _unanswered(request, "refused", "declined")


def malformed(request: Request) -> str | Completion:
    """Write one of several unreadable replies."""
    if request.questionnaire is not None:
        return _unanswered(request, "unparsable", "no probability")
    return _MALFORMED[request.digest[0] % len(_MALFORMED)]


class Flaky:
    """Overlap with faults drawn from the request, so that a run fails the same way every time."""

    def __init__(
        self, *, seed: int = 0, transient: float = 0.1, malformed: float = 0.05, truncated: float = 0.05
    ) -> None:
        shares = (transient, malformed, truncated)
        if not (all(0 <= part <= 1 for part in shares) and sum(shares) <= 1 + 1e-9):
            raise ConfigError(f"the shares of faults must be from 0 to 1 and at most 1 together, not {shares}")
        self._seed, self._transient, self._malformed, self._truncated = seed, *shares
        self._failed: dict[bytes, int] = {}  # failed attempts of requests that have not succeeded yet

    def __call__(self, request: Request) -> str | Completion | CallError:
        """Answer, or fail as drawn for this attempt at this request."""
        attempt = self._failed.pop(request.digest, 0)
        drawn = rules.share(request, self._seed, attempt)
        if drawn < self._transient:
            self._failed[request.digest] = attempt + 1
            return _fault(int(drawn * 1e9))
        if drawn < self._transient + self._malformed:
            return malformed(request)
        answer = claim_rules.answer_by(request, rules.by_overlap)
        if isinstance(answer, str) and drawn < self._transient + self._malformed + self._truncated:
            return Completion(answer[: len(answer) // 2], "length")
        return answer


def _unanswered(request: Request, why: Why, detail: str) -> Completion:
    return Completion("", answers=(DecisionAnswer((), why, detail),) * (len(request.claims) or len(request.passages)))


def _fault(draw: int) -> CallError:
    faults = (
        TransientError("fake: too many requests", kind="rate_limit", retry_after=0.0, sent=False),
        TransientError("fake: the server is overloaded", kind="server"),
        TransientError("fake: the connection was reset", kind="connection"),
    )
    return faults[draw % len(faults)]


Answer: TypeAlias = str | Completion | Exception
"""A reply's text, a whole completion, or an error to raise."""
Script: TypeAlias = Callable[[Request], Answer | Awaitable[Answer]]

_REQUIRED: Final = object()


class FakeBackend:
    """A backend that is a function.

    Args:
        function: Called with each request; returns the reply's text, a `Completion`, or an exception to
            raise. It may be `async`.
        identity: Who answers. None, the default, means that no answer is ever stored.
        latency: Seconds to wait before each answer; >= 0.
        keep: How many of the last requests stay in `requests`; None for all of them.

    Attributes:
        identity: Who answers: the rule with its version, or None for a script.
        calls: How many requests came.
        requests: The requests that came, oldest first.

    Raises:
        ConfigError: `latency` or `keep` is out of its range.

    Example:
        >>> backend = FakeBackend(lambda request: '{"evidence": "", "reason": "no", '
        ...                                       '"instruction_in_chunk": false, "verdict": false}')
    """

    def __init__(
        self, function: Script, *, identity: Identity | None = None, latency: float = 0.0, keep: int | None = None
    ) -> None:
        check_ranges({"latency": latency, "keep": keep})
        self._function, self.identity, self._latency = function, identity, latency
        self.calls = 0
        self.requests: deque[Request] = deque(maxlen=keep)
        self._fixed_size: dict[tuple[bytes, int, int, int, bool], int] = {}

    @classmethod
    def table(cls, answers: Mapping[Hashable, Any], *, default: Any = _REQUIRED, latency: float = 0.0) -> Self:
        """Answer from a table of chunks.

        Args:
            answers: By chunk id, or by `(trace_id, chunk_id)`, which goes first. A value is a grade or a bool (a bool
                is the lowest or highest grade of the scale; an integer off the scale is written down as it is), a
                mapping of reply fields (`grade` or `verdict`, `evidence`, `reason`, `instruction_in_chunk`, and
                `confidence`, the probability that it is relevant, for requests that ask for probabilities; in place of
                a grade `claims`, by number what it does to each claim: `full`, `partial` or `contradicts`, alone or
                with a quote), or, for the whole request, a text, a `Completion` or an exception to raise.
            default: The value for a chunk that is not in the table.
            latency: Seconds to wait before each answer.

        Returns:
            A backend; asking it for a chunk that is not in the table, without a default, raises
            `ConfigError`: a hole in a test's table must not pass for a failed call. So does a table that says
            two things of chunks with one text, which are asked about once.
        """
        return cls(partial(_from_table, dict(answers), default), latency=latency)

    async def complete(self, request: Request) -> Completion:
        """Answer one request.

        Raises:
            Exception: Whatever the function raised or returned to be raised.
            ConfigError: The function returned something else than an `Answer`.
        """
        self.calls += 1
        if self.requests.maxlen != 0:
            self.requests.append(request)
        if self._latency:
            await asyncio.sleep(self._latency)
        answer: Any = self._function(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str):
            return Completion(answer, usage=self._usage(request, answer), model=self._model)
        if isinstance(answer, Completion):
            if self.identity is None:  # a script's completion stays as it is
                return answer
            return replace(answer, usage=self._usage(request, answer.text), model=self._model)
        if isinstance(answer, Exception):
            raise answer
        raise ConfigError(f"a fake judge returned {type(answer).__name__}; return a str, a Completion or an exception")

    async def aclose(self) -> None:
        """Do nothing: there is nothing to give back."""

    @property
    def calls_nobody(self) -> bool:
        """Whether it is a rule; a script may stand for a server."""
        return self.identity is not None and self.identity.provider == "fake"

    @property
    def _model(self) -> str:
        return self.identity.model if self.identity else "fake"

    def _usage(self, request: Request, text: str) -> Usage:
        """Estimate tokens as a quarter of the characters; what similar requests share is measured once."""
        texts = [request.history, request.query, request.reference or "", request.answer or "", *request.claims]
        texts += [text for passage in request.passages for text in (passage.text, passage.title or "")]
        varying = sum(map(len, texts)) + sum(len(message.content) for message in request.follow_up)
        titled = sum(passage.title is not None for passage in request.passages)
        kind = (request.form.digest, len(request.passages), titled, len(request.claims), bool(request.history))
        # The length of a text in JSON depends on its characters, so questions are measured one by one.
        if request.questionnaire is not None or kind not in self._fixed_size:
            rendered = sum(len(message.content) for message in request.messages)
            self._fixed_size[kind] = max(0, rendered - varying)
        return Usage((varying + self._fixed_size[kind]) // 4 + 1, len(text) // 4 + 1 if text else 0)


def _from_table(answers: Mapping[Hashable, Any], default: Any, request: Request) -> Answer:
    values = []
    for chunk_ids in request.chunks_by_passage() if request.chunk_ids else ():
        value = _one_answer(answers, default, request.trace_id, chunk_ids)
        if isinstance(value, str | Completion | Exception):
            return value
        values.append(value)
    if request.claims or not request.passages:
        return claim_rules.from_values(request, values)
    return rules.reply(request, map(_opinion, values))


def _one_answer(answers: Mapping[Hashable, Any], default: Any, trace_id: str, chunk_ids: Sequence[str]) -> Any:
    """Return the table's value of a text; all chunks with it are asked about once."""
    values = [answers.get((trace_id, each), answers.get(each, default)) for each in chunk_ids]
    for chunk_id, value in zip(chunk_ids, values, strict=True):
        if value is _REQUIRED:
            raise ConfigError(
                f"the fake judge's table has no answer for chunk {chunk_id!r} of trace {trace_id!r}; "
                "add one or give a default"
            )
        if value is not values[0] and value != values[0]:
            raise ConfigError(
                f"the fake judge's table says {values[0]!r} of chunk {chunk_ids[0]!r} and {value!r} of chunk "
                f"{chunk_id!r}, which hold one text in trace {trace_id!r} and are asked about once; say the "
                "same of both"
            )
    return values[0]


def _opinion(value: Any) -> rules.Opinion:
    if not isinstance(value, Mapping):
        return rules.Opinion(value, "", "From the table.")
    fields = dict(value)
    grade = fields.pop("grade", None) if "grade" in fields else fields.pop("verdict", None)
    steered = fields.pop("instruction_in_chunk", False)
    try:
        return rules.Opinion(grade, steered=steered, **fields)
    except TypeError:
        known = ("grade", "verdict", "evidence", "reason", "instruction_in_chunk", "confidence")
        unknown = next(name for name in fields if name not in known)
        raise ConfigError(f"no reply field {unknown!r}; {advise(unknown, known)}") from None


def _ruled(rule: rules.Rule) -> Callable[..., Script]:
    @wraps(rule)
    def make(**chosen: Any) -> Script:
        return lambda request: claim_rules.answer_by(request, partial(rule, **chosen))

    return make


_SCRIPTS: Final[Mapping[str, tuple[int, Callable[..., Script]]]] = {
    # The number is the rule's version: raise it with any change to what the rule answers.
    "overlap": (1, _ruled(rules.by_overlap)),
    "inverted": (1, _ruled(rules.inverted)),
    "obedient": (1, _ruled(rules.obedient)),
    "always": (1, _ruled(rules.always)),
    "never": (1, _ruled(rules.never)),
    "hash": (1, _ruled(rules.by_hash)),
    "biased": (1, _ruled(rules.biased)),
    "malformed": (1, lambda: malformed),
    "refused": (1, lambda: refused),
    "flaky": (1, Flaky),
}
RULES: Final = tuple(_SCRIPTS)
"""The names that `create` knows."""
_OF_SERVERS = ("base_url", "timeout", "concurrency", "max_reply", "unsupported", "key_command")
"""Options that mean nothing to a fake judge, which makes no calls."""


def _create(model: str, /, *, params: Mapping[str, Any] | None = None, **options: Any) -> FakeBackend:
    """Make a fake judge that answers by a named rule."""
    # `overlap` counts words shared with the reference; `inverted` says the opposite; `obedient` follows
    # instructions found in chunks; `always` and `never` find everything or nothing relevant; `hash` draws evenly,
    # for tests of scale; `biased` errs at stated rates that move with a passage's features; `malformed` never
    # writes a readable verdict; `refused` declines; `flaky` answers as `overlap`, after faults. Options are
    # `latency` in seconds (>= 0) and `keep` (see `FakeBackend`; 0 here unless told); for `hash`, `biased` and
    # `flaky` also `seed`; for `biased` those of its rule; for `flaky` the shares `transient`, `malformed` and
    # `truncated` of the requests, each from 0 to 1 and at most 1 together. The same request meets the same fault in
    # every run, in any order; another attempt at it draws anew.
    if model not in RULES:
        raise UnknownNameError("fake judge", model, RULES)
    options = {name: value for name, value in options.items() if name not in _OF_SERVERS} | dict(params or {})
    general = {"latency": options.pop("latency", 0.0), "keep": options.pop("keep", 0)}
    version, script = _SCRIPTS[model]
    parameters = inspect.signature(script).parameters.values()
    defaults = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    for name in options:
        if name not in defaults:
            known = [*defaults, *general]
            raise ConfigError(f"fake/{model} takes no option {name!r}; {advise(name, known)}")
    for name, value in {**options, "latency": general["latency"]}.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"fake/{model}: {name} must be a number, not {value!r}")
    chosen = {**defaults, **options}
    shown = tuple(sorted((name, json.dumps(value)) for name, value in chosen.items()))
    identity = Identity("fake", f"{model}-{version}", params=shown)
    return FakeBackend(script(**chosen), identity=identity, **general)


create = Provider(_create, takes_logprobs=False)
"""Makes the `fake` backend."""
