"""The store in a PostgreSQL database, shared by machines, with leases that expire."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judge_eval.backends.storing import statements
from judge_eval.backends.storing.connections import Connections
from judge_eval.backends.storing.seals import MOST_BYTES, Sealer, same_sealer
from judge_eval.backends.storing.store import KEY_BYTES, KeyClaim, KeyedRow, StoreInfo, check_keys
from judge_eval.errors import StoreError

_BATCH = 1000
_COUNTED = 1_000_000
"""Above so many rows, their number is the database's estimate: counting them would take seconds."""


class PostgresStore:
    """Completions in one table of a PostgreSQL database; the extra `postgres` brings the driver.

    Nothing is opened before the first use. The table is made by `create` (`judge-eval cache init`). A lost
    connection is opened again and the statement repeated, for up to `timeout` seconds: every statement
    here may be repeated without harm.

    A lease is a row with a time and a holder, renewed by a thread while it is held; where its holder dies or
    stands still, it is free after `lease` seconds. The holder is a fencing token: an answer that comes after
    its lease has passed to somebody else is told apart by it.

    Args:
        url: Where the database is, as in `postgresql://user:password@host:5432/name`.
        timeout: Seconds to go on trying when the server cannot be reached.
        lease: Seconds after which the lease of a dead process ends.

    Raises:
        ConfigError: It is not such a URL, or one that can be read in more than one way; the driver is not
            installed.
    """

    def __init__(self, url: str, *, timeout: float = 60.0, lease: float = 30.0) -> None:
        self._url, self.timeout, self.lease = url, timeout, lease
        self._reset()
        self.location = self._connections.location
        self.secret = self._connections.secret
        """Whether the URL holds a password, and may not be written down."""
        self._sealer = Sealer.from_environment()
        self._refused: set[tuple[bytes, int]] = set()

    @property
    def corrupt(self) -> int:
        """How many rows were refused so far because they are not what was written."""
        return len(self._refused)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._connections = Connections(self._url, self.timeout)
        self._held: set[bytes] = set()
        self._holder = uuid.uuid4()
        self._stop = threading.Event()
        self._renewing: threading.Thread | None = None
        self._looked_over = False

    def __repr__(self) -> str:
        return f"PostgresStore({self.location!r})"

    def __getstate__(self) -> tuple[str, float, float, str]:
        return self._url, self.timeout, self.lease, self._sealer.mark

    def __setstate__(self, state: tuple[str, float, float, str]) -> None:
        PostgresStore.__init__(self, state[0], timeout=state[1], lease=state[2])
        self._sealer = same_sealer(state[3])

    def create(self) -> None:
        """Make the table where it is not there.

        Raises:
            StoreError: The database cannot be reached, does not let us, or has another table of that name.
        """
        self._own()
        self._connections.run(statements.CREATE, ())
        self._run("SELECT 1")  # which looks the table over

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys of 32 bytes; None where there is no undamaged row.

        Raises:
            StoreError: The database cannot be read; the message says the way out.
        """
        values: dict[bytes, bytes | None] = {}
        for start in range(0, len(keys), _BATCH):
            for key, row in self._run(statements.GET, [MOST_BYTES, list(keys[start : start + _BATCH])]):
                values[bytes(key)] = self._open(bytes(key), row)
        return [values.get(key) for key in keys]

    def put_many(self, items: Sequence[KeyedRow]) -> None:
        """Write all rows in one statement, or none; their leases end with it.

        Raises:
            StoreError: The database cannot be written; the message says the way out.
        """
        keys, rows = self._sealed(items)
        if keys:
            self._run(statements.PUT, [keys, rows])
            self._forget(keys)

    def put_claimed(self, items: Sequence[KeyedRow]) -> int:
        """Write all rows in one statement, or none, and end their leases; what another wrote since stays.

        Returns:
            How many keys had been leased to, or written by, somebody else.

        Raises:
            StoreError: The database cannot be written; the message says the way out.
        """
        keys, rows = self._sealed(items)
        if not keys:
            return 0
        given = {"keys": keys, "rows": rows, "holder": self._holder}
        ((late,),) = self._run(statements.PUT_CLAIMED, given)
        self._forget(keys)
        return int(late)

    def blocks(self) -> Iterator[list[tuple[bytes, object]]]:
        """Yield every key with its row as it stands, some at a time.

        Raises:
            StoreError: The database cannot be read.
        """
        last = b""
        while rows := self._run(statements.WALK, [last, _BATCH]):
            last = bytes(rows[-1][0])
            yield [(bytes(key), bytes(row)) for key, row in rows if len(key) == KEY_BYTES]

    def info(self) -> StoreInfo:
        """Count rows (above a million, by the database's estimate) and bytes.

        Raises:
            StoreError: The database cannot be read.
        """
        ((entries, size, read_only),) = self._run(statements.INFO, [statements.TABLE])
        if entries < _COUNTED:
            ((entries,),) = self._run(statements.COUNT)
        return StoreInfo(self.location, entries, size, read_only)

    def clear(self) -> None:
        """Remove every row.

        Raises:
            StoreError: The database cannot be written.
        """
        self._run(statements.CLEAR)

    def claim_many(self, keys: Sequence[bytes]) -> list[KeyClaim]:
        """Look up keys, and lease those that have no row and that nobody else holds, in one statement.

        Raises:
            StoreError: The database cannot be written.
        """
        self._own()
        with self._lock:
            free = [key for key in dict.fromkeys(keys) if key not in self._held]
            self._held.update(free)
            holder = self._holder
        found: dict[bytes, KeyClaim] = {}
        try:
            asked = {
                "keys": list(keys),
                "free": free,
                "holder": holder,
                "lease": self.lease,
                "most": MOST_BYTES,
            }
            for key, row, leased in self._run(statements.CLAIM, asked):
                value = None if leased else self._open(bytes(key), row)
                found[bytes(key)] = KeyClaim(value, leased, not leased and value is None)
        finally:
            self._forget([key for key in free if key not in found or not found[key].leased])
        if any(claim.leased for claim in found.values()):
            self._renew()
        nothing, again = KeyClaim(None, False), set[bytes]()
        claims = []
        for key in keys:  # of two who ask for one key at once the first has it
            claim = found.get(key, nothing)
            claims.append(nothing if claim.leased and key in again else claim)
            again.add(key)
        return claims

    def take_lease(self, key: bytes) -> bool:
        """Lease a key for this process, whether or not it has a row; False while someone else holds it.

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
            taken = bool(self._run(statements.TAKE, [key, holder, self.lease]))
        finally:
            if not taken:
                self._forget([key])
        if taken:
            self._renew()
        return taken

    def release_lease(self, key: bytes) -> None:
        """Give a lease back; where the database cannot be reached, it expires by itself."""
        self.release_many([key])

    def release_many(self, keys: Sequence[bytes]) -> None:
        """Give leases back; where the database cannot be reached, they expire by themselves."""
        self._own()
        with self._lock:
            keys = [key for key in keys if key in self._held]
            self._held.difference_update(keys)
            holder = self._holder
        if keys:
            with contextlib.suppress(StoreError):  # what they were held for is done, and may be paid for
                self._run(statements.RELEASE, {"keys": keys, "holder": holder})

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
                    self._run(statements.RENEW, [self.lease, held, holder])

    def _forget(self, keys: Sequence[bytes]) -> None:
        with self._lock:
            self._held.difference_update(keys)

    def _sealed(self, items: Sequence[KeyedRow]) -> tuple[list[bytes], list[bytes]]:
        """Return keys and sealed rows, each key once, in one order for all writers."""
        check_keys(items)
        rows = sorted({key: self._sealer.seal(key, value) for key, value in items}.items())
        return [key for key, _ in rows], [row for _, row in rows]

    def _open(self, key: bytes, row: Any) -> bytes | None:
        value = None if row is None else self._sealer.unseal(key, bytes(row))
        if value is None:
            self._refused.add((key, hash(row if row is None else bytes(row))))
        return value

    def _own(self) -> None:
        if self._pid != os.getpid():  # a fork shares neither connections nor leases with its parent
            self._reset()

    def _run(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Run a statement, on a table that was looked over before."""
        self._own()
        if not self._looked_over:
            columns = self._connections.run(statements.LOOK_OVER, [statements.TABLE])
            statements.check_columns(self.location, columns)
            self._looked_over = True
        return self._connections.run(statement, values)
