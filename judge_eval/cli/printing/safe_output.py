"""The streams through which everything is printed."""

import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from judge_eval.llm.http.secrets import keys_to_hide
from judge_eval.safe_text import logged

_STYLE = re.compile(r"(\x1b\[[\d;]*[mAKJ]|\x1b\[\?25[lh]|\r)")
"""What rich and typer write to a terminal: colours, a bar that is redrawn, a hidden cursor."""


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
            redirect(self._stream)
            if not self._errors:
                raise OutputError(error) from None


def redirect(stream: TextIO) -> None:
    """Redirect a failed stream to the null device, so that Python does not fail again at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextmanager
def doors(remark: Callable[[str], None]) -> Iterator[None]:
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
            warnings.showwarning = lambda message, *_, **__: remark(f"warning: {message}")
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


def is_watched() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()
