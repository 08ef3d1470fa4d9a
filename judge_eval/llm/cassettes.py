"""Cassettes: recorded answers in a file that people can review."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib.parse import urlsplit

from judge_eval import limits
from judge_eval.errors import ConfigError, DataError, MissError, RefusedError
from judge_eval.files import hold, open_plain, replacing
from judge_eval.foreign import check_single_keys, read_json
from judge_eval.llm.backend import Backend, Identity, Wrapper, peek
from judge_eval.spelling import option
from judge_eval.wire import Completion, Request, Usage, answer_row

FORMAT = 1
"""The format of a cassette of one judge."""
SEVERAL = 2
"""The format of a cassette of several: the first line names them by route, and each row has a route."""
_USAGE = tuple(each.name for each in fields(Usage))
_WHO = 500  # characters of a backend's name and parameters shown in an error
_ASKED = 100  # characters of the question and of the first passage shown for review

TapeRow: TypeAlias = dict[str, Any]
JudgesByRoute: TypeAlias = Mapping[str, Identity | None]
"""Who answers, by route; a single judge has the route "". None for one whose answers are not to be stored."""


@dataclass
class Tape:
    """What a cassette holds."""

    judges: JudgesByRoute = field(default_factory=lambda: {"": None})
    """Who answered."""
    rows: dict[tuple[str, str], TapeRow] = field(default_factory=dict)
    """The answers by route and by the digest of their request; a single judge has the route ""."""
    asked: set[tuple[str, str]] = field(default_factory=set)
    """The keys of the rows that were asked for."""

    @cached_property
    def keys_by_ids(self) -> Mapping[tuple[Any, ...], set[str]]:
        """The digests of requests by the trace and chunks that their rows show."""
        keys: dict[tuple[Any, ...], set[str]] = {}
        for (_, key), row in self.rows.items():
            keys.setdefault(_ids(row), set()).add(key)
        return keys


def tape_row(request: Request, answer: Completion | RefusedError, route: str = "") -> TapeRow:
    """Return the row of an answer, with its question in short and its route."""
    row: TapeRow = {"trace_id": request.trace_id, "chunk_ids": list(request.chunk_ids)}
    if route:
        row["route"] = route
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
    """Read a row of `tape_row`; raises `ValueError` if it is not such a row."""
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
    """Read a cassette, without a torn last line; of two answers to one request the later counts."""
    try:
        with open_plain(Path(os.path.realpath(path))) as file:  # a pipe or a device may never end
            data = b"".join(_bounded_lines(path, file))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such cassette; make it with {option('record', path)}") from None
    except OSError as error:
        raise ConfigError(f"{path}: the cassette cannot be read: {error.strerror or error}") from None
    return _parse(path, data)


def _bounded_lines(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a cassette; raises `DataError` for one that is longer than a line of data may be."""
    number = 0
    while line := file.readline(limits.LINE + 1):
        number += 1
        if len(line) > limits.LINE:
            message = f"longer than {limits.LINE // 2**20} MiB; a line holds one answer"
            raise DataError(message, file=str(path), line=number)
        yield line


def append(path: Path, judges: JudgesByRoute, rows: Sequence[TapeRow]) -> None:
    """Add lines to a cassette of the same judges, safe from other processes that do so; make it if needed."""
    with _locked(path) as file:
        size = file.seek(0, os.SEEK_END)
        lines = b"" if size else _line(_header(judges))
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                _mend(path, file)
            file.seek(0)
            before = _read_header(path, next(_bounded_lines(path, file)))
            if before != judges:
                raise ConfigError(
                    f"{path}: the cassette holds the answers of {_answerers(before)}, not of {_answerers(judges)}; "
                    "record into another file, or delete this one"
                )
            file.seek(0, os.SEEK_END)
        file.write(lines + b"".join(map(_line, rows)))
        file.flush()


def tidy(path: Path, keep: Collection[tuple[str, str]] | None = None) -> int:
    """Rewrite a cassette in its final order, one line a request; raises as `read` and `append`.

    Args:
        path: The cassette.
        keep: Routes and keys of the rows to keep; None keeps all.

    Returns:
        How many rows were removed.
    """
    if not path.exists():
        return 0
    with _locked(path) as file:
        file.seek(0)
        data = b"".join(_bounded_lines(path, file))
        if not data:
            return 0
        tape = _parse(path, data)
        rows = sorted((row for key, row in tape.rows.items() if keep is None or key in keep), key=_order)
        removed = len(tape.rows) - len(rows)
        try:
            lines = [_line(_header(tape.judges)), *map(_line, rows)]
        except ValueError:
            message = "a line holds NaN or an infinity, which are not JSON; correct or delete it"
            raise DataError(message, file=str(path)) from None
        if b"".join(lines) != data:
            with replacing(path, mode=path.stat().st_mode & 0o777) as made:
                made.writelines(lines)
        return removed


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
            row = check_single_keys(line, read_json(line))
            answer_in(row)
            _order(row)
            tape.rows[row.get("route", ""), row["key"]] = row
        except (ValueError, KeyError) as error:
            if rest and number == len(lines):
                break
            what = str(error)[:200].encode("utf-8", "replace").decode()
            message = f"not a recorded answer ({what}); correct the line, or delete it and record it again"
            raise DataError(message, file=str(path), line=number) from None
    return tape


def _header(judges: JudgesByRoute) -> TapeRow:
    if judges.keys() == {""}:
        return {"cassette": FORMAT, "backend": _identity_row(judges[""])}
    return {"cassette": SEVERAL, "backends": {route: _identity_row(who) for route, who in judges.items()}}


def _identity_row(identity: Identity | None) -> TapeRow | None:
    if identity is None:
        return None
    if "@" in urlsplit(identity.base_url).netloc:
        raise ConfigError(
            "the base URL holds a user name or password, which a cassette must not keep; "
            "give the key in the environment instead"
        )
    row = asdict(identity)
    if not identity.variant:
        del row["variant"]
    return row


def _read_header(path: Path, line: bytes) -> JudgesByRoute:
    try:
        header = check_single_keys(line, read_json(line))
        if header["cassette"] == SEVERAL:
            return {str(route): _identity_in(who) for route, who in header["backends"].items()}
        if header["cassette"] != FORMAT:
            raise ValueError(f"format {header['cassette']!r}, and this version reads {FORMAT} and {SEVERAL}")
        return {"": _identity_in(header["backend"])}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"not the first line of a cassette: {str(error)[:200]}", file=str(path), line=1) from None


def _identity_in(row: TapeRow | None) -> Identity | None:
    if row is None:
        return None
    params = tuple((name, value) for name, value in row["params"])
    texts, variant = (row["provider"], row["model"], row["base_url"]), row.get("variant", "")
    "".join([*texts, variant, *(text for pair in params for text in pair)]).encode()
    return Identity(*texts, params, variant)


def _answerers(judges: JudgesByRoute) -> str:
    return " and ".join(_who(who) + (f" as {route!r}" if route else "") for route, who in judges.items())


def _who(identity: Identity | None) -> str:
    if identity is None:
        return "a backend without a name"
    params = ", ".join(f"{name}={value}" for name, value in identity.params)
    text = " ".join(filter(None, [f"{identity.provider}/{identity.model}", identity.base_url, params]))
    return text if len(text) <= _WHO else text[:_WHO] + "…"


def _mend(path: Path, file: IO[bytes]) -> None:
    file.seek(0)
    data = b"".join(_bounded_lines(path, file))
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


def _order(row: TapeRow) -> tuple[str, tuple[str, ...], str, bool, int, str]:
    """Return the sort key of a row; raises `ValueError` if a field of it is invalid."""
    trace, chunks, route = row.get("trace_id", ""), row.get("chunk_ids", []), row.get("route", "")
    sample, key = row.get("sample", 0), row["key"]
    if not isinstance(trace, str) or not isinstance(sample, int) or not isinstance(key, str):
        raise ValueError("'trace_id' or 'key' is not a text, or 'sample' not a number")
    if not isinstance(chunks, list) or not all(isinstance(chunk, str) for chunk in chunks):
        raise ValueError("'chunk_ids' is not a list of texts")
    if not isinstance(route, str):
        raise ValueError("'route' is not a text")
    return trace, tuple(chunks), route, "repair" in row, sample, key


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _ASKED else text[: _ASKED - 1] + "…"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with path.open("a+b") as file:
                hold(file)
                if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    yield file
                    return
            # Rewritten while waiting: the opened file is no longer the cassette.
    except OSError as error:
        raise ConfigError(f"{path}: the cassette cannot be written: {error.strerror}") from None


_Key: TypeAlias = tuple[str, bytes]  # the route of a request, if there are several, and its digest


class Recording(Wrapper):
    """A backend that passes on another one's answers and writes each to a cassette as it comes.

    An answer replaces a former one to its request; the rest of the cassette stays. Refusals of the server are recorded
    too, other failures are not. A later, accepted answer replaces one that was not accepted. Several processes may
    record into one file. A method raises `ConfigError` if the cassette cannot be written, or is another backend's.
    `members` says who answers, by route, if the backend stands for several.
    """

    def __init__(self, inner: Backend, path: str | Path, members: JudgesByRoute | None = None) -> None:
        super().__init__(inner)
        self.path, self._members = Path(path), members
        self._written: dict[_Key, bool] = {}  # whether the written answer is accepted, by request

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Pass on what the backend inside has at hand, and record it."""
        completions = peek(self.inner, requests)
        self._record([(r, c) for r, c in zip(requests, completions, strict=True) if c is not None])
        return completions

    async def complete(self, request: Request) -> Completion:
        """Ask the backend inside, and record its answer."""
        try:
            completion = await self.inner.complete(request)
        except RefusedError as error:
            self._record([(request, error)])
            raise
        self._record([(request, completion)])
        return completion

    async def aclose(self) -> None:
        """Put the cassette into its final order, then close the backend inside."""
        try:
            if self._written:
                tidy(self.path)
        finally:
            await self.inner.aclose()

    def _record(self, answers: Sequence[tuple[Request, Completion | RefusedError]]) -> None:
        # Of equal requests the first answer is recorded: the others received it too.
        new: dict[_Key, tuple[Request, Completion | RefusedError, bool]] = {}
        for request, answer in answers:
            if isinstance(answer, Completion) and not answer.whole:
                continue
            key = (request.route if self._members is not None else "", request.digest)
            before = new[key][2] if key in new else self._written.get(key)
            accepted = isinstance(answer, Completion) and (request.accepts is None or request.accepts(answer))
            if before is None or (accepted and not before):
                new[key] = (request, answer, accepted)
        if not new:
            return
        rows = [tape_row(request, answer, key[0]) for key, (request, answer, _) in new.items()]
        append(self.path, self._members or {"": self.inner.identity}, rows)
        self._written |= {key: accepted for key, (_, _, accepted) in new.items()}


class Replay:
    """The backend whose answers a cassette holds, of one judge or that of a `route`; it makes no calls.

    A method raises `ConfigError` if there is no such file or it does not hold this judge, and `DataError` if
    the file is not a cassette. It is read at the first use.
    """

    def __init__(self, path: str | Path, route: str = "") -> None:
        self.path, self.route = Path(path), route
        self._read: list[Tape] = []  # shared by the judges of one cassette; empty until it is read

    def of_route(self, route: str) -> Replay:
        """Return the backend of one of several recorded judges; the cassette is read once for all."""
        other = Replay(self.path, route)
        other._read = self._read
        return other

    @property
    def _tape(self) -> Tape:
        if not self._read:
            self._read.append(read(self.path))
        tape = self._read[0]
        if self.route not in tape.judges:
            several = ", ".join(map(repr, tape.judges))
            content = "one judge" if "" in tape.judges else f"the judges {several}"
            wanted = f"the judge {self.route!r}" if self.route else "a single judge"
            raise ConfigError(
                f"{self.path}: the cassette holds {content}, and {wanted} is asked for; replay it with the "
                "panel, cascade or model that it was recorded with, or record it again"
            )
        return tape

    @property
    def asked(self) -> set[tuple[str, str]]:
        """The routes and keys of the recorded answers that were asked for, by all judges of the cassette."""
        return self._read[0].asked if self._read else set()

    @property
    def identity(self) -> Identity | None:
        """Who answered when it was recorded."""
        return self._tape.judges[self.route]

    def peek(self, requests: Sequence[Request]) -> list[Completion | None]:
        """Answer what is recorded, in the order of the requests."""
        answers = [self._find(request) for request in requests]
        return [None if isinstance(answer, RefusedError) else answer for answer in answers]

    async def complete(self, request: Request) -> Completion:
        """Answer what is recorded; raises `MissError` if nothing is, and `RefusedError` if the server declined."""
        answer = self._find(request)
        if answer is None:
            advice = f"the request is new or was changed: record it with {option('record', self.path)}"
            raise MissError(str(self.path), request.trace_id, request.chunk_ids, advice)
        if isinstance(answer, RefusedError):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Do nothing: nothing is held open."""

    def _find(self, request: Request) -> Completion | RefusedError | None:
        tape, key = self._tape, request.digest.hex()
        row = tape.rows.get((self.route, key))
        if row is None:
            return None
        tape.asked.add((self.route, key))
        shown = tape_row(request, RefusedError(""), self.route)
        texts = all(row.get(name, shown[name]) == shown[name] for name in ("asked", "passage"))
        # Equal requests of other traces share a row, so other ids alone are not an error.
        if not texts or key not in tape.keys_by_ids.get(_ids(shown), {key}):
            raise DataError(
                f"the line of trace {row.get('trace_id')!r}, chunks {row.get('chunk_ids')}, has the key of a "
                f"request about trace {request.trace_id!r}, chunks {list(request.chunk_ids)}: it was "
                "changed; take the cassette again from where it came, or delete it and record it again",
                file=str(self.path),
            )
        return answer_in(row)


def _ids(row: TapeRow) -> tuple[Any, ...]:
    return row.get("route", ""), *_order(row)[:2], row.get("asked"), row.get("sample", 0), "repair" in row
