"""A backend that answers nothing: it only says who would, or did."""

from __future__ import annotations

from typing import NoReturn

from judge_eval.backends.base import Identity
from judge_eval.errors import MissError
from judge_eval.wire import Request


class Nobody:
    """Stands where a backend belongs and nobody may be asked.

    Args:
        identity: Who would answer, or did.
        where: Where alone answers may come from.
        why: Why nobody may be asked.
    """

    def __init__(self, identity: Identity, where: str, why: str) -> None:
        self.identity: Identity | None = identity
        self._where, self._why = where, why

    async def complete(self, request: Request) -> NoReturn:
        """Never answer.

        Raises:
            MissError: Always.
        """
        raise MissError(self._where, request.trace_id, request.chunk_ids, self._why)

    async def aclose(self) -> None:
        """Nothing is open."""
