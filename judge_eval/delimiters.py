"""Random delimiters around the texts that a judge is shown, and the secret that they are made from."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from judge_eval.digest import digest_parts
from judge_eval.files import open_plain

PUBLIC = b"judge_eval fence 1"
"""The key of the marks that pages, recordings and offline judges see; it is not secret."""

KEPT_IN = "cache.fence"
"""The file of a folder that keeps a secret."""
DIGITS = 9
"""Of a mark: three tokens to most models, where as many bits in hexadecimal digits take eight."""
_NUMBER = re.compile("[0-9]+")
_FEW = 8  # marks that are looked for one by one


def nonces_of(key: bytes, blocks: Sequence[Sequence[str]]) -> list[str]:
    """Make a mark for each block of texts, which stand between a pair of fences."""
    # Each follows from the key and its own block, so that what several requests have in common is written alike in all
    # of them. No mark occurs in any of the texts, whichever block they are of, and no two marks are equal: whatever a
    # text holds, it holds no fence of this conversation. Whoever knows the key can tell a mark before it is made.
    whole = "\n".join(text for block in blocks for text in block)
    data, marks = map(list, zip(_drawn(key, *blocks[0]), *(_draw(key, *block) for block in blocks[1:]), strict=True))
    while redrawn := _taken(marks, whole):
        # From all texts: no text can hold the marks that are drawn because of it.
        salt = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()
        for place in redrawn:
            data[place] = hashlib.sha256(data[place] + salt + place.to_bytes(8, "big")).digest()
            marks[place] = _mark(key, data[place])
    return marks


def _draw(key: bytes, *block: str) -> tuple[bytes, str]:
    data = digest_parts(block)
    return data, _mark(key, data)


_drawn = lru_cache(64)(_draw)
"""What all requests of a trace have in common is drawn once."""


def _mark(key: bytes, data: bytes) -> str:
    number = int.from_bytes(hmac.digest(key, data, "sha256"), "big")
    return f"{number % 10**DIGITS:0{DIGITS}}"


def _taken(marks: Sequence[str], whole: str) -> list[int]:
    if len(marks) <= _FEW:
        present = {mark for mark in marks if mark in whole}
    else:  # one pass over the text, however many marks
        wanted, runs = set(marks), _NUMBER.findall(whole)
        windows = (run[at : at + DIGITS] for run in runs for at in range(len(run) - DIGITS + 1))
        present = {window for window in windows if window in wanted}
    places = []
    for place, mark in enumerate(marks):
        if mark in present:
            places.append(place)
        present.add(mark)
    return places


@cache
def process_secret() -> bytes:
    """Return 32 random bytes, the same until this process ends."""
    return secrets.token_bytes(32)


def stored_secret(folder: Path) -> bytes:
    """Return the 32 bytes that an existing folder keeps, drawn by the first process that asks."""
    # The file is its owner's alone and appears whole, in one step; of several processes that make it at once
    # one wins, and all read its bytes. A file that is none of this package's or that others may read is
    # replaced. Where the folder cannot be written the bytes are those of this process.
    path = folder / KEPT_IN
    kept = _read(path)
    if kept is not None:
        return kept
    beside = folder / f".new-fence-{secrets.token_hex(8)}"
    with suppress(OSError):
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(beside, path)
            except FileExistsError:  # what could not be read above, unless another process was faster
                if _read(path) is None:
                    beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    return _read(path) or process_secret()


def _read(path: Path) -> bytes | None:
    with suppress(OSError), open_plain(path) as file:
        private = os.name != "posix" or not os.fstat(file.fileno()).st_mode & 0o077
        kept = file.read(64)
        return kept if private and len(kept) == 32 else None
    return None
