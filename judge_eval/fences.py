"""The marks of the fences between which a judge is shown texts, and the secret they are made from."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from judge_eval.digest import digest_parts

PUBLIC = b"judge_eval fence 1"
"""The key of the marks that pages, recordings and offline judges see; it is no secret."""

KEPT_IN = "cache.fence"
"""The file of a folder that keeps a secret."""
DIGITS = 9
"""Of a mark: three tokens to most models, where as many bits in hexadecimal digits take eight."""


def marks_of(key: bytes, blocks: Sequence[Sequence[str]]) -> list[str]:
    """Make a mark for each block of texts.

    Each follows from the key and its own block, so that what several requests have in common is written
    alike in all of them. No mark occurs in any of the texts, whichever block they are of, and no two marks
    are equal: whatever a text holds, it holds no fence of this conversation.

    Args:
        key: Whoever knows it can tell a mark before it is made.
        blocks: The texts between each pair of fences, and what else the mark is to follow from.
    """
    whole = "\n".join(text for block in blocks for text in block)
    marks: list[str] = []
    for block in blocks:
        data = digest_parts(block)
        while True:
            number = int.from_bytes(hmac.digest(key, data, "sha256"), "big")
            mark = f"{number % 10**DIGITS:0{DIGITS}}"
            if mark not in whole and mark not in marks:
                marks.append(mark)
                break
            data = hashlib.sha256(data).digest()
    return marks


@cache
def secret_of_process() -> bytes:
    """Return 32 random bytes, the same until this process ends."""
    return secrets.token_bytes(32)


def kept_secret(folder: Path) -> bytes:
    """Return the 32 bytes that a folder keeps; they are drawn by the first process that asks.

    The file is its owner's alone and appears whole, in one step; of several processes that make it at once
    one wins, and all read its bytes. A file that is none of this package's or that others may read is
    replaced. Where the folder cannot be written the bytes are those of this process.

    Args:
        folder: A folder that exists.
    """
    path = folder / KEPT_IN
    kept = _read(path)
    if kept is not None:
        return kept
    beside = folder / f".new-fence-{secrets.token_hex(8)}"
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
                file.flush()
                os.fsync(file.fileno())
            if os.path.lexists(path):  # what could not be read above, unless another process was faster
                if _read(path) is None:
                    beside.replace(path)
            else:
                with suppress(FileExistsError):
                    os.link(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError:
        return _read(path) or secret_of_process()
    return _read(path) or secret_of_process()


def _read(path: Path) -> bytes | None:
    """Read a secret; None where there is none that was kept well."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or (os.name == "posix" and status.st_mode & 0o077):
            return None
        with suppress(OSError):
            kept = file.read(64)
            return kept if len(kept) == 32 else None
    return None
