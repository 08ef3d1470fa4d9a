"""The digest of a dataset, and the shard that a trace falls into."""

from __future__ import annotations

import hashlib

from judge_eval.errors import DataError
from judge_eval.schema import Trace


class Fingerprint:
    """The digest of a dataset, fed trace by trace, and the guard of its ids."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._ids: set[str] = set()
        self.traces = self.chunks = 0
        self.digests = bytearray()
        """32 bytes a trace, in order."""

    def add(self, trace: Trace) -> None:
        """Take a trace in.

        Raises:
            DataError: Its id was there before.
        """
        if trace.id in self._ids:
            raise DataError(
                f"the trace id {trace.id!r} stands twice in the dataset; ids are unique", field="id"
            )
        self._ids.add(trace.id)
        self._hash.update(f"{len(trace.id)}:{trace.id}{trace.digest}".encode())
        self.digests += bytes.fromhex(trace.digest)
        self.traces += 1
        self.chunks += len(trace.chunks)

    def hexdigest(self) -> str:
        """64 hexadecimal digits over the ids and digests in order."""
        return self._hash.hexdigest()


def shard_of(trace_id: str, count: int) -> int:
    """Return the shard, from 1 to `count`, that a trace falls into, whatever other traces there are."""
    return int.from_bytes(hashlib.sha256(trace_id.encode("utf-8", "surrogatepass")).digest()[:8]) % count + 1
