"""Telling whoever holds connections that the process is about to fork."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Protocol
from weakref import WeakSet


class Forking(Protocol):
    """Something that must not be carried over a fork as it is."""

    def before_fork(self) -> None:
        """Let go of what a child may not inherit, and hold still."""
        ...

    def after_fork(self, *, child: bool) -> None:
        """Go on, in the parent or in the child."""
        ...


class _Watch:
    """Who is to be told. The system's list of hooks only grows, so there is one for all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forking = threading.Lock()
        self._watched: WeakSet[Forking] = WeakSet()
        self._told: list[Forking] = []
        self._registered = False

    def add(self, who: Forking) -> None:
        with self._lock:
            self._watched.add(who)
            if not self._registered and hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=self._before,
                    after_in_parent=partial(self._after, child=False),
                    after_in_child=partial(self._after, child=True),
                )
                self._registered = True

    def _before(self) -> None:
        self._forking.acquire()
        while True:
            self._lock.acquire()
            new = [who for who in self._watched if who not in self._told]
            if not new:
                return  # the lock is held over the fork: nobody opens anything now
            # Released before anybody's own lock is taken, for they take theirs before they come here.
            self._lock.release()
            for who in new:
                who.before_fork()
                self._told.append(who)

    def _after(self, *, child: bool) -> None:
        warned, self._told = self._told, []
        for who in warned:
            who.after_fork(child=child)
        self._lock.release()
        self._forking.release()


watch = _Watch().add
"""Tells somebody of every fork from now on, as long as it lives."""
