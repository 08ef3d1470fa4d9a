"""The store in a PostgreSQL database, shared by machines, with leases that expire."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Sequence
from typing import Any

from judge_eval.backends.storing.connections import TABLE, Connections
from judge_eval.backends.storing.store import StoreInfo, check_keys, seal, unseal
from judge_eval.errors import StoreError

_BATCH = 1000
_COUNTED = 1_000_000
"""Above so many rows, their number is the database's estimate: counting them would take seconds."""


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
        ConfigError: It is not such a URL, or one that can be read in more than one way; the driver is not
            installed.
    """

    far = True
    """Calls cross a network: they are made in threads."""

    def __init__(self, url: str, *, timeout: float = 60.0, lease: float = 30.0) -> None:
        self._url, self.timeout, self.lease = url, timeout, lease
        self._reset()
        self.location = self._connections.location
        self.secret = self._connections.secret
        """Whether the URL holds a password, and may not be written down."""
        self.corrupt = 0
        """How many rows were refused so far because they are not what was written."""

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._connections = Connections(self._url, self.timeout)
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

    def create(self) -> None:
        """Make the table where it is not there.

        Raises:
            StoreError: The database cannot be reached, or does not let us.
        """
        self._run(
            f"CREATE TABLE IF NOT EXISTS {TABLE} ("
            "key bytea PRIMARY KEY, value bytea, holder uuid, until timestamptz)"
        )

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys of 32 bytes; None where there is no undamaged row.

        Raises:
            StoreError: The database cannot be read; the message says the way out.
        """
        values: dict[bytes, bytes | None] = {}
        for start in range(0, len(keys), _BATCH):
            rows = self._run(
                f"SELECT key, value FROM {TABLE} WHERE value IS NOT NULL AND key = ANY(%s)",  # noqa: S608
                [list(keys[start : start + _BATCH])],
            )
            for key, row in rows:
                value = unseal(bytes(key), bytes(row))
                values[bytes(key)] = value
                self.corrupt += value is None
        return [values.get(key) for key in keys]

    def put_many(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Write all rows in one statement, or none; their leases end with it.

        Raises:
            StoreError: The database cannot be written; the message says the way out.
        """
        check_keys(items)
        # In one order for all writers, who would wait for each other in a circle else.
        rows = sorted({key: seal(key, value) for key, value in items}.items())
        if rows:
            self._run(
                f"INSERT INTO {TABLE} (key, value) "  # noqa: S608
                "SELECT * FROM unnest(%s::bytea[], %s::bytea[]) ON CONFLICT (key) "
                "DO UPDATE SET value = excluded.value, holder = NULL, until = NULL",
                [[key for key, _ in rows], [value for _, value in rows]],
            )
            with self._lock:
                self._held.difference_update(key for key, _ in rows)

    def info(self) -> StoreInfo:
        """Count rows (above a million, by the database's estimate) and bytes.

        Raises:
            StoreError: The database cannot be read.
        """
        ((entries, size, read_only),) = self._run(
            "SELECT reltuples::bigint, pg_total_relation_size(oid), "
            "current_setting('transaction_read_only') = 'on' OR NOT has_table_privilege(oid, 'INSERT') "
            "OR NOT has_table_privilege(oid, 'UPDATE') "
            "FROM pg_class WHERE oid = %s::regclass",
            [TABLE],
        )
        if entries < _COUNTED:
            ((entries,),) = self._run(f"SELECT count(*) FROM {TABLE} WHERE value IS NOT NULL")  # noqa: S608
        return StoreInfo(self.location, entries, size, read_only)

    def clear(self) -> None:
        """Remove every row.

        Raises:
            StoreError: The database cannot be written.
        """
        self._run(f"DELETE FROM {TABLE}")  # noqa: S608

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
        taken = False
        try:
            # Our own lease is granted again: it is that of a statement whose answer was lost.
            taken = bool(
                self._run(
                    f"INSERT INTO {TABLE} AS here (key, holder, until) "  # noqa: S608
                    "VALUES (%s, %s, now() + make_interval(secs => %s)) ON CONFLICT (key) "
                    "DO UPDATE SET holder = excluded.holder, until = excluded.until "
                    "WHERE here.until IS NULL OR here.until < now() OR here.holder = excluded.holder "
                    "RETURNING 1",
                    [key, holder, self.lease],
                )
            )
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
        with contextlib.suppress(StoreError):  # what it was held for is done, and may be paid for
            for change in (
                f"DELETE FROM {TABLE} WHERE key = %s AND holder = %s AND value IS NULL",  # noqa: S608
                f"UPDATE {TABLE} SET holder = NULL, until = NULL WHERE key = %s AND holder = %s",  # noqa: S608
            ):
                self._run(change, [key, holder])

    def close(self) -> None:
        """Close the connections; a later use opens them again."""
        self._own()
        self._stop.set()
        with self._lock:
            self._renewing = None
        self._connections.close()

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
            with contextlib.suppress(StoreError):  # whoever asks next is told
                if held:
                    self._run(
                        f"UPDATE {TABLE} SET until = now() + make_interval(secs => %s) "  # noqa: S608
                        "WHERE key = ANY(%s) AND holder = %s",
                        [self.lease, held, holder],
                    )

    def _own(self) -> None:
        if self._pid != os.getpid():  # a fork shares neither connections nor leases with its parent
            self._reset()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        self._own()
        return self._connections.run(statement, values)
