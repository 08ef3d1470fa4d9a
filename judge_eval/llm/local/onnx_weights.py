"""Which files beside a model in ONNX hold its weights."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path, PurePosixPath
from typing import Final

from judge_eval.errors import ConfigError

_PARTS: Final[Mapping[str, Mapping[int, str]]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "place"},
}
"""By message of onnx.proto, the numbers of those fields that lead to the places of tensors outside the file."""
_FIXED: Final = {1: 8, 5: 4}
"""By wire type of Protocol Buffers, the bytes of a number."""


def weight_files(model: Path) -> tuple[str, ...]:
    """Return the names of the files that hold tensors of a model, relative to its folder and sorted.

    Raises:
        ConfigError: The file cannot be read, is not ONNX, or names a file outside its folder.
    """
    names, why = list[str](), "it is not a model in ONNX"
    try:
        with (
            model.open("rb") as file,
            mmap(file.fileno(), 0, access=ACCESS_READ) as mapped,
            suppress(IndexError, RecursionError, ValueError),  # before it is closed: their frames hold parts of it
        ):
            names, why = sorted(set(_named(memoryview(mapped), "model"))), ""
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        why = error.strerror or why if isinstance(error, OSError) else why
    if why:
        raise ConfigError(f"{model} cannot be loaded: {why}")
    for name in names:
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise ConfigError(f"{model} names weights outside its folder ({name!r}); they are not read")
    return tuple(names)


def _named(data: memoryview, kind: str) -> Iterator[str]:
    parts = _PARTS[kind]
    for number, part in _fields(data):
        if parts.get(number) == "place":
            entry = dict(_fields(part))
            if bytes(entry.get(1, b"")) == b"location":
                yield bytes(entry.get(2, b"")).decode()
        elif number in parts:
            yield from _named(part, parts[number])


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the fields of a message that have a length: their numbers and contents."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        wire = key & 7
        if wire == 0:
            _, at = _number(data, at)
        elif wire in _FIXED:
            at += _FIXED[wire]
        elif wire == 2:
            size, at = _number(data, at)
            if size > len(data) - at:
                raise ValueError("a field is longer than its message")
            yield key >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError(f"no wire type {wire}")


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte; return it and the place behind it."""
    value = 0
    for place in range(10):
        byte = data[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise ValueError("a number has more than 64 bits")
