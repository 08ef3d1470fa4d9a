"""What prompts for models that write have in common: texts that are not ours stand between fences."""

from collections.abc import Sequence
from copy import copy
from typing import Self

from judge_eval.delimiters import PUBLIC, nonces_of
from judge_eval.prompts.records import PromptedForm, filler
from judge_eval.wire import Message, Passage


class FencedForm(PromptedForm):
    """A form that shows passages between fences.

    Each fence carries a mark that follows from what it fences, so requests are stable for caches, and that
    occurs in none of their texts. What is sent to a server is `sealed`: its marks follow from a secret too.
    The contract, the form of the reply in words, follows the system text in the same message.
    """

    _key = PUBLIC
    _twin: Self | None = None

    def unreadable(self, problem: str) -> str:
        """Return what is said of an answer that could not be read."""
        return self._unreadable(problem=problem)

    def _show(self, system: str, contract: str, chunk: str, titled_chunk: str, unreadable: str) -> None:
        self._system = Message("system", system.strip() + "\n" + contract.strip())
        self._chunk, self._titled = filler(chunk.strip()), filler(titled_chunk.strip())
        self._unreadable = filler(unreadable.strip())

    def _fence(self, asked: list[str], passages: Sequence[Passage]) -> tuple[str, str]:
        """Return the mark for what is asked, and the passages one after the other, each with its own mark."""
        # What is asked has one mark, which makes it a common prefix of all requests of a trace.
        fenced = [asked, *([*asked, passage.title or "", passage.text] for passage in passages)]
        own, *marks = nonces_of(self._key, fenced)
        blocks = [
            (self._chunk if passage.title is None else self._titled)(  # it takes what it names
                mark=mark, text=passage.text, title=passage.title, number=number
            )
            for number, (passage, mark) in enumerate(zip(passages, marks, strict=True), 1)
        ]
        return own, "\n".join(blocks)

    def sealed(self, secret: bytes) -> Self:
        """Return the same form, with the same digest, whose marks cannot be told without the secret."""
        if self._key == secret:
            return self
        if self._twin is None or self._twin._key != secret:
            self._twin = copy(self)
            self._twin._key, self._twin._twin = secret, None
        return self._twin
