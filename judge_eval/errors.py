"""Every error this package raises, in one tree.

    JudgeEvalError
    ├── ConfigError              an option, setting or name cannot be used
    │   └── UnknownNameError     a name that does not exist (advises the nearest ones)
    ├── DataError                a record or file cannot be read (names file, line, field)
    ├── PromptError              a prompt file is unusable or does not fit the trace
    ├── MetricError              a metric is undefined for this data
    │   └── MissingVerdictError  a failed verdict stands where a grade is needed
    ├── RunError                 a run folder cannot be read, written or resumed
    │   ├── FullDiskError        there is no room left on the disk
    │   └── OtherCutsError       runs cut the same documents differently
    ├── StoreError               the cache cannot be read or written
    ├── MissError                an answer is not at hand and may not be asked for (offline, replay)
    ├── CallError                one call to the judge brought no completion
    │   ├── TransientError       worth another try: rate limit, overload, reset, timeout
    │   ├── RefusedError         the server declined this very request
    │   │   ├── FilteredError         its content filter did
    │   │   └── RequestTooLargeError  it is larger than the server accepts
    │   └── BudgetError          the budget does not allow the call
    └── FatalCallError           no call can succeed: key, model or quota (ends the run)
        └── DeniedError              the server says so; after an answer it may mean one request alone

Every message says what was wrong, where, and what to do; `spelling.option` names options. Nothing here carries a key
or a token.
"""

from __future__ import annotations

import copyreg
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Why = Literal[
    "unreachable", "refused", "unparsable", "truncated", "budget", "unsupported", "unjudged", "empty",
    "unanswerable",
]  # fmt: skip
"""Why there is no verdict; the closed vocabulary of `NoVerdict.why`.

`unjudged` is said of chunks on which verdicts that were imported are silent, and of those of a reference
that makes no claim, where judging goes by claims; `empty` of chunks without text; `unanswerable` of the chunks of a
question that nothing answers, if the judge needs an answer to hold them against.
"""
NO_FAILURE: Final = "unanswerable"
"""The reason that is counted nowhere as a failure: nothing is missing."""
NEVER_ASKED: Final = frozenset({"empty", NO_FAILURE})
"""Reasons of chunks that nobody is asked about: asking again brings no verdict."""
NO_CREDIT: Final = "credit"
"""The cause of a `FatalCallError` where an account has no credit left."""
DISTRIBUTION = "context-judge"
"""What pip calls this package."""
_HERE = str(Path(__file__).parent)
_PART = 8  # characters of a secret in a row that are masked where they stand alone


class JudgeEvalError(Exception):
    """The root of the tree; catching it catches everything this package raises on purpose."""

    run_folder: str | None = None
    """The run that the error ended, where there is one; it can be resumed."""

    def message_for(self, called: Callable[[str], str]) -> str:  # noqa: ARG002  of those with a place
        """Return the message with what `called` makes of the name of the file that it is about, if it is about one."""
        return str(self)

    def _render_traceback_(self) -> list[str]:
        """Show a notebook the call and what is wrong; the way through this package helps nobody."""
        return [*_called_from(self), f"{type(self).__name__}: {self}"]


def _called_from(error: BaseException) -> Iterator[str]:
    import linecache
    import traceback

    before = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.startswith(_HERE):
            break
        before = frame, number
    if before is None:
        return
    frame, number = before
    path, function = frame.f_code.co_filename, frame.f_code.co_name
    of_cell = "ipykernel_" in path or path.startswith("<ipython-input")
    yield f"line {number} of the cell" if of_cell else f'File "{path}", line {number}, in {function}'
    if code := linecache.getline(path, number, frame.f_globals).strip():
        yield f"    {code}"


def brief(verb: Callable[P, T]) -> Callable[P, T]:
    """Let a verb raise errors about what it was given without the way they came: the message says it all.

    A notebook shows Ctrl-C in one line, below what the progress says of the run.
    """

    @wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return verb(*args, **kwargs)
        except (ConfigError, DataError) as error:
            raise error.with_traceback(None) from error.__cause__
        except KeyboardInterrupt as interrupt:
            interrupt._render_traceback_ = lambda: ["KeyboardInterrupt"]  # type: ignore[attr-defined]
            raise

    return call


class ConfigError(JudgeEvalError):
    """An option, an environment variable, a configuration file or an argument cannot be used."""


def needs_extra(sentence: str, extra: str) -> ConfigError:
    """Make the error for a missing package; `sentence` says what needs it, and `extra` brings it."""
    return ConfigError(f"{sentence}: pip install '{DISTRIBUTION}[{extra}]', or in a clone pip install '.[{extra}]'")


class UnknownNameError(ConfigError):
    """A name that does not exist.

    Args:
        kind: What was looked up, such as `"prompt"`.
        name: The name as given.
        known: The names that exist; the nearest are offered in the message.
        advice: What to do, in place of the nearest names.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], advice: str | None = None) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        super().__init__(f"no {kind} {name!r}; {advice or advise(name, self.known)}")


class _Placed:
    """What errors have that are about a place in a file."""

    def _place(self, message: str, file: str | None, line: int | None, field: str | None = None) -> str:
        self.message, self.file, self.line, self.field = message, file, line, field
        return self._placed(file)

    def _placed(self, file: str | None) -> str:
        """Put the place in front of the message: `file:line: field: message`."""
        where = ":".join(str(part) for part in (file, self.line) if part is not None)
        return ": ".join(part for part in (where, self.field, self.message) if part)

    def message_for(self, called: Callable[[str], str]) -> str:
        """Return the message with what `called` makes of the file's name in its place."""
        return self._placed(self.file and called(self.file))


class DataError(_Placed, JudgeEvalError):
    """A record cannot be read.

    Args:
        message: What is wrong and what to do.
        file: The file, or what else holds the record, such as `row 3` of a list.
        line: The line in it, counted from 1.
        field: The field, such as `chunks[2].text`.
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(self._place(message, file, line, field))

    def at(self, *, file: str | None = None, line: int | None = None, field: str | None = None) -> DataError:
        """Return the same fault at another place; what is None stays."""
        return DataError(self.message, file=file or self.file, line=line or self.line, field=field or self.field)


class PromptError(JudgeEvalError):
    """A prompt file is unusable, was changed after its release, or does not fit what it is given."""


class MetricError(JudgeEvalError):
    """A metric is undefined for this data, for instance `Recall@5` where no total is known."""


class MissingVerdictError(MetricError):
    """A failed verdict stands where a grade is needed, under `missing="error"`."""


class RunError(_Placed, JudgeEvalError):
    """A run folder cannot be read, written or resumed.

    Args:
        message: What is wrong and what to do.
        file: The file or the folder, where the message is about one.
        line: The line in it, counted from 1.
    """

    def __init__(self, message: str, *, file: str | PathLike[str] | None = None, line: int | None = None):
        super().__init__(self._place(message, None if file is None else str(file), line))


class OtherCutsError(RunError):
    """Runs cut the same documents differently, so that their chunks cannot be joined."""


class FullDiskError(RunError):
    """A run folder cannot be written, because the disk is full or the user's share of it is."""


class StoreError(JudgeEvalError):
    """The cache of verdicts cannot be read or written."""


class MissError(JudgeEvalError):
    """An answer is needed that is not at hand, where asking for it is not allowed. The run stops.

    Args:
        where: Where it was looked for, such as `"the cache"` or a cassette's path.
        trace_id: The trace it is needed for.
        chunk_ids: The chunks it is needed for.
        advice: What to do.
    """

    def __init__(self, where: str, trace_id: str, chunk_ids: Sequence[str], advice: str) -> None:
        self.where, self.trace_id, self.chunk_ids = where, trace_id, tuple(chunk_ids)
        chunks = ", ".join(repr(chunk) for chunk in self.chunk_ids) or "of no name"
        noun = "chunks" if len(self.chunk_ids) > 1 else "chunk"
        super().__init__(f"no answer in {where} for trace {trace_id!r}, {noun} {chunks}; {advice}")

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), str(self)), self.__dict__  # type: ignore[attr-defined]


class CallError(JudgeEvalError):
    """One call to the judge brought no completion.

    Args:
        detail: What happened, safe to show and to store.
        why: The matching `NoVerdict.why`.
    """

    why: Why = "unreachable"

    def __init__(self, detail: str, *, why: Why | None = None) -> None:
        self.detail = detail
        if why is not None:
            self.why = why
        super().__init__(detail)


class TransientError(CallError):
    """The call may succeed if it is made again.

    Args:
        detail: What happened.
        kind: What to count it as: `"rate_limit"`, `"server"`, `"loading"` (its model), `"connection"`, `"timeout"` or
            `"body"`.
        retry_after: Seconds the server asked to wait, where it did.
        sent: Whether the server may have done (and billed) the work.
    """

    def __init__(
        self,
        detail: str,
        *,
        kind: Literal["rate_limit", "server", "loading", "connection", "timeout", "body"] = "server",
        retry_after: float | None = None,
        sent: bool = True,
    ) -> None:
        self.kind, self.retry_after, self.sent = kind, retry_after, sent
        super().__init__(detail)


class RefusedError(CallError):
    """The server declined this very request: a content filter, a request too long, a bad argument.

    Args:
        detail: What happened.
        why: The matching `NoVerdict.why`.
        cause: What equal refusals have in common; "" if it is the request's content.
    """

    why: Why = "refused"

    def __init__(self, detail: str, *, why: Why | None = None, cause: str = "") -> None:
        self.cause = cause
        super().__init__(detail, why=why)


class FilteredError(RefusedError):
    """The server's content filter declined the request; a part of it may pass."""


class RequestTooLargeError(RefusedError):
    """The request is larger than the server accepts at once; a part of it may pass."""


class BudgetError(CallError):
    """The budget does not allow another call."""

    why: Why = "budget"


class FatalCallError(JudgeEvalError):
    """No call can succeed: a wrong key, an unknown model, an exhausted quota. The run stops at once.

    Args:
        message: What is wrong.
        cause: What equal answers of a server have in common.
    """

    def __init__(self, message: str = "", cause: str = "") -> None:
        self.cause = cause
        super().__init__(message)

    @property
    def needs_credit(self) -> bool:
        """Whether credit must be added, and nothing else is wrong."""
        return self.cause == NO_CREDIT


class DeniedError(FatalCallError):
    """The server says that no call can succeed; if it has answered others, it may mean this one alone."""


def mask(text: str, secrets: Iterable[str | None]) -> str:
    """Return a text with `***` in place of every secret, the longest first; no secret is None or empty.

    What holds 8 characters or more of a secret in a row holds a part of it, which is masked too.
    """
    known = sorted(filter(None, secrets), key=len, reverse=True)
    for secret in known:
        text = text.replace(secret, "***")
    for secret in known:
        text = _mask_parts(text, secret)
    return text


def _mask_parts(text: str, secret: str) -> str:
    """Put `***` in place of what is longest of each stretch that also stands in the secret."""
    masked = bytearray(len(text))
    for start in range(len(secret) - _PART + 1):
        part = secret[start : start + _PART]
        at = text.find(part)
        while at >= 0:
            masked[at : at + _PART] = b"\1" * _PART
            at = text.find(part, at + 1)
    if not any(masked):
        return text
    pieces = re.finditer(rb"\x00+|\x01+", bytes(masked))
    return "".join("***" if masked[piece.start()] else text[piece.start() : piece.end()] for piece in pieces)


def nearest(name: str, known: Sequence[str]) -> str:
    """List the three known names nearest to one, however far; very long names are left out."""
    short = [each for each in known if len(each) <= 200][:2000]
    return ", ".join(repr(hit) for hit in difflib.get_close_matches(name[:200], short, n=3, cutoff=0.0))


def advise(name: str, known: Sequence[str]) -> str:
    """Return a clause such as `did you mean 'support/binary'?`, or the whole list if no name is near."""
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    if not near:
        folded = {candidate.casefold(): candidate for candidate in known}
        near = [folded[hit] for hit in difflib.get_close_matches(name.casefold(), folded, n=2, cutoff=0.6)]
    if near:
        return "did you mean " + " or ".join(repr(candidate) for candidate in near) + "?"
    return "known: " + ", ".join(known) if known else "none are known"
