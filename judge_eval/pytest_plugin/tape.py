"""Replaying a test's cassette, with advice on how to record what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judge_eval.backends.base import Identity
from judge_eval.backends.stack import Options, create_backend
from judge_eval.backends.tape.replay import Replay
from judge_eval.errors import ConfigError, MissError
from judge_eval.wire import Completion, Request


class Cassette:
    """A cassette that need not be there yet: what it lacks is an error that says how to record it.

    Args:
        path: The cassette.
        shown: How to call it in messages.
        command: What records it.
    """

    def __init__(self, path: Path, shown: str, command: str) -> None:
        self._replay = Replay(path) if path.exists() else None
        self._shown, self._command = shown, command

    @property
    def identity(self) -> Identity | None:
        """Who answered when it was recorded; None where nothing was recorded.

        Raises:
            DataError: The file is not a cassette.
        """
        return self._replay.identity if self._replay else None

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer what is recorded, in the order of the requests."""
        return self._replay.peek(requests) if self._replay else [None] * len(requests)

    async def complete(self, request: Request) -> Completion:
        """Answer what is recorded.

        Raises:
            MissError: It is not; the message names trace and chunks, and the command that records it.
            RefusedError: The server had declined this request.
        """
        if self._replay is not None:
            try:
                return await self._replay.complete(request)
            except MissError:
                advice = f"the request is new or was changed, record it: {self._command}"
                raise MissError(self._shown, request.trace_id, request.chunk_ids, advice) from None
        where = f"{self._shown} (there is no such cassette)"
        raise MissError(where, request.trace_id, request.chunk_ids, f"record it: {self._command}")

    async def aclose(self) -> None:
        """Do nothing: nothing is held open."""


def same_judge(tape: Cassette, model: str, options: Options, command: str) -> None:
    """See that a cassette holds the verdicts of the judge that is named.

    Addresses may differ: a cassette is recorded on one machine and replayed on others.

    Raises:
        ConfigError: It holds another judge's.
    """
    recorded = tape.identity
    if recorded is None:
        return
    named = create_backend(model, options).identity
    if named is not None and (named.provider, named.model, named.params) != (
        recorded.provider,
        recorded.model,
        recorded.params,
    ):
        raise ConfigError(
            f"the cassette holds the verdicts of {_who(recorded)}, and this test names {_who(named)}; "
            f"delete it and record it again: {command}"
        )


def _who(identity: Identity) -> str:
    params = ", ".join(f"{name}={value}" for name, value in identity.params)
    return f"{identity.provider}/{identity.model}" + (f" ({params})" if params else "")
