"""Opening a file of data, unpacked and as UTF-8, with an error that names it where that fails."""

from __future__ import annotations

import codecs
import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from judge_eval import limits
from judge_eval.errors import DataError

PACKED = {b"BZh": "bz2", b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "lzma"}
"""What a packed file begins with, and the module that unpacks it."""
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""What a text of two or four bytes a character begins with; the longer marks first."""
_BLOCK = 1 << 20


@contextmanager
def reading_file(name: str | Path) -> Iterator[None]:
    """Read a file within the block."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(name)) from None


def head_of(path: Path, name: str | Path | None = None, size: int = 65_536) -> bytes:
    """Return the first bytes of a file, without the mark of UTF-8."""
    with reading_file(name or path), path.open("rb") as file:
        return file.read(size).removeprefix(codecs.BOM_UTF8)


def first_line(path: Path, name: str | Path | None = None) -> bytes:
    """Return the first line of a file, as far as it stands in its head."""
    return head_of(path, name).partition(b"\n")[0]


def is_stream(path: Path) -> bool:
    """Tell whether a path can be read only once: a pipe, `<(command)` of a shell, a terminal."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def steady(path: Path) -> Iterator[Path]:
    """Yield a file or folder that can be read more than once, packed files unpacked and texts in UTF-8."""
    # What can be read only once, is packed (bzip2, gzip, xz) or is written in UTF-16 with its mark is copied
    # to a temporary file.
    with ExitStack() as stack:
        name = str(path)
        if is_stream(path):
            with reading_file(path):
                source = path.open("rb")
            path = stack.enter_context(copied(source, name, path.suffix))
        if path.is_file():
            with reading_file(name), path.open("rb") as file:
                packed = _begins(file, PACKED)
            if packed is not None:
                suffix = Path(path.stem).suffix if path.suffix in (".bz2", ".gz", ".xz") else path.suffix
                most = max(limits.UNPACKED, limits.RATIO * path.stat().st_size)
                source = _Unpacking(path, packed, most, name)  # type: ignore[assignment]
                path = stack.enter_context(copied(source, name, suffix))
            with reading_file(name), path.open("rb") as file:
                encoding = _begins(file, MARKS)
            if encoding is not None:
                path = stack.enter_context(_in_utf8(path, encoding, name))
        yield path


def _begins(file: BinaryIO, known: dict[bytes, str]) -> str | None:
    head = file.read(8)
    return next((value for mark, value in known.items() if head.startswith(mark)), None)


@contextmanager
def copied(source: BinaryIO, name: str, suffix: str = "") -> Iterator[Path]:
    """Copy a stream to a temporary file, read as JSON Lines where no suffix says otherwise, and close it."""
    with tempfile.NamedTemporaryFile(prefix="judge_eval-", suffix=suffix or ".jsonl") as file:
        with reading_file(name), source:
            shutil.copyfileobj(source, file, _BLOCK)
            file.flush()
        yield Path(file.name)


class _Unpacking(io.RawIOBase):
    """What a packed file holds, up to a limit."""

    def __init__(self, path: Path, module: str, most: int, name: str) -> None:
        import importlib

        try:
            self._file = importlib.import_module(module).open(path, "rb")
        except ImportError:
            raise DataError(f"packed, and this Python has no {module}; unpack it first", file=name) from None
        self._left, self._most, self._name, self._module = most, most, name, module

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes."""
        try:
            data: bytes = self._file.read(_BLOCK if size < 0 else size)
        except Exception as error:  # zlib and lzma have errors of their own, beside OSError and EOFError
            raise DataError(f"cannot be unpacked ({self._module}): {error}", file=self._name) from None
        self._left -= len(data)
        if self._left < 0:
            fault = f"unpacks to more than {self._most // 2**20:,} MiB; unpack it yourself"
            raise DataError(fault, file=self._name)
        return data

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextmanager
def _in_utf8(path: Path, encoding: str, name: str) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix="judge_eval-", suffix=path.suffix or ".jsonl") as out:
        try:
            with reading_file(name), path.open(encoding=encoding, newline="") as file:
                while block := file.read(_BLOCK):
                    out.write(block.encode("utf-8", "surrogatepass"))
        except UnicodeError as error:
            raise DataError(f"not {encoding.upper()}, as its mark says: {error}", file=name) from None
        out.flush()
        yield Path(out.name)
