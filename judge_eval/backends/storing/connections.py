"""Connections to a PostgreSQL server, opened again where it went away."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judge_eval.backends.storing.databaseurl import driver, read_database_url
from judge_eval.backends.storing.statements import TABLE
from judge_eval.errors import StoreError, mask

if TYPE_CHECKING:
    import psycopg


class Connections:
    """Connections to one database, shared by the threads of a process.

    Args:
        url: Where the database is.
        timeout: Seconds to go on trying when the server cannot be reached.

    Raises:
        ConfigError: It is not such a URL, or the driver is not installed.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        self._address = read_database_url(url)
        self.location = self._address.location
        self.secret = bool(self._address.secrets)
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection[Any]] = []

    def run(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """Execute a statement and return its rows, on a fresh connection again where the server went away.

        Raises:
            StoreError: The server cannot be reached, or refuses; the message says the way out.
        """
        psycopg = driver()
        until, wait = time.monotonic() + self._timeout, 0.05
        while True:
            connection = None
            try:
                connection = self._connect()
                cursor = connection.execute(statement, values)
                rows = cursor.fetchall() if cursor.description else []
            except psycopg.errors.UndefinedTable:
                self._put_back(connection)
                raise StoreError(
                    f"{self.location}: there is no table {TABLE}; make it with `judge-eval cache init`"
                ) from None
            except BaseException as error:
                if connection is not None:
                    connection.close()
                if not isinstance(error, psycopg.Error):
                    raise
                lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
                if lost:
                    self.close()  # the others stem from the same server
                if not lost or _for_good(error) or time.monotonic() > until:
                    raise self._failed(error) from None
                time.sleep(wait)
                wait = min(wait * 2, 2.0)
            else:
                self._put_back(connection)
                return rows

    def close(self) -> None:
        """Close those that wait to be used again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connect(self) -> psycopg.Connection[Any]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        made: psycopg.Connection[Any] = driver().connect(self._url, autocommit=True, connect_timeout=10)
        return made

    def _put_back(self, connection: psycopg.Connection[Any] | None) -> None:
        if connection is not None:
            with self._lock:
                self._idle.append(connection)

    def _failed(self, error: Exception) -> StoreError:
        return StoreError(f"{self.location}: {mask(' '.join(str(error).split()), self._address.secrets)}")


def _for_good(error: Exception) -> bool:
    """Tell whether trying again cannot help: a wrong password, user or database."""
    state = getattr(error, "sqlstate", None) or ""
    if state[:2] in ("28", "3D"):
        return True
    words = str(error)
    return "authentication failed" in words or "does not exist" in words or "no password supplied" in words
