"""The one door through which everything goes that is printed."""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from judge_eval.shown import logged, one_line, printable

_STYLE = re.compile(r"(\x1b\[[\d;]*[mAKJ]|\x1b\[\?25[lh]|\r)")
"""What rich and typer write to a terminal: colours, a bar that moves up and is cleared, a hidden cursor."""
_ORDER = re.compile(r"#(?=#\w*\[)")
"""What Azure and TeamCity take for a command wherever it stands in a line."""
GOOD, DOUBTFUL, BAD = "green", "yellow", "bold red"
"""How what is good, doubtful or bad is shown on a terminal."""
_TONES = (
    ("error: gate undecided", DOUBTFUL),
    ("error: ", BAD),
    ("warning: ", DOUBTFUL),
    ("gate passed", GOOD),
    ("gate undecided", DOUBTFUL),
)
"""By what a remark begins with, how that is shown."""
_CODES = {GOOD: "32", DOUBTFUL: "33", BAD: "1;31"}
_BEYOND_ASCII = re.compile(r"[\x7f-\U0010ffff]")


class OutputError(Exception):
    """Standard output takes nothing more.

    Args:
        error: What the system said.
    """

    def __init__(self, error: OSError) -> None:
        self.closed = isinstance(error, BrokenPipeError)
        """Whether whoever read it has left, which is no fault."""
        super().__init__(error.strerror or str(error))


class Door:
    """A standard stream that shows control characters as escapes, whoever writes to it.

    On a terminal colours pass. Where errors cannot be written there is nobody to tell, so nothing is raised.

    Args:
        stream: The stream.
        errors: Whether it is the stream of errors.
    """

    def __init__(self, stream: TextIO, *, errors: bool) -> None:
        self._stream, self._errors = stream, errors
        self._watched = stream.isatty()
        self._inside = False

    def write(self, text: str) -> int:
        """Write a text.

        Raises:
            OutputError: It cannot be written.
        """
        parts = _STYLE.split(text) if self._watched else [text]
        parts[::2] = [self._made(part) for part in parts[::2]]
        self.pass_on("".join(parts))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def pass_on(self, text: str) -> None:
        """Write a text as it is.

        Raises:
            OutputError: It cannot be written.
        """
        with self._told():
            self._stream.write(text)

    def flush(self) -> None:
        """Write what waits.

        Raises:
            OutputError: It cannot be written.
        """
        with self._told():
            self._stream.flush()

    def isatty(self) -> bool:
        """Tell whether somebody watches."""
        return self._watched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _made(self, part: str) -> str:
        if not part:
            return part
        # A command to a CI server stands at the start of a line, so what goes on with one is none.
        made = logged("x" + part)[1:] if self._inside else logged(part)
        self._inside = not part.endswith("\n")
        return made

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _let_go(self._stream)
            if not self._errors:
                raise OutputError(error) from None


def _let_go(stream: TextIO) -> None:
    """Turn a stream that fails to nowhere, so that Python does not fail at it again when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def doors() -> Iterator[None]:
    """Let all that is printed within the block go through doors, and let warnings be remarks.

    Raises:
        OutputError: Standard output is closed, or takes no more.
    """
    closed = sys.stdout is None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # else the next file that is opened gets its number
            setattr(sys, name, _nowhere(number))
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = Door(before[0], errors=False), Door(before[1], errors=True)
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


def _nowhere(number: int) -> TextIO:
    made = os.open(os.devnull, os.O_RDWR)
    if made != number:
        os.dup2(made, number)
        os.close(made)
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
    """Colour what a remark begins with, where somebody watches."""
    tone = next(((start, style) for start, style in _TONES if line.startswith(start)), None)
    if tone is None or not coloured(sys.stderr):
        return line
    start, style = tone
    return f"\x1b[{_CODES[style]}m{start.rstrip()}\x1b[0m{line[len(start.rstrip()) :]}"


def tell(text: object = "", *, flush: bool = False) -> None:
    """Print a line, which no text within it can end."""
    print(one_line(str(text)), flush=flush)


def tell_lines(text: str) -> None:
    """Print a text of several lines."""
    print(printable(text))


def give_json(text: str) -> None:
    """Print JSON, the same data: what would steer a terminal is written as JSON escapes it.

    In JSON such characters stand in strings alone.
    """
    lines = (line if line.isprintable() else _BEYOND_ASCII.sub(_spell, line) for line in text.split("\n"))
    plain = _ORDER.sub(r"\\u0023", "\n".join(lines)) + "\n"
    if isinstance(sys.stdout, Door):
        sys.stdout.pass_on(plain)
    else:
        sys.stdout.write(plain)


def _spell(hit: re.Match[str]) -> str:
    char = hit[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[k : k + 4]}" for k in range(0, len(units), 4))


def complain(message: str) -> None:
    """Write an error to stderr."""
    remark(f"error: {message}")


def remark(message: str) -> None:
    """Write a warning or a remark to stderr; where that cannot be written there is nobody to tell."""
    try:
        print(_toned(one_line(message)), file=sys.stderr, flush=True)
    except OSError:
        _let_go(sys.stderr)
