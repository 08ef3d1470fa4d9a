"""The store in a PostgreSQL database, shared by machines, with leases that expire."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from judge_eval.backends.storing.store import KEY_BYTES, StoreInfo, seal, unseal
from judge_eval.errors import ConfigError, StoreError, mask

if TYPE_CHECKING:
    import psycopg

SCHEMES = ("postgresql://", "postgres://")
TABLE = "judge_eval_cache"
_BATCH = 1000
_COUNTED = 1_000_000
"""Above so many rows, their number is the database's estimate: counting them would take seconds."""
T = TypeVar("T")


class PostgresStore:
    """Completions in one table of a PostgreSQL database; the extra `postgres` brings the driver.

    Nothing is opened before the first use. The table is made by `create` (`judge-eval cache init`). A lost
    connection is opened again and the statement repeated, for up to `timeout` seconds: every statement
    here may be repeated without harm.

    A lease is a row with a time, renewed by a thread while it is held; where its holder dies, it is free
    after `lease` seconds.

    Args:
        url: Where the database is, as in `postgresql://user:password@host:5432/name`.
        timeout: Seconds to go on trying when the server cannot be reached.
        lease: Seconds after which the lease of a dead process ends.

    Raises:
        ConfigError: It is not such a URL.
    """

    far = True
    """Calls cross a network: they are made in threads."""

    def __init__(self, url: str, *, timeout: float = 60.0, lease: float = 30.0) -> None:
        self._url, self.timeout, self.lease = url, timeout, lease
        self.location, self._secrets = _public(url)
        self._reset()
        self._corrupt = 0

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._held: set[bytes] = set()
        self._holder = uuid.uuid4()
        self._stop = threading.Event()
        self._renewing: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"PostgresStore({self.location!r})"

    def __getstate__(self) -> tuple[str, float, float]:
        return self._url, self.timeout, self.lease

    def __setstate__(self, state: tuple[str, float, float]) -> None:
        PostgresStore.__init__(self, state[0], timeout=state[1], lease=state[2])

    @property
    def corrupt(self) -> int:
        """How many rows were refused so far because they are not what was written."""
        return self._corrupt

    @property
    def secret(self) -> bool:
        """Whether the URL holds a password, and may not be written down."""
        return bool(self._secrets)

    def create(self) -> None:
        """Make the table where it is not there.

        Raises:
            StoreError: The database cannot be reached, or does not let us.
        """

        def make(connection: psycopg.Connection[Any]) -> None:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {TABLE} ("
                "key bytea PRIMARY KEY, value bytea, holder uuid, until timestamptz)"
            )

        self._do(make)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys of 32 bytes; None where there is no undamaged row.

        Raises:
            StoreError: The database cannot be read; the message says the way out.
        """
        found: dict[bytes, bytes | None] = {}
        for start in range(0, len(keys), _BATCH):
            part = list(keys[start : start + _BATCH])

            def read(connection: psycopg.Connection[Any], part: list[bytes] = part) -> list[Any]:
                return connection.execute(
                    f"SELECT key, value FROM {TABLE} WHERE value IS NOT NULL AND key = ANY(%s)",  # noqa: S608
                    [part],
                ).fetchall()

            for key, row in self._do(read):
                value = unseal(bytes(key), bytes(row))
                found[bytes(key)] = value
                self._corrupt += value is None
        return [found.get(key) for key in keys]

    def put_many(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Write all rows in one statement, or none; their leases end with it.

        Raises:
            StoreError: The database cannot be written; the message says the way out.
        """
        if any(len(key) != KEY_BYTES for key, _ in items):
            raise StoreError(f"a key of the cache has {KEY_BYTES} bytes")
        # In one order for all writers, who would wait for each other in a circle else.
        rows = sorted({key: seal(key, value) for key, value in items}.items())

        def write(connection: psycopg.Connection[Any]) -> None:
            connection.execute(
                f"INSERT INTO {TABLE} (key, value) "  # noqa: S608
                "SELECT * FROM unnest(%s::bytea[], %s::bytea[]) ON CONFLICT (key) "
                "DO UPDATE SET value = excluded.value, holder = NULL, until = NULL",
                [[key for key, _ in rows], [value for _, value in rows]],
            )

        if rows:
            self._do(write)
            with self._lock:
                self._held.difference_update(key for key, _ in rows)

    def info(self) -> StoreInfo:
        """Count rows (above a million, by the database's estimate) and bytes.

        Raises:
            StoreError: The database cannot be read.
        """

        def read(connection: psycopg.Connection[Any]) -> tuple[int, int, bool]:
            told = connection.execute(
                "SELECT reltuples::bigint, pg_total_relation_size(oid), "
                "current_setting('transaction_read_only') = 'on' OR NOT has_table_privilege(oid, 'INSERT') "
                "OR NOT has_table_privilege(oid, 'UPDATE') "
                "FROM pg_class WHERE oid = %s::regclass",
                [TABLE],
            ).fetchone()
            assert told is not None
            entries, size, read_only = told
            if entries < _COUNTED:
                counted = connection.execute(
                    f"SELECT count(*) FROM {TABLE} WHERE value IS NOT NULL"  # noqa: S608
                ).fetchone()
                entries = counted[0] if counted else 0
            return entries, size, read_only

        entries, size, read_only = self._do(read)
        return StoreInfo(self.location, entries, size, read_only)

    def clear(self) -> None:
        """Remove every row.

        Raises:
            StoreError: The database cannot be written.
        """

        def remove(connection: psycopg.Connection[Any]) -> None:
            connection.execute(f"DELETE FROM {TABLE}")  # noqa: S608

        self._do(remove)

    def take_lease(self, key: bytes) -> bool:
        """Lease a key for this process; False while someone else holds it.

        Raises:
            StoreError: The database cannot be written.
        """
        self._own()
        with self._lock:
            if key in self._held:
                return False
            self._held.add(key)
            holder = self._holder

        def take(connection: psycopg.Connection[Any]) -> bool:
            # Our own lease is granted again: it is that of a statement whose answer was lost.
            row = connection.execute(
                f"INSERT INTO {TABLE} AS here (key, holder, until) "  # noqa: S608
                "VALUES (%s, %s, now() + make_interval(secs => %s)) ON CONFLICT (key) "
                "DO UPDATE SET holder = excluded.holder, until = excluded.until "
                "WHERE here.until IS NULL OR here.until < now() OR here.holder = excluded.holder "
                "RETURNING 1",
                [key, holder, self.lease],
            ).fetchone()
            return row is not None

        taken = False
        try:
            taken = self._do(take)
        finally:
            if not taken:
                with self._lock:
                    self._held.discard(key)
        if taken:
            self._renew()
        return taken

    def release_lease(self, key: bytes) -> None:
        """Give a lease back; where the database cannot be reached, it expires by itself."""
        self._own()
        with self._lock:
            if key not in self._held:
                return
            self._held.discard(key)
            holder = self._holder

        def give(connection: psycopg.Connection[Any]) -> None:
            for change in (
                f"DELETE FROM {TABLE} WHERE key = %s AND holder = %s AND value IS NULL",  # noqa: S608
                f"UPDATE {TABLE} SET holder = NULL, until = NULL WHERE key = %s AND holder = %s",  # noqa: S608
            ):
                connection.execute(change, [key, holder])

        with contextlib.suppress(StoreError):  # what it was held for is done, and may be paid for
            self._do(give)

    def close(self) -> None:
        """Close the connections; a later use opens them again."""
        self._own()
        self._stop.set()
        with self._lock:
            idle, self._idle = self._idle, []
            self._renewing = None
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end half of it may be gone
            self.close()

    def _renew(self) -> None:
        """See that a thread renews what is held."""
        with self._lock:
            if self._renewing is None or not self._renewing.is_alive():
                self._stop = threading.Event()
                self._renewing = threading.Thread(
                    target=self._keep_renewing, args=(self._stop,), name="judge_eval leases", daemon=True
                )
                self._renewing.start()

    def _keep_renewing(self, stop: threading.Event) -> None:
        while not stop.wait(self.lease / 3):
            with self._lock:
                held, holder = list(self._held), self._holder

            def extend(
                connection: psycopg.Connection[Any], held: list[bytes] = held, holder: uuid.UUID = holder
            ) -> None:
                connection.execute(
                    f"UPDATE {TABLE} SET until = now() + make_interval(secs => %s) "  # noqa: S608
                    "WHERE key = ANY(%s) AND holder = %s",
                    [self.lease, held, holder],
                )

            if held:
                try:
                    self._do(extend)
                except StoreError:  # whoever asks next is told
                    continue

    def _own(self) -> None:
        if self._pid != os.getpid():  # a fork shares neither connections nor leases with its parent
            self._reset()

    def _do(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Do something with a connection, again on a fresh one where the server went away."""
        psycopg = _driver()
        self._own()
        until, wait = time.monotonic() + self.timeout, 0.05
        while True:
            connection = None
            try:
                connection = self._connect()
                done = work(connection)
            except psycopg.errors.UndefinedTable:
                self._put_back(connection)
                raise StoreError(
                    f"{self.location}: there is no table {TABLE}; make it with `judge-eval cache init`"
                ) from None
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if connection is not None:
                    connection.close()
                with self._lock:
                    idle, self._idle = self._idle, []
                for other in idle:  # they stem from the same server
                    other.close()
                if _for_good(error) or time.monotonic() > until:
                    raise self._told(error) from None
                time.sleep(wait)
                wait = min(wait * 2, 2.0)
            except psycopg.Error as error:
                if connection is not None:
                    connection.close()
                raise self._told(error) from None
            except BaseException:
                if connection is not None:
                    connection.close()
                raise
            else:
                self._put_back(connection)
                return done

    def _connect(self) -> psycopg.Connection[Any]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        made: psycopg.Connection[Any] = _driver().connect(self._url, autocommit=True, connect_timeout=10)
        return made

    def _put_back(self, connection: psycopg.Connection[Any] | None) -> None:
        if connection is not None:
            with self._lock:
                self._idle.append(connection)

    def _told(self, error: Exception) -> StoreError:
        return StoreError(f"{self.location}: {mask(' '.join(str(error).split()), self._secrets)}")


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ConfigError(
            "a cache in PostgreSQL needs the driver: pip install 'judge-eval[postgres]'"
        ) from None
    return psycopg


def _for_good(error: Exception) -> bool:
    """Tell whether trying again cannot help: a wrong password, user or database."""
    state = getattr(error, "sqlstate", None) or ""
    if state[:2] in ("28", "3D"):
        return True
    words = str(error)
    return "authentication failed" in words or "does not exist" in words or "no password supplied" in words


def is_postgres(cache: object) -> bool:
    """Tell whether a cache's name is the URL of a PostgreSQL database."""
    return isinstance(cache, str) and cache.startswith(SCHEMES)


def _public(url: str) -> tuple[str, tuple[str, ...]]:
    """Return a URL without credentials and parameters, and the texts that may never be shown.

    Raises:
        ConfigError: It is not the URL of a PostgreSQL database.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError("the cache's URL cannot be read; write postgresql://host:5432/name") from None
    if not url.startswith(SCHEMES):
        raise ConfigError("the cache's URL must start with postgresql://, as in postgresql://host/name")
    told = dict(parse_qsl(parts.query))
    given = [parts.password, parts.password and unquote(parts.password)]
    given += [value for name, value in told.items() if "pass" in name]
    host = parts.hostname or told.get("host") or "localhost"
    host = f"[{host}]" if ":" in host else host
    place = f"postgresql://{host}{f':{port}' if port else ''}{parts.path}"
    return place, tuple(secret for secret in given if secret)
