"""What models that judge in this process have in common: what a chunk is held against, and how they answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, ClassVar, cast

from judge_eval.errors import ConfigError
from judge_eval.llm.backend import Identity
from judge_eval.llm.local.places import ModelPlace
from judge_eval.settings import Range
from judge_eval.spelling import option
from judge_eval.wire import Completion, DecisionAnswer, Request

OVERLAP = 8
"""The next window of a long chunk repeats this part of one: an eighth."""


class LocalModel(ABC):
    """A model that says how relevant a chunk is, from 0 to 1: nothing leaves this machine.

    It answers the questions of decision mode about two grades. Claims are shown one by one in place of the reference.

    Args:
        name: What the user called the model.
        max_tokens: The most tokens that the model is shown at once, from 16 on.
        files: The files that could change an answer.
        params: What else could.
    """

    calls_nobody = True
    output: ClassVar[str]
    """What of its answer may not be finite, for a message."""
    by_reference = False
    """Whether a chunk is held against the reference alone, where there is one, without the question."""

    def __init__(self, name: str, max_tokens: int, files: Sequence[ModelPlace], params: Mapping[str, Any]) -> None:
        Range(16, 100_000).check(max_tokens, "max_tokens")
        hashes = hashlib.sha256()
        for file in files:
            hashes.update(_digest(file))
        params = {"files": hashes.hexdigest()[:16], **params, "max_tokens": max_tokens}
        self.max_tokens, self._lock = max_tokens, threading.Lock()
        self._loaded: Any = None
        self.identity: Identity | None = Identity(
            "local", name, params=tuple((name, json.dumps(value)) for name, value in params.items())
        )

    async def complete(self, request: Request) -> Completion:
        """Say for each passage of a request how relevant it is."""
        asked = request.questionnaire
        if asked is None or any(question.levels for question in asked.questions):
            raise ConfigError(
                "a local model says how probable a statement is, and no more: judge in decision mode with two grades, "
                f"such as {option('prompt', 'support/decision')}"
            )
        shares = await asyncio.to_thread(self.shares, self._pairs(request))
        return Completion("", answers=tuple(map(self._answer, shares)))

    async def aclose(self) -> None:
        """Forget the model."""
        self._loaded = None

    @abstractmethod
    def shares(self, pairs: Sequence[tuple[str, str]]) -> Iterable[float]:
        """Answer from 0 to 1 for each pair: what the chunk is held against, and the chunk; NaN is no answer."""

    @abstractmethod
    def _load(self) -> Any:
        """Load what answers."""

    def loaded(self) -> Any:
        """Return what answers; it is loaded once."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _answer(self, share: float) -> DecisionAnswer:
        if isnan(share):
            return DecisionAnswer(
                why="unparsable", detail=f"the model answered with a {self.output} that is not finite"
            )
        return DecisionAnswer((round(1 - share, 6), round(share, 6)))

    def _pairs(self, request: Request) -> list[tuple[str, str]]:
        texts = [text if title is None else f"{title}\n{text}" for text, title in request.passages]
        if request.claims:  # each of them, and one passage
            return [(claim, text) for text in texts for claim in request.claims]
        against = request.reference or request.answer
        alone = self.by_reference and against
        about = alone or " ".join(filter(None, (request.query, against)))
        if request.history and not alone:  # its end, of about a quarter of the model's room
            about = f"{about}\n{request.history[-self.max_tokens :]}"
        return [(about, text) for text in texts]


def _digest(file: ModelPlace) -> bytes:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(cast("Any", opened), "sha256").digest()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
