"""Opening a file of data, unpacked and as UTF-8, with an error that names it where that fails."""

import codecs
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from judge_eval import limits
from judge_eval.errors import DataError
from judge_eval.files import is_device
from judge_eval.safe_text import check_text

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


def data_path(data: str | Path) -> Path:
    """Return the path of data; raises `DataError` if a text is the data themselves."""
    check_text("data", str(data))
    if str(data).lstrip()[:1] in ("{", "[") and not os.path.exists(data):  # noqa: PTH110  # a name of any length
        raise DataError("is a text, and no file has this name; give what it holds, such as `json.loads(text)`")
    return Path(data)


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
            if is_device(source):
                source.close()
                raise DataError("a device, not a file of data", file=name)
            path = stack.enter_context(copied(source, name, path.suffix))
        if path.is_file():
            if (module := _begins(path, name, PACKED)) is not None:
                suffix = Path(path.stem).suffix if path.suffix in (".bz2", ".gz", ".xz") else path.suffix
                path = stack.enter_context(_in_a_file(_unpacked(path, module), name, suffix))
            if (encoding := _begins(path, name, MARKS)) is not None:
                path = stack.enter_context(_in_a_file(_in_utf8(path, encoding), name, path.suffix))
        yield path


def _begins(path: Path, name: str, known: dict[bytes, str]) -> str | None:
    head = head_of(path, name, 8)
    return next((value for mark, value in known.items() if head.startswith(mark)), None)


def copied(source: BinaryIO, name: str, suffix: str = "") -> AbstractContextManager[Path]:
    """Copy a stream to a temporary file, read as JSON Lines where no suffix says otherwise, and close it."""
    return _in_a_file(_blocks(source), name, suffix)


@contextmanager
def _in_a_file(blocks: Iterable[bytes], name: str, suffix: str) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix="judge_eval-", suffix=suffix or ".jsonl") as file:
        try:
            with reading_file(name):
                file.writelines(blocks)
                file.flush()
        except DataError as error:
            raise error.at(file=name) from None
        yield Path(file.name)


def _blocks(source: BinaryIO) -> Iterator[bytes]:
    with source:
        while block := source.read(_BLOCK):
            yield block


def _unpacked(path: Path, module: str) -> Iterator[bytes]:
    """Yield what a packed file holds, up to a limit."""
    most = left = max(limits.UNPACKED, limits.RATIO * path.stat().st_size)
    try:
        for block in _blocks(import_module(module).open(path, "rb")):
            left -= len(block)
            if left < 0:
                raise DataError(f"unpacks to more than {most // 2**20:,} MiB; unpack it yourself")
            yield block
    except DataError:
        raise
    except ImportError:
        raise DataError(f"packed, and this Python has no {module}; unpack it first") from None
    except Exception as error:  # zlib and lzma have errors of their own, beside OSError and EOFError
        raise DataError(f"cannot be unpacked ({module}): {error}") from None


def _in_utf8(path: Path, encoding: str) -> Iterator[bytes]:
    try:
        with path.open(encoding=encoding, newline="") as file:
            while block := file.read(_BLOCK):
                yield block.encode("utf-8", "surrogatepass")
    except UnicodeError as error:
        raise DataError(f"not {encoding.upper()}, as its mark says: {error}") from None
