"""Answering from a cassette, so that a test or a review needs no judge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from judge_eval.backends.base import Identity
from judge_eval.backends.tape import cassette
from judge_eval.errors import MissError, RefusedError
from judge_eval.wire import Completion, Request


class Replay:
    """The backend whose answers a cassette holds. It asks nobody.

    Args:
        path: The cassette; read at the first use.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @cached_property
    def _tape(self) -> cassette.Tape:
        return cassette.read(self.path)

    @property
    def identity(self) -> Identity | None:
        """Who answered when it was recorded.

        Raises:
            ConfigError: There is no such file.
            DataError: The file is not a cassette.
        """
        return self._tape.identity

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer what is recorded, in the order of the requests."""
        answers = [self._find(request) for request in requests]
        return [None if isinstance(answer, RefusedError) else answer for answer in answers]

    async def complete(self, request: Request) -> Completion:
        """Answer what is recorded.

        Raises:
            MissError: It is not; the message names trace and chunks.
            RefusedError: The server had declined this request.
        """
        answer = self._find(request)
        if answer is None:
            advice = f"the request is new or was changed: record it with --record {self.path}"
            raise MissError(str(self.path), request.trace_id, request.chunk_ids, advice)
        if isinstance(answer, RefusedError):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Do nothing: nothing is held open."""

    def _find(self, request: Request) -> Completion | RefusedError | None:
        row = self._tape.rows.get(request.digest.hex())
        return None if row is None else cassette.answer_in(row)
