"""Requests sealed at the moment of sending: their fences get marks that follow from a secret."""

from __future__ import annotations

from collections.abc import Callable

from judge_eval.backends.base import Backend, Wrapper
from judge_eval.wire import Completion, Request, sealed


class Sealing(Wrapper):
    """A backend whose requests carry marks that no chunk's author can know.

    Everything around it (cache, recording, spans) sees the marks that follow from the texts alone, so keys
    and recordings do not depend on the secret.

    Args:
        inner: Whom to ask.
        secret: Returns the secret; called when the first request is sent.
    """

    def __init__(self, inner: Backend, secret: Callable[[], bytes]) -> None:
        super().__init__(inner)
        self._secret = secret

    async def complete(self, request: Request) -> Completion:
        """Ask the backend inside, with a sealed request.

        Raises:
            CallError: This call brought no completion; others may.
            FatalCallError: No call can succeed.
        """
        return await self.inner.complete(sealed(request, self._secret()))
