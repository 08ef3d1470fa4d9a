"""Inquiries on their way: opened, answered from what is at hand, led on reply by reply, concluded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

from judge_eval.backends.base import Backend, peek
from judge_eval.engine.items import Item, Judged
from judge_eval.errors import CallError
from judge_eval.judges.base import Inquiry, Judge, Wave
from judge_eval.schema import NoVerdict
from judge_eval.wire import Reply


@dataclass(slots=True)
class UnderWay:
    """A trace under judgment: its inquiry, the wave it waits for, and the replies so far."""

    item: Item
    inquiry: Inquiry
    wave: Wave
    replies: list[Reply | None]
    left: int = 0
    advanced: bool = False
    """Whether a wave of it is answered."""
    held: list[int] = field(default_factory=list)
    """Requests that wait for the wave's first call to come back."""


class Inquiries:
    """The inquiries of the traces that are open. It asks nobody but for what is at hand.

    Args:
        judge: The plan.
        backend: Who may have answers at hand.
        call: Told of requests, by their places in a trace's wave, that need a call.
        lead: Whether a trace's first call goes ahead of its siblings.
    """

    def __init__(
        self,
        judge: Judge,
        backend: Backend,
        call: Callable[[UnderWay, Sequence[int]], None],
        *,
        lead: bool = False,
    ) -> None:
        self._judge, self._backend, self._call, self._lead = judge, backend, call, lead
        self._asking: dict[int, UnderWay] = {}
        self.open = 0
        """How many traces are open."""
        self.done: list[Judged] = []
        """What has finished and was not taken yet."""

    def take(self) -> list[Judged]:
        """Return what has finished and was not taken yet."""
        done, self.done = self.done, []
        return done

    def start(self, items: Sequence[Item]) -> None:
        """Open traces, and lead them on as far as answers are at hand; their look-ups are one."""
        opened: list[UnderWay] = []
        for item in items:
            self.open += 1
            self._step(UnderWay(item, self._judge.inquire(item.asked, item.known), (), []), opened)
        self._look_up(opened)

    def answer(self, state: UnderWay, index: int, reply: Reply, *, go_on: bool) -> bool:
        """Take in what a call brought, and lead the inquiry on where its wave is answered.

        Args:
            state: The trace that waited for it.
            index: Which request of its wave.
            reply: What came.
            go_on: Whether what follows from it may be asked for.

        Returns:
            Whether the trace has finished.
        """
        state.replies[index] = reply
        state.left -= 1
        if state.held:
            held, state.held = state.held, []
            self._call(state, held)
        if state.left:
            return False
        before = len(self.done)
        opened: list[UnderWay] = []
        self._step(state, opened)
        if go_on:
            self._look_up(opened)
        return len(self.done) > before

    def salvage(self) -> None:
        """Conclude every trace that waits for calls with the answers it has."""
        for state in list(self._asking.values()):
            self._give_up(state)

    def _step(self, state: UnderWay, opened: list[UnderWay]) -> None:
        """Send an inquiry its replies, and note its next wave or its judgment."""
        state.advanced = bool(state.wave)
        try:
            wave = state.inquiry.send(cast(list[Reply], state.replies)) if state.wave else next(state.inquiry)
        except StopIteration as stop:
            self.open -= 1
            self._asking.pop(state.item.position, None)
            self.done.append(Judged(state.item.position, state.item.trace, stop.value))
            return
        state.wave, state.replies, state.left = wave, [None] * len(wave), len(wave)
        opened.append(state)

    def _look_up(self, states: list[UnderWay]) -> None:
        """Answer from what is at hand until only calls are left; have those made."""
        while states:
            requests = [request for state in states for request in state.wave]
            hits = iter(peek(self._backend, requests))
            again: list[UnderWay] = []
            for state in states:
                state.replies = list(islice(hits, len(state.wave)))
                missing = [index for index, reply in enumerate(state.replies) if reply is None]
                state.left = len(missing)
                if not missing:
                    self._step(state, again)
                    continue
                self._asking[state.item.position] = state
                ahead = 1 if self._lead else len(missing)
                state.held = missing[ahead:]
                self._call(state, missing[:ahead])
            states = again

    def _give_up(self, state: UnderWay) -> None:
        """Conclude a trace with the answers it has; one without any is left for another sitting.

        A chunk about which an answer is still out has no verdict, even where the plan would do without
        that answer: an uninterrupted run would not have.
        """
        if not state.advanced and all(reply is None for reply in state.replies):
            return
        stopped = CallError("the run was stopped before the answer came")
        out: set[str] = set()
        while state.item.position in self._asking:
            for request, reply in zip(state.wave, state.replies, strict=True):
                out.update(request.chunk_ids if reply is None else ())
            state.replies = [stopped if reply is None else reply for reply in state.replies]
            self._step(state, [])
            state.left = -1  # a late answer finds nobody waiting
        judged = self.done.pop()
        outcomes = tuple(
            NoVerdict(chunk_id=o.chunk_id, why=stopped.why, detail=stopped.detail) if o.chunk_id in out else o
            for o in judged.judgment.outcomes
        )
        judgment = judged.judgment.model_copy(update={"outcomes": outcomes})
        self.done.append(Judged(judged.position, judged.trace, judgment))
