"""The cache in a table of a PostgreSQL database."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from judge_eval.background_loop import on_interrupt
from judge_eval.errors import ConfigError, StoreError, mask
from judge_eval.installed import import_extra
from judge_eval.llm.cache import store

if TYPE_CHECKING:
    import psycopg

_SCHEMES = ("postgresql://", "postgres://")
_SECRET = re.compile("pass|secret", re.IGNORECASE)
_PORTS = re.compile(r"[\d,]*")
_ESCAPE = "in names and passwords write %40 for @, %2F for /, %3A for :, %3F for ?, %23 for # and %25 for %"


@dataclass(frozen=True)
class DatabaseAddress:
    """The address of a database: what may be shown, and what may not."""

    location: str
    """The URL with host, port and name alone."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Passwords as in the URL and as sent; never shown and never written down."""


def driver() -> Any:
    """Import the database's driver; raises `ConfigError` if it is not installed."""
    return import_extra("a cache in PostgreSQL needs the driver", "postgres", "psycopg")[0]


def read_database_url(url: str) -> DatabaseAddress:
    """Read a URL with the driver's parser and by the general rules, which must agree; never quote it."""
    if not url.startswith(_SCHEMES):
        raise ConfigError("the cache's URL must start with postgresql://, as in postgresql://host/name")
    psycopg = driver()
    try:
        settings = psycopg.conninfo.conninfo_to_dict(url)
        base = psycopg.conninfo.conninfo_to_dict(url.partition("?")[0])
        parts = urlsplit(url)
        # An @ further on may be the one that ends a password with a slash or a question mark in it.
        clear = not parts.fragment and "@" not in parts.path + parts.query
        same = clear and _seen(base) == _by_rule(url) and _PORTS.fullmatch(str(base.get("port", "")))
    except (psycopg.Error, ValueError):  # each may quote what it could not read
        raise ConfigError(f"the cache's URL cannot be read; write postgresql://host:5432/name, and {_ESCAPE}") from None
    if not same:
        raise ConfigError(f"the cache's URL can be read in more than one way; {_ESCAPE}")
    secrets = [str(value) for name, value in settings.items() if _SECRET.search(name)]
    raw = parts.netloc.rpartition("@")[0].partition(":")[2]
    secrets += [raw, *(pair.partition("=")[2] for pair in parts.query.split("&") if _SECRET.search(pair))]
    return DatabaseAddress(_location(settings), tuple(filter(None, secrets)))


def _seen(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(settings.get(name, "")) for name in ("user", "password", "host", "port", "dbname"))


def _by_rule(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    userinfo, _, place = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    hosts, ports = [], []
    for each in place.split(","):
        host, colon, port = each.rpartition(":") if not each.endswith("]") else (each, "", "")
        hosts.append((host if colon else each).removeprefix("[").removesuffix("]"))
        ports.append(port if colon else "")
    fields = (user, password, ",".join(hosts), ",".join(ports), parts.path.removeprefix("/"))
    return tuple(map(unquote, fields))


def _location(settings: Mapping[str, Any]) -> str:
    hosts = str(settings.get("host") or "localhost").split(",")
    ports = str(settings.get("port") or "").split(",")
    pairs = zip_longest(hosts, ports[: len(hosts)], fillvalue=ports[-1])
    shown = [(f"[{host}]" if ":" in host else host) + (f":{port}" if port else "") for host, port in pairs]
    return f"postgresql://{','.join(shown)}/{settings.get('dbname', '')}".removesuffix("/")


TABLE = "judge_eval_cache"
"""The one table that is used."""
_COLUMNS = {"key": "bytea", "value": "bytea", "holder": "uuid", "until": "timestamp with time zone"}


@cache
def _statements() -> dict[str, str]:
    """Read the statements of `postgres.sql` by their names."""
    text = (files("judge_eval.llm.cache") / "postgres.sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


_KEEPALIVE = {
    "tcp_user_timeout": 10_000,  # ms for which sent data may stay without a sign that it arrived
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
"""How soon a connection counts as lost if the network or the server's machine is gone, unless the URL says it."""
_RATE = 100_000  # bytes a second that a server takes at least: for a large statement it gets more time
_SLOW = {"create": 3600.0, "clear": 3600.0, "count": 60.0, "info": 60.0}
"""Seconds for statements that may take longer than the others, whatever those may take."""
_REMARK = 10.0  # seconds of waiting after which a line says so
_LOOK = 0.25  # seconds between two looks at a statement that is under way
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
    """The connection that waits for an answer."""
    silent: bool = False
    """Whether the server did not answer in time."""
    ended: threading.Event = field(default_factory=threading.Event)


class Connections:
    """Connections to one database, shared by the threads of a process, for statements that may be repeated.

    A thread watches each statement. A server that does not answer is left after `timeout` seconds; before that, a line
    in the log says that the cache is waited for, unless `remarks` is false.
    """

    def __init__(self, url: str, timeout: float, *, remarks: bool = True) -> None:
        self._url, self._timeout, self._remarks = url, timeout, remarks
        self._address = read_database_url(url)
        self.location = self._address.location
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._interrupted = -math.inf  # when the process was asked to end
        self._next_remark = 0.0
        on_interrupt.add(self)

    def run(self, name: str, values: Sequence[Any] | Mapping[str, Any] = (), size: int = 0) -> list[Any]:
        """Execute a statement of `postgres.sql` and return its rows; repeat it if the server went away.

        `size` is how many bytes its values have, where they are many.
        """
        begun, wait = time.monotonic(), 0.05
        statement = _Statement(begun, begun + _SLOW.get(name, self._timeout + size / _RATE))
        threading.Thread(target=self._watch, args=(statement,), name="judge_eval statement", daemon=True).start()
        try:
            while True:
                try:
                    return self._try(statement, name, values)
                except driver().errors.UndefinedTable:
                    raise StoreError(
                        f"{self.location}: there is no table {TABLE}; make it with `judge-eval cache init`"
                    ) from None
                except driver().Error as error:
                    last_try = min(begun + self._timeout, self._end(statement))
                    if not self._may_pass(error) or time.monotonic() + wait > last_try:
                        detail = mask(" ".join(str(error).split()), self._address.secrets)
                        if statement.silent:
                            detail = f"the database has not answered for {time.monotonic() - begun:.0f} s"
                        raise StoreError(f"{self.location}: {detail}") from None
                time.sleep(wait)
                wait = min(wait * 2, 2.0)
        finally:
            statement.ended.set()

    def _try(self, statement: _Statement, name: str, values: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._connect()
        try:
            with self._lock:
                statement.connection = connection
            try:
                cursor = connection.execute(_statements()[name], values)
                rows = cursor.fetchall() if cursor.description else []
            finally:
                with self._lock:  # it is not shut down any more: it may be another statement's soon
                    statement.connection = None
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return rows

    def _watch(self, statement: _Statement) -> None:
        """Leave the server if it does not answer in time, and say that the cache is waited for."""
        while not statement.ended.wait(_LOOK):
            now = time.monotonic()
            waited = now - statement.begun
            with self._lock:
                if statement.connection is not None and now > self._end(statement):
                    _shut(statement.connection)
                    statement.connection, statement.silent = None, True
                remark = self._remarks and waited >= _REMARK and now >= self._next_remark
                if remark:  # of several statements one says it, and after twice the time again
                    self._next_remark = now + waited
            if remark:
                _log.warning("waits for the cache since %.0f s: %s", waited, self.location)

    def interrupted(self) -> None:
        """Have statements end within two seconds for a while: the process is asked to end."""
        self._interrupted = time.monotonic()

    @property
    def _hurries(self) -> bool:
        return time.monotonic() < self._interrupted + _HURRIED

    def _end(self, statement: _Statement) -> float:
        hurried = max(statement.begun, self._interrupted) + _HURRY if self._hurries else math.inf
        return min(statement.until, hurried)

    def _may_pass(self, error: psycopg.Error) -> bool:
        psycopg = driver()
        if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return False
        self.close()  # the others stem from the same server
        # Another try cannot help against a wrong password, user or database, or an invalid address.
        return (error.sqlstate or "")[:2] not in ("28", "3D") and not any(words in str(error) for words in _FOR_GOOD)

    def _connect(self) -> psycopg.Connection[Any]:
        settings = driver().conninfo.conninfo_to_dict(self._url)
        made: psycopg.Connection[Any] = driver().connect(
            self._url,
            autocommit=True,
            connect_timeout=2 if self._hurries else max(2, min(5, int(self._timeout))),
            **{name: value for name, value in _KEEPALIVE.items() if name not in settings},
        )
        return made

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _shut(connection: psycopg.Connection[Any]) -> None:
    """End a connection whose statement another thread waits for: that thread gets an error."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as held:
        held.shutdown(socket.SHUT_RDWR)


_FOR_GOOD = (
    "authentication failed", "does not exist", "no password supplied", "invalid sslmode value",
    "invalid port number", "invalid integer value", "invalid connection option",
    "invalid channel_binding value", "server does not support SSL", "could not parse port",
)  # fmt: skip
"""What libpq says where no state of SQL tells it."""


def _check_columns(location: str, rows: Sequence[tuple[str, str, str, bool]]) -> None:
    """Check the rows of the statement `look_over`; raises `StoreError` unless the table is the cache's."""
    columns = {name: kind for name, kind, _, _ in rows}
    table = all(relation in "rp" for _, _, relation, _ in rows)
    if columns != _COLUMNS or not table or not any(unique for name, _, _, unique in rows if name == "key"):
        raise StoreError(
            f"{location}: the table {TABLE} is not one that `judge-eval cache init` made: its columns must "
            f"be {', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())}, its key unique; remove "
            "or rename it, then run `judge-eval cache init`"
        )


_BATCH = 1000
_RENEWED = 1.0  # seconds between two renewals of a lease
_SILENT = 2.5  # seconds without a renewal after which a holder without a session counts as dead
_COUNTED = 1_000_000  # above so many rows, the database estimates their number: counting would take seconds


class PostgresStore:
    """Completions in one table of a PostgreSQL database; the extra `postgres` brings the driver.

    Nothing is opened before the first use. `create` (`judge-eval cache init`) makes the table. A lost connection is
    opened again and the statement repeated, for up to `timeout` seconds: every statement may be repeated without harm.
    A server that does not answer is waited for as long.
    A method raises `StoreError` if the database cannot be read or written; the message says the way out.

    A lease is a row with a time and a holder, which a thread renews. If its holder hangs, it is free after `lease`
    seconds. If it dies, its session ends, and the lease is free within three seconds. The holder is a fencing token:
    it shows an answer that comes after its lease has passed to another process.
    """

    remote = True

    def __init__(self, url: str, *, timeout: float = 60.0, lease: float = 30.0) -> None:
        self._url, self.timeout, self.lease = url, timeout, lease
        self._reset()
        self.location = self._connections.location
        self._sealer = store.Sealer.from_environment()
        self._refused: set[tuple[bytes, int]] = set()

    @property
    def corrupt(self) -> int:
        """How many rows were refused so far because they are not what was written."""
        return len(self._refused)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._connections = Connections(self._url, self.timeout)
        # Of one connection, which ends with the process.
        self._session = Connections(self._url, self.timeout, remarks=False)
        self._alive = False
        self._leased: set[bytes] = set()
        self._holder = uuid.uuid4()
        self._stop = threading.Event()
        self._renewing: threading.Thread | None = None
        self._checked = False

    def __repr__(self) -> str:
        return f"PostgresStore({self.location!r})"

    def __getstate__(self) -> tuple[str, float, float, str]:
        return self._url, self.timeout, self.lease, self._sealer.mark

    def __setstate__(self, state: tuple[str, float, float, str]) -> None:
        PostgresStore.__init__(self, state[0], timeout=state[1], lease=state[2])
        self._sealer = store.same_sealer(state[3])

    def create(self) -> None:
        """Make the table if it does not exist, and check it."""
        self._own()
        self._connections.run("create")
        self._run("probe")

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys of 32 bytes; None for one without an undamaged row."""
        values: dict[bytes, bytes | None] = {}
        for start in range(0, len(keys), _BATCH):
            for key, row in self._run("get", [store.MOST_BYTES, list(keys[start : start + _BATCH])]):
                values[bytes(key)] = self._open(bytes(key), row)
        return [values.get(key) for key in keys]

    def put_many(
        self,
        items: Sequence[store.KeyedRow],
        *,
        wait: bool = True,  # noqa: ARG002 # writers of a database do not exclude each other
        claimed: bool = False,
    ) -> int:
        """Write all rows in one statement, or none, and end their leases; return how many others held or wrote."""
        store.check_keys(items)
        rows = sorted({key: self._sealer.seal(key, value) for key, value in items}.items())
        if not rows:
            return 0
        keys = [key for key, _ in rows]
        values = {"keys": keys, "rows": [row for _, row in rows], "holder": self._holder}
        size = sum(len(row) for _, row in rows)
        ((late,),) = self._run("put_claimed" if claimed else "put", values, size)
        self._forget(keys)
        return int(late)

    def info(self) -> store.StoreInfo:
        """Count rows (above a million, by the database's estimate) and bytes."""
        ((entries, size, read_only),) = self._run("info", [TABLE])
        if entries < _COUNTED:
            ((entries,),) = self._run("count")
        return store.StoreInfo(self.location, entries, size, read_only)

    def clear(self) -> None:
        """Remove every row."""
        self._run("clear")

    def claim_many(self, keys: Sequence[bytes], *, replacing: bool = False) -> list[store.KeyClaim]:
        """Look up keys, and lease those without a row and without another lease, in one statement."""
        self._own()
        with self._lock:
            free = [key for key in dict.fromkeys(keys) if key not in self._leased]
            self._leased.update(free)
            holder = self._holder
        claims: dict[bytes, store.KeyClaim] = {}
        try:
            if not self._alive:  # by its session others see that this process lives
                self._session.run("alive", {"holder": holder})
                self._alive = True
            values = {"keys": list(keys), "free": free, "holder": holder, "lease": self.lease, "silent": _SILENT}
            name = "claim_rows" if replacing else "claim"
            for key, row, leased in self._run(name, {**values, "most": store.MOST_BYTES}):
                value = None if leased else self._open(bytes(key), row)
                claims[bytes(key)] = store.KeyClaim(value, leased, not leased and value is None)
        finally:
            self._forget([key for key in free if key not in claims or not claims[key].leased])
        if any(claim.leased for claim in claims.values()):
            self._renew()
        nothing = store.KeyClaim(None, False)
        answers = []
        for key in keys:  # of two claims of one key the first has the lease
            claim = claims.get(key, nothing)
            answers.append(claim)
            if claim.leased:
                claims[key] = nothing
        return answers

    def release_many(self, keys: Sequence[bytes]) -> None:
        """Give leases back; if the database cannot be reached, they expire by themselves."""
        self._own()
        with self._lock:
            keys = [key for key in keys if key in self._leased]
            self._leased.difference_update(keys)
            holder = self._holder
        if keys:
            with contextlib.suppress(StoreError):  # the work under them is done, and may be paid for
                self._run("release", {"keys": keys, "holder": holder})

    def close(self) -> None:
        """Close the connections; a later use opens them again."""
        self._own()
        self._stop.set()
        with self._lock:
            self._renewing = None
        self._alive = False
        self._session.close()
        self._connections.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end half of it may be gone
            self.close()

    def _renew(self) -> None:
        with self._lock:
            if self._renewing is None or not self._renewing.is_alive():
                self._stop = threading.Event()
                self._renewing = threading.Thread(
                    target=self._keep_renewing, args=(self._stop,), name="judge_eval leases", daemon=True
                )
                self._renewing.start()

    def _keep_renewing(self, stop: threading.Event) -> None:
        while not stop.wait(min(_RENEWED, self.lease / 3)):
            with self._lock:
                leased, holder = list(self._leased), self._holder
            with contextlib.suppress(StoreError):  # the next call reports it
                if leased:
                    self._session.run("alive", {"holder": holder})
                    self._session.run("renew", [self.lease, leased, holder])

    def _forget(self, keys: Sequence[bytes]) -> None:
        with self._lock:
            self._leased.difference_update(keys)

    def _open(self, key: bytes, row: Any) -> bytes | None:
        value = None if row is None else self._sealer.unseal(key, bytes(row))
        if value is None:
            self._refused.add((key, hash(row if row is None else bytes(row))))
        return value

    def _own(self) -> None:
        if self._pid != os.getpid():  # a fork shares neither connections nor leases with its parent
            self._reset()

    def _run(self, name: str, values: Sequence[Any] | Mapping[str, Any] = (), size: int = 0) -> list[Any]:
        self._own()
        if not self._checked:
            _check_columns(self.location, self._connections.run("look_over", [TABLE]))
            self._checked = True
        return self._connections.run(name, values, size)
