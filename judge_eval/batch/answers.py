"""Replies in files, found by the key that was their request's `custom_id`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judge_eval.backends.base import Backend, Wrapper
from judge_eval.backends.chat.failures import Declined
from judge_eval.backends.chat.openai import OpenAI
from judge_eval.backends.storing.cached import cache_key
from judge_eval.errors import CallError, FatalCallError, MissError, TransientError
from judge_eval.foreign import read_json
from judge_eval.wire import Completion, Reply, Request

NOTHING, FAILURE, SUCCESS = range(3)
"""What a line says of its request: the greater goes before the lesser."""


class Answers:
    """The replies of a batch, read from their files as they are asked for.

    Lines may stand in any order, twice, or not at all. A reply goes before an error, and of two replies
    to one request the first counts.

    Args:
        files: What the server wrote: one JSON object a line, with `custom_id`, `response` and `error`.
        reader: The backend that knows how its server's replies are read.
    """

    def __init__(self, files: Sequence[Path], reader: OpenAI) -> None:
        self._files, self._reader = list(files), reader
        self._index: dict[bytes, tuple[int, int, int]] = {}
        self.unreadable = 0
        """Lines that are no reply: torn off or foreign."""
        self.doubled = 0
        """Lines about a request that another line was about."""
        self.declined: Counter[str] = Counter()
        """The server's objections to the form of requests, in its words."""
        self.unanswered: Counter[str] = Counter()
        """Why requests that stand in the files have no answer."""
        for number, path in enumerate(self._files):
            with path.open("rb") as file:
                offset = 0
                for line in file:
                    self._note(line, number, offset)
                    offset += len(line)

    def __len__(self) -> int:
        return len(self._index)

    def find(self, key: bytes) -> Reply | None:
        """Return the completion for a key, the error that stands for good, or None where it must be asked."""
        entry = self._index.get(key)
        if entry is None:
            return None
        number, offset, _ = entry
        with self._files[number].open("rb") as file:
            file.seek(offset)
            record = read_json(file.readline())
        response, error = record.get("response"), record.get("error")
        try:
            if not isinstance(response, dict):
                code = error.get("code") if isinstance(error, dict) else None
                raise TransientError(self._reader.shown(code or "no response"), sent=False)
            status, body = response.get("status_code"), response.get("body")
            text = body if isinstance(body, str) else json.dumps(body)
            if not isinstance(status, int) or not 100 <= status <= 599:
                status = 200
            return self._reader.read(text.encode("utf-8", "surrogatepass"), status)
        except Declined as declined:
            lacking = self._reader.lacking_after(declined.objection)
            if not lacking:  # an objection to this very request, for which nothing can be left out
                return declined.error
            self.declined[f"{declined.objection.message} (--lacking {' --lacking '.join(lacking)})"] += 1
            return None
        except (TransientError, FatalCallError) as failed:
            # What no call to the server could cure then may be cured by now: it is asked again.
            self.unanswered[str(failed)] += 1
            return None
        except CallError as failed:
            return failed

    def _note(self, line: bytes, number: int, offset: int) -> None:
        if not line.strip():
            return
        try:
            record: Any = read_json(line)
            key = bytes.fromhex(record["custom_id"])
            response = record.get("response")
            if len(key) != 32:
                raise ValueError("not a key of ours")
        except (ValueError, TypeError, KeyError, AttributeError):
            self.unreadable += 1
            return
        rank = NOTHING
        if isinstance(response, dict):
            rank = SUCCESS if response.get("status_code") in (200, None) else FAILURE
        before = self._index.get(key)
        self.doubled += before is not None
        if before is None or rank > before[2]:
            self._index[key] = (number, offset, rank)


class Remembered(Wrapper):
    """A backend that answers from a batch's replies what its cache may not keep, and asks for the rest.

    A reply from which no verdict could be read is never stored, but it was paid: here it is at hand, so
    that only its repair is asked for.

    Args:
        inner: Whom to ask.
        answers: The replies.
        online: Whether anything may be asked for at all.
    """

    def __init__(self, inner: Backend, answers: Answers, *, online: bool = True) -> None:
        super().__init__(inner)
        self._answers, self._online = answers, online

    async def complete(self, request: Request) -> Completion:
        """Answer from the replies, else ask.

        Raises:
            MissError: The answer is not there, and nobody may be asked.
            CallError: The call brought no completion, now or in the batch.
        """
        identity = self.identity
        assert identity is not None  # a server's model has one
        reply = self._answers.find(cache_key(identity, request.digest))
        if reply is None:
            if self._online:
                return await self.inner.complete(request)
            raise MissError("the batch", request.trace_id, request.chunk_ids, "export the next round")
        if isinstance(reply, CallError):
            raise reply
        return reply
