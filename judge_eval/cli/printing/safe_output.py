"""The streams through which everything is printed."""

import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import typer

from judge_eval.llm.http.secrets import keys_to_hide
from judge_eval.safe_text import logged, one_line, printable, without_passwords
from judge_eval.views.tones import BAD, DOUBTFUL, GOOD

_STYLE = re.compile(r"(\x1b\[[\d;]*[mAKJ]|\x1b\[\?25[lh]|\r)")
"""What rich and typer write to a terminal: colours, a bar that is redrawn, a hidden cursor."""
_ORDER = re.compile(r"#(?=#\w*\[)")
"""What Azure and TeamCity take for a command anywhere in a line."""
_TONES = (
    ("error: ", BAD),
    ("warning: ", DOUBTFUL),
    ("failed: ", BAD),
    ("undecided: ", DOUBTFUL),
    ("passed: ", GOOD),
    ("gate passed", GOOD),
    ("gate undecided", DOUBTFUL),
)
"""The colour of a remark by its first words."""
_CODES = {GOOD: "32", DOUBTFUL: "33", BAD: "1;31"}
_BEYOND_ASCII = re.compile(r"[\x7f-\U0010ffff]")


class OutputError(Exception):
    """Standard output cannot be written."""

    def __init__(self, error: OSError) -> None:
        self.closed = isinstance(error, BrokenPipeError)
        """Whether the reader has closed the pipe, which is not a fault."""
        super().__init__(error.strerror or str(error))


class SafeOutput:
    """A standard stream that shows control characters as escapes; a failing stderr raises nothing."""

    def __init__(self, stream: TextIO, *, errors: bool) -> None:
        self._stream, self._errors = stream, errors
        self._watched = stream.isatty()
        self._inside = False
        self._keys = keys_to_hide()

    def write(self, text: str) -> int:
        """Write a text."""
        parts = _STYLE.split(text) if self._watched else [text]
        parts[::2] = [self._escape(part) for part in parts[::2]]
        self.pass_on("".join(parts))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def pass_on(self, text: str) -> None:
        """Write a text as it is, with stars in place of keys: as many, so that columns and JSON stay."""
        for key in self._keys:
            text = text.replace(key, "*" * len(key))
        with self._guarded():
            self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream."""
        with self._guarded():
            self._stream.flush()

    def isatty(self) -> bool:
        """Tell whether somebody watches."""
        return self._watched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _escape(self, part: str) -> str:
        if not part:
            return part
        # A command to a CI server starts a line; the rest of a line is never one.
        escaped = logged("x" + part)[1:] if self._inside else logged(part)
        self._inside = not part.endswith("\n")
        return escaped

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _redirect(self._stream)
            if not self._errors:
                raise OutputError(error) from None


def _redirect(stream: TextIO) -> None:
    """Redirect a failed stream to the null device, so that Python does not fail again at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextmanager
def doors() -> Iterator[None]:
    """Let all that is printed within the block go through doors, and let warnings be remarks."""
    closed = sys.stdout is None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # else the next file that is opened gets its number
            setattr(sys, name, _null_stream(number))
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = SafeOutput(before[0], errors=False), SafeOutput(before[1], errors=True)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            if closed:
                raise OutputError(OSError(0, "it is closed; send it to a file or to /dev/null"))
            yield
            sys.stdout.flush()
    finally:
        with suppress(OutputError):
            sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _null_stream(number: int) -> TextIO:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    return os.fdopen(number, "r" if number == 0 else "w")


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    remark(f"warning: {message}")


def is_watched() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def coloured(stream: Any) -> bool:
    """Tell whether a stream takes colours: a terminal does, unless NO_COLOR is set or it knows none."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _toned(line: str) -> str:
    tone = next(((start, style) for start, style in _TONES if line.startswith(start)), None)
    if tone is None or not coloured(sys.stderr):
        return line
    start, style = tone
    return f"\x1b[{_CODES[style]}m{start.rstrip()}\x1b[0m{line[len(start.rstrip()) :]}"


def tell(text: object = "", *, flush: bool = False) -> None:
    """Print a text as one line."""
    print(one_line(str(text)), flush=flush)


def tell_lines(text: str) -> None:
    """Print a text of several lines."""
    print(printable(text))


def give_json(text: str) -> None:
    """Print JSON; control characters, which stand only in strings, become JSON escapes."""
    lines = (line if line.isprintable() else _BEYOND_ASCII.sub(_spell, line) for line in text.split("\n"))
    plain = _ORDER.sub(r"\\u0023", "\n".join(lines)) + "\n"
    if isinstance(sys.stdout, SafeOutput):
        sys.stdout.pass_on(plain)
    else:
        sys.stdout.write(plain)


def _spell(hit: re.Match[str]) -> str:
    char = hit[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[k : k + 4]}" for k in range(0, len(units), 4))


def can_answer() -> bool:
    """Tell whether somebody sees a question and can answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def trusts(host: str, file: str) -> bool:
    """Ask whether a host that only a file names may be called; a yes is kept in the user's configuration."""
    question = f"{file} names the host {host}, which you have not named. Trust it from now on?"
    return typer.confirm(one_line(question), err=True)


def complain(message: str) -> None:
    """Write an error to stderr."""
    remark(f"error: {message}")


def remark(message: str) -> None:
    """Write a warning or a remark to stderr."""
    try:
        print(_toned(one_line(without_passwords(message))), file=sys.stderr, flush=True)
    except OSError:
        _redirect(sys.stderr)


def annotation(level: str, title: str, message: str) -> None:
    """Write a command to stderr that lets GitHub show a message beside the job, whatever the texts hold."""

    def escaped(text: str, also: str = "") -> str:
        return "".join(f"%{ord(c):02X}" if c in "%\r\n" + also else c for c in printable(without_passwords(text)))

    line = f"::{level} title={escaped(title, ':,')}::{escaped(message)}\n"
    stream = sys.stderr
    stream.pass_on(line) if isinstance(stream, SafeOutput) else stream.write(line)
