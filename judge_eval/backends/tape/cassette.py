"""Cassettes: recorded answers in a file that people can review."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib.parse import urlsplit

from judge_eval.backends.base import Identity
from judge_eval.errors import ConfigError, DataError, RefusedError
from judge_eval.files import hold, replacing
from judge_eval.foreign import read_json
from judge_eval.wire import Completion, Request, Usage, answer_row

FORMAT = 1
_USAGE = tuple(each.name for each in fields(Usage))
_WHO = 500  # characters of a backend's name and parameters shown in an error
_ASKED = 100  # characters of the question and of the first passage shown for review

TapeRow: TypeAlias = dict[str, Any]


@dataclass
class Tape:
    """What a cassette holds."""

    identity: Identity | None = None
    """Who answered; None where that was not to be stored."""
    rows: dict[str, TapeRow] = field(default_factory=dict)
    """The answers by the digest of their request."""


def tape_row(request: Request, answer: Completion | RefusedError) -> TapeRow:
    """Write an answer down with what was asked, in short."""
    row: TapeRow = {"trace_id": request.trace_id, "chunk_ids": list(request.chunk_ids)}
    row["asked"] = _short(request.query)
    row["passage"] = _short(request.passages[0].text) if request.passages else ""
    if request.sample:
        row["sample"] = request.sample
    if request.origin is not None:
        row["repair"] = True
    if isinstance(answer, RefusedError):
        row["refused"] = answer.detail
    else:
        usage = {name: getattr(answer.usage, name) for name in _USAGE if getattr(answer.usage, name)}
        row |= {"reply": answer.text, "finish": answer.finish, "model": answer.model, "usage": usage}
        if answer.dropped:
            row["dropped"] = list(answer.dropped)
        if answer.answers:
            row["answers"] = list(map(answer_row, answer.answers))
        if answer.logprobs:
            row["logprobs"] = [[each.token, each.logprob, list(each.top)] for each in answer.logprobs]
    row["key"] = request.digest.hex()
    return row


def answer_in(row: TapeRow) -> Completion | RefusedError:
    """Read what `tape_row` wrote.

    Raises:
        ValueError: It is not that.
    """
    if not isinstance(row, dict):
        raise ValueError("not an object")
    if "refused" in row:
        return RefusedError(str(row["refused"]))
    try:
        if not isinstance(row["usage"], dict):
            raise ValueError("field 'usage' is not an object")
        usage = [row["usage"].get(name, 0) for name in _USAGE]
        parts = [row["reply"], row["finish"], usage, row["model"], row.get("dropped", [])]
        parts += [row.get("logprobs", []), row.get("answers", [])]
        return Completion.decode(json.dumps(parts).encode())
    except KeyError as error:
        raise ValueError(f"field {error} is missing") from None


def read(path: Path) -> Tape:
    """Read a cassette; a torn last line is left out, and of two answers to one request the later counts.

    Raises:
        DataError: A line is not what was written; the message names file and line.
        ConfigError: There is no such file, or it cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such cassette; make it with --record {path}") from None
    except OSError as error:
        raise ConfigError(f"{path}: the cassette cannot be read: {error.strerror}") from None
    return _parse(path, data)


def append(path: Path, identity: Identity | None, rows: Sequence[TapeRow]) -> None:
    """Add lines to a cassette, whole and safe from other processes that do the same; starts one if needed.

    Raises:
        ConfigError: The file is another backend's, or cannot be written.
    """
    with _locked(path) as file:
        size = file.seek(0, os.SEEK_END)
        lines = b"" if size else _line(_header(identity))
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                _mend(path, file)
            file.seek(0)
            _check_header(path, file.readline(), identity)
            file.seek(0, os.SEEK_END)
        file.write(lines + b"".join(map(_line, rows)))
        file.flush()


def tidy(path: Path) -> None:
    """Rewrite a cassette in its lasting order, one line a request.

    Raises:
        DataError: A line is not what was written.
        ConfigError: The file cannot be written.
    """
    if not path.exists():
        return
    with _locked(path) as file:
        file.seek(0)
        data = file.read()
        if not data:
            return
        tape = _parse(path, data)
        rows = sorted(tape.rows.values(), key=_order)
        try:
            lines = [_line(_header(tape.identity)), *map(_line, rows)]
        except ValueError:
            message = "NaN or an infinity, which are no JSON, stand in a line; mend it, or delete it"
            raise DataError(message, file=str(path)) from None
        if b"".join(lines) == data:
            return
        with replacing(path, mode=path.stat().st_mode & 0o777) as made:
            made.writelines(lines)


def _parse(path: Path, data: bytes) -> Tape:
    *lines, rest = data.split(b"\n")
    lines += [rest] if rest else []
    if not lines:
        return Tape()
    tape = Tape(_read_header(path, lines[0]))
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        try:
            row = read_json(line)
            answer_in(row)
            _order(row)
            tape.rows[row["key"]] = row
        except (ValueError, KeyError) as error:
            if rest and number == len(lines):
                break
            what = str(error)[:200].encode("utf-8", "replace").decode()
            message = f"not a recorded answer ({what}); mend the line, or delete it and record it again"
            raise DataError(message, file=str(path), line=number) from None
    return tape


def _header(identity: Identity | None) -> TapeRow:
    who: TapeRow | None = None
    if identity is not None:
        if "@" in urlsplit(identity.base_url).netloc:
            raise ConfigError(
                "the base URL holds a user name or password, which a cassette must not keep; "
                "give the key in the environment instead"
            )
        who = {
            "provider": identity.provider,
            "model": identity.model,
            "base_url": identity.base_url,
            "params": [list(pair) for pair in identity.params],
        }
    return {"cassette": FORMAT, "backend": who}


def _read_header(path: Path, line: bytes) -> Identity | None:
    try:
        header = read_json(line)
        if header["cassette"] != FORMAT:
            raise ValueError(f"format {header['cassette']!r}, and this version reads {FORMAT}")
        who = header["backend"]
        if who is None:
            return None
        params = tuple((name, value) for name, value in who["params"])
        texts = (who["provider"], who["model"], who["base_url"])
        "".join([*texts, *(text for pair in params for text in pair)]).encode()
        return Identity(*texts, params)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"not the first line of a cassette: {str(error)[:200]}", file=str(path), line=1
        ) from None


def _check_header(path: Path, line: bytes, identity: Identity | None) -> None:
    there = _read_header(path, line)
    if there != identity:
        raise ConfigError(
            f"{path}: the cassette holds the answers of {_who(there)}, not of {_who(identity)}; "
            "record into another file, or delete this one"
        )


def _who(identity: Identity | None) -> str:
    if identity is None:
        return "a backend without a name"
    params = ", ".join(f"{name}={value}" for name, value in identity.params)
    said = " ".join(filter(None, [f"{identity.provider}/{identity.model}", identity.base_url, params]))
    return said if len(said) <= _WHO else said[:_WHO] + "…"


def _mend(path: Path, file: IO[bytes]) -> None:
    """Give the last line its end, or remove it where it was torn."""
    file.seek(0)
    data = file.read()
    start = data.rfind(b"\n") + 1
    try:
        read_json(data[start:])
        file.write(b"\n")
    except ValueError:
        if not start:
            raise DataError("not the first line of a cassette", file=str(path), line=1) from None
        file.truncate(start)


def _line(row: TapeRow) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(row, allow_nan=False).encode() + b"\n"


def _order(row: TapeRow) -> tuple[str, list[str], bool, int, str]:
    """Say where a row stands among others.

    Raises:
        ValueError: Trace, chunks, sample or key are not what `tape_row` writes.
    """
    trace, chunks = row.get("trace_id", ""), row.get("chunk_ids", [])
    sample, key = row.get("sample", 0), row["key"]
    if not isinstance(trace, str) or not isinstance(sample, int) or not isinstance(key, str):
        raise ValueError("'trace_id' or 'key' is no text, or 'sample' no number")
    if not isinstance(chunks, list) or not all(isinstance(chunk, str) for chunk in chunks):
        raise ValueError("'chunk_ids' is not a list of texts")
    return trace, chunks, "repair" in row, sample, key


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _ASKED else text[: _ASKED - 1] + "…"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """Open a cassette for reading and appending, alone among all processes that do it this way."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with path.open("a+b") as file:
                hold(file)
                if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    yield file
                    return
            # Rewritten while waiting: what was opened is no longer the cassette.
    except OSError as error:
        raise ConfigError(f"{path}: the cassette cannot be written: {error.strerror}") from None
