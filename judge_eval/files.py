"""Files written whole, held against other processes, and opened where no link leads elsewhere."""

import csv
import errno
import io
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

from judge_eval.errors import ConfigError

_SAFELY = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
"""How every file that may lie in a stranger's folder is opened, where the system knows these flags."""
_READ_AHEAD = 2**16
"""Bytes: lines of results are about 10 kB, and few places of a file are read one by one."""


@contextmanager
def writing_named(path: Path) -> Iterator[None]:
    """Write a file that the user named within the block; raises `ConfigError` if that fails."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None


def is_plain(path: Path) -> bool:
    """Tell whether a path is a file itself: no link to one, no folder, no pipe, no device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def open_plain(path: Path, mode: Literal["rb", "ab", "ab+"] = "rb") -> IO[bytes]:
    """Open a file that is a file itself: neither a link is followed nor a pipe waited for."""
    # A folder that came from a stranger may hold links to files that are nobody else's business. The folders
    # on the way there may be reached through links: the user named that path. `ab` and `ab+` make
    # the file if it is not there, and write without a buffer.
    flags = {"rb": os.O_RDONLY, "ab": os.O_WRONLY, "ab+": os.O_RDWR}[mode]
    if mode != "rb":
        flags |= os.O_APPEND | os.O_CREAT
    if path.is_symlink():  # said alike on every system; O_NOFOLLOW keeps it true
        raise OSError(errno.ELOOP, "it is a link, and links in a folder of runs are not followed", str(path))
    # A pipe or a device is opened without waiting, so that it can be refused.
    number = os.open(path, flags | _SAFELY, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(number, mode, _READ_AHEAD if mode == "rb" else 0)
    except BaseException:
        os.close(number)
        raise


def is_device(file: IO[bytes]) -> bool:
    """Tell whether an open file is a device that may never end; a terminal is none."""
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not file.isatty())


def read_named(path: Path) -> bytes:
    """Read all of a file, also through a link or a pipe, because the user named it; a device raises `OSError`."""
    with path.open("rb") as file:
        if is_device(file):
            raise OSError(errno.EINVAL, "it is a device, not a file", str(path))
        return file.read()


def read_plain(path: Path, most: int) -> bytes:
    """Read all of a file that is a file itself, of at most so many bytes; see `open_plain`."""
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
        return file.read(most)


@contextmanager
def replacing(path: Path, *, mode: int | None = None, durable: bool = True) -> Iterator[IO[bytes]]:
    """Write a file beside `path` that takes its place in one step when the block ends well."""
    # No reader and no kill ever sees half of it: the bytes are on the disk before the name changes. Where the block
    # raises, `path` stays as it was and the file beside it is removed. `mode` are the permissions, such as 0o600,
    # before a byte is written. Not `durable` is what a power cut may take: it does not wait for the disk. A name that
    # nobody can have put a link under, and that no other writer of the same file shares.
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o666 if mode is None else mode)
    try:
        with os.fdopen(number, "wb") as file:
            if mode is not None:
                beside.chmod(mode)
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step; see `replacing`."""
    with replacing(path) as file:
        file.write(data)


def absent(folder: Path) -> list[Path]:
    """Return a folder that does not exist, and those above it that do not either."""
    return [path for path in (folder, *folder.parents) if not path.exists()]


def remove_empty(*folders: Path) -> None:
    """Remove folders, the innermost first, up to one that holds something."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


@contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and keep others that ask for it waiting, if the system can; it leaves no file."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    while True:
        number = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # a network file system may not support such locks
                fcntl.flock(number, fcntl.LOCK_EX)
            folder.mkdir(parents=True, exist_ok=True)
            if os.path.samestat(os.fstat(number), folder.stat()):  # else whoever held it removed it
                yield
                return
        finally:
            os.close(number)


def hold(file: IO[bytes], *, wait: bool = True) -> bool:
    """Take a lock on an open file until it is closed, and return whether it is held now."""
    # The system frees it however the process ends. `wait` waits while another process holds it. On a system
    # without such locks nobody is kept out, and True is returned.
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def json_list(head: str, items: Iterable[str], tail: str) -> Iterator[str]:
    """Yield a JSON text in parts: the items, a line each, in the list that `head` begins and `tail` ends."""
    yield head
    for number, item in enumerate(items):
        yield (",\n" if number else "\n") + item
    yield f"\n{tail}\n"


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Write rows as CSV, a line each; a cell that holds a line's end of any kind is quoted."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")  # else Python leaves a lone carriage return unquoted
    lines = []
    for row in rows:
        writer.writerow(row)
        lines.append(out.getvalue()[:-2] + "\n")
        out.seek(0)
        out.truncate()
    return "".join(lines)
