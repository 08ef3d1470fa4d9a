"""Writing a backend's answers to a cassette while they are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judge_eval.backends.base import Backend, Wrapper, peek
from judge_eval.backends.tape import cassette
from judge_eval.errors import RefusedError
from judge_eval.wire import Completion, Request


class Recording(Wrapper):
    """A backend that passes on another one's answers and writes each to a cassette as it comes.

    An answer replaces what the cassette held for its request; the rest of the cassette stays. Refusals
    of the server are recorded too, other failures are not. An answer of no use gives way to a later one
    that is accepted. Several processes may record into one file.

    Args:
        inner: Whose answers.
        path: The cassette; made at the first answer.
    """

    def __init__(self, inner: Backend, path: str | Path) -> None:
        super().__init__(inner)
        self.path = Path(path)
        self._written: dict[bytes, bool] = {}  # whether what was written is accepted, by request

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Pass on what the backend inside has at hand, and record it.

        Raises:
            ConfigError: The cassette cannot be written, or is another backend's.
        """
        completions = peek(self.inner, requests)
        self._record([(r, c) for r, c in zip(requests, completions, strict=True) if c is not None])
        return completions

    async def complete(self, request: Request) -> Completion:
        """Ask the backend inside, and record what it answers.

        Raises:
            ConfigError: The cassette cannot be written, or is another backend's.
            CallError: The call brought no completion.
            FatalCallError: No call can succeed.
        """
        try:
            completion = await self.inner.complete(request)
        except RefusedError as error:
            self._record([(request, error)])
            raise
        self._record([(request, completion)])
        return completion

    async def aclose(self) -> None:
        """Put the cassette into its lasting order, then close the backend inside."""
        try:
            if self._written:
                cassette.tidy(self.path)
        finally:
            await self.inner.aclose()

    def _record(self, answers: Sequence[tuple[Request, Completion | RefusedError]]) -> None:
        # Of equal requests the first answer is recorded: it is what the others were given too.
        new: dict[bytes, tuple[Request, Completion | RefusedError, bool]] = {}
        for request, answer in answers:
            if isinstance(answer, Completion) and not answer.whole:
                continue
            before = new[request.digest][2] if request.digest in new else self._written.get(request.digest)
            accepted = _is_accepted(request, answer)
            if before is None or (accepted and not before):
                new[request.digest] = (request, answer, accepted)
        if not new:
            return
        rows = [cassette.tape_row(request, answer) for request, answer, _ in new.values()]
        cassette.append(self.path, self.inner.identity, rows)
        self._written |= {digest: accepted for digest, (_, _, accepted) in new.items()}


def _is_accepted(request: Request, answer: Completion | RefusedError) -> bool:
    if isinstance(answer, RefusedError):
        return False
    return request.accepts is None or request.accepts(answer)
