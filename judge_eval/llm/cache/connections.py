"""Connections to a PostgreSQL database, for statements that may be repeated."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from judge_eval.background_loop import on_interrupt
from judge_eval.errors import StoreError, mask
from judge_eval.llm.cache.place import driver, read_database_url

if TYPE_CHECKING:
    import psycopg


_KEEPALIVE = {
    "tcp_user_timeout": 10_000,  # ms for which sent data may stay without a sign that it arrived
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
"""How soon a connection counts as lost if the network or the server's machine is gone, unless the URL says it."""
_RATE = 100_000  # bytes a second that a server takes at least: for a large statement it gets more time
_SLOW = ("create", "clear", "count", "info")  # statements that may take longer
_REMARK = 10.0  # seconds of waiting after which a line says so
_LOOK = 0.25  # seconds between two looks at the statements that are under way
_IDLE = 5.0  # seconds without a statement after which nobody looks
_HURRY = 2.0  # seconds that a statement may take once the process was asked to end
_HURRIED = 60.0  # seconds for which it hurries then

_log = logging.getLogger("judge_eval")


@dataclass(eq=False)
class _Statement:
    """A statement that is under way."""

    begun: float
    until: float
    """When its connection is given up."""
    connection: psycopg.Connection[Any] | None = None
    silent: bool = False
    """Whether the server did not answer it in time."""


class Connections:
    """Connections to one database, shared by the threads of a process.

    A thread watches the statements under way. A server that does not answer is left after `timeout` seconds; before
    that, a line in the log says that the cache is waited for.
    """

    def __init__(self, url: str, timeout: float, *, remarks: bool = True) -> None:
        self._url, self._timeout, self._remarks = url, timeout, remarks
        self._address = read_database_url(url)
        self.location = self._address.location
        self.secret = bool(self._address.secrets)
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._under_way: set[_Statement] = set()
        self._watching: threading.Thread | None = None
        self._hurried = -math.inf  # when the process was asked to end
        self._remarked = _REMARK
        self._used = 0.0
        on_interrupt.add(self)

    def run(self, name: str, statement: str, values: Sequence[Any] | Mapping[str, Any], *, size: int = 0) -> list[Any]:
        """Execute a statement and return its rows; repeat it on a new connection if the server went away.

        `size` is how many bytes its values have, where they are many.
        """
        begun, wait = time.monotonic(), 0.05
        under_way = _Statement(begun, math.inf if name in _SLOW else begun + self._timeout + size / _RATE)
        self._watch(under_way)
        try:
            while True:
                try:
                    return self._try(under_way, statement, values)
                except driver().Error as error:
                    if not self._may_repeat(error, under_way, wait):
                        detail = mask(" ".join(str(error).split()), self._address.secrets)
                        if under_way.silent:
                            detail = f"the database has not answered for {time.monotonic() - under_way.begun:.0f} s"
                        raise StoreError(f"{self.location}: {detail}") from None
                time.sleep(wait)
                wait = min(wait * 2, 2.0)
        finally:
            with self._lock:
                self._under_way.discard(under_way)

    def _try(self, under_way: _Statement, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        connection = None
        try:
            connection = self._connect()
            with self._lock:
                under_way.connection = connection
            cursor = connection.execute(statement, values)
            rows = cursor.fetchall() if cursor.description else []
        except driver().errors.UndefinedTable:
            self._let_go(under_way)
            self._put_back(connection)
            raise StoreError(
                f"{self.location}: there is no table {TABLE}; make it with `judge-eval cache init`"
            ) from None
        except BaseException:
            self._let_go(under_way)
            if connection is not None:
                connection.close()
            raise
        self._let_go(under_way)
        self._put_back(connection)
        return rows

    def _may_repeat(self, error: psycopg.Error, under_way: _Statement, wait: float) -> bool:
        psycopg = driver()
        if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return False
        self.close()  # the others stem from the same server
        # Another try cannot help against a wrong password, user or database, or an invalid address.
        if (error.sqlstate or "")[:2] in ("28", "3D") or any(words in str(error) for words in FOR_GOOD):
            return False
        end = min(under_way.begun + self._timeout, under_way.until, self._hurry_end(under_way.begun))
        return time.monotonic() + wait <= end

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def interrupted(self) -> None:
        """Have statements end within two seconds for a while: the process is asked to end."""
        self._hurried = time.monotonic()

    def _hurry_end(self, begun: float) -> float:
        """Return when a statement that began then must end because the process is asked to end."""
        hurried = time.monotonic() < self._hurried + _HURRIED
        return max(begun, self._hurried) + _HURRY if hurried else math.inf

    def _connect(self) -> psycopg.Connection[Any]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        settings = driver().conninfo.conninfo_to_dict(self._url)
        most = min(5, int(self._timeout))
        if time.monotonic() < self._hurried + _HURRIED:
            most = int(_HURRY)
        made: psycopg.Connection[Any] = driver().connect(
            self._url,
            autocommit=True,
            connect_timeout=max(2, most),
            **{name: value for name, value in _KEEPALIVE.items() if name not in settings},
        )
        return made

    def _put_back(self, connection: psycopg.Connection[Any] | None) -> None:
        if connection is not None:
            with self._lock:
                self._idle.append(connection)

    def _watch(self, statement: _Statement) -> None:
        with self._lock:
            self._under_way.add(statement)
            self._used = statement.begun
            if self._watching is None:
                self._watching = threading.Thread(
                    target=_look_after, args=(weakref.ref(self),), name="judge_eval statements", daemon=True
                )
                self._watching.start()

    def _let_go(self, statement: _Statement) -> None:
        with self._lock:
            statement.connection = None

    def look(self) -> bool:
        """Leave servers that do not answer in time, and say that the cache is waited for; False after idle time."""
        now = time.monotonic()
        with self._lock:
            self._used = now if self._under_way else self._used
            if now > self._used + _IDLE:
                self._watching = None
                return False
            for statement in self._under_way:
                if statement.connection is not None and now > min(statement.until, self._hurry_end(statement.begun)):
                    _shut(statement.connection)
                    statement.connection, statement.silent = None, True
            waited = max((now - statement.begun for statement in self._under_way), default=0.0)
        if waited < _REMARK:
            self._remarked = _REMARK
        elif self._remarks and waited >= self._remarked:
            self._remarked *= 2
            _log.warning("waits for the cache since %.0f s: %s", waited, self.location)
        return True


def _look_after(whose: weakref.ref[Connections]) -> None:
    while (connections := whose()) is not None and connections.look():
        del connections
        time.sleep(_LOOK)


def _shut(connection: psycopg.Connection[Any]) -> None:
    """End a connection whose statement another thread waits for: that thread gets an error."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as held:
        held.shutdown(socket.SHUT_RDWR)


FOR_GOOD = (
    "authentication failed", "does not exist", "no password supplied", "invalid sslmode value",
    "invalid port number", "invalid integer value", "invalid connection option",
    "invalid channel_binding value", "server does not support SSL", "could not parse port",
)  # fmt: skip
"""What libpq says where no state of SQL tells it."""


TABLE = "judge_eval_cache"
"""The one table that is used."""
