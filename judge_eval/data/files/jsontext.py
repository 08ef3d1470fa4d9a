"""JSON read value by value from a file, so that a long list is never in memory whole."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from judge_eval.errors import DataError
from judge_eval.record import TOO_DEEP

BLOCK = 1 << 18
NEAR = 64
"""Characters at the end of what was read in which an error may only mean that the rest is missing."""
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()


class JsonText:
    """A window that moves over the text of a JSON file.

    Python's own decoder reads each value; where it stops at the end of the window the window grows and
    the value is read again, each time with twice as much, so the work stays linear.

    Args:
        file: The file, opened for bytes; UTF-8, a byte order mark is allowed.
        name: What to call it in messages.
        most: The most characters of a value, and of brackets and commas in it a 32nd of them: so much is
            decoded in one go. None where the file is the user's own.
    """

    def __init__(self, file: IO[bytes], name: str | None, most: int | None = None) -> None:
        self._file, self._name, self._most = file, name, most
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._bytes = "", 0, 0
        self._line, self._counted = 1, 0  # the line that the window's character of this number stands on
        self._bad: DataError | None = None
        self._ended = False

    def peek(self) -> str:
        """Return the next character that is no white space; empty at the end of the file."""
        while True:
            match = SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(BLOCK):
                return ""

    def take(self, wanted: str, where: str = "") -> str:
        """Pass over one character.

        Args:
            wanted: The characters of which one must stand next.
            where: The place to name where none does.

        Raises:
            DataError: Something else stands there.
        """
        char = self.peek()
        if not char or char not in wanted:
            missing = " or ".join(repr(char) for char in wanted)
            raise self._error(f"{missing} is missing", self._at, where)
        self._at += 1
        return char

    def value(self, where: str = "") -> tuple[Any, int]:
        """Read the next value.

        Args:
            where: The place to name where it cannot be read.

        Returns:
            The value and the line it begins on, counted from 1.

        Raises:
            DataError: It is not JSON, or nested too deeply; the line is that of the fault.
        """
        grow, scalar = BLOCK, self.peek() not in '{["'
        line = self._count()
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos + NEAR > len(self._text)
                if cut:
                    self._bound(where)
                if not (cut and self._more(grow)):
                    raise self._error(error.msg, error.pos, where) from None
            except (ValueError, RecursionError) as error:  # a number of too many digits, too deep a nest
                fault = TOO_DEEP if isinstance(error, RecursionError) else f"not JSON: {error}"
                raise DataError(fault, file=self._name, line=line, field=where or None) from None
            else:
                # A number at the end of the window may go on behind it.
                if not (scalar and end + NEAR > len(self._text) and self._more(grow)):
                    self._at = end
                    return value, line
            grow *= 2

    def _bound(self, where: str) -> None:
        """See that the value that stands next, of which more is to be read, is not too large."""
        if self._most is None:
            return
        parts = sum(self._text.count(sign, self._at) for sign in "{[,")
        if len(self._text) - self._at > self._most or parts > self._most // 32:
            fault = f"a value is larger than {self._most:,} characters, or has too many parts"
            raise DataError(fault, file=self._name, line=self._count(), field=where or None)

    def elements(self, where: str = "") -> Iterator[tuple[Any, int]]:
        """Read the list that stands next, yielding each element with the line it begins on.

        Args:
            where: The list's own place.

        Raises:
            DataError: An element cannot be read; its place and line are named.
        """
        for place in self.places(where):
            yield self.value(f"{where}[{place}]")

    def places(self, where: str = "") -> Iterator[int]:
        """Read the list that stands next, yielding each place; whoever asks must read its value.

        Args:
            where: The list's own place.

        Raises:
            DataError: It is not a list, or not JSON.
        """
        self.take("[", where)
        if self.peek() == "]":
            self._at += 1
            return
        place = 0
        while True:
            yield place
            if self.take(",]", f"{where}[{place}]") == "]":
                return
            place += 1

    def members(self) -> Iterator[str]:
        """Read the object that stands next, yielding each key; whoever asks must read its value.

        Raises:
            DataError: It is not an object, or not JSON.
        """
        self.take("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            if self.peek() != '"':
                raise self._error("a key in double quotes is missing", self._at)
            key, _ = self.value()
            self.take(":", key)
            yield key
            if self.take(",}", key) == "}":
                return

    def end(self) -> None:
        """See that nothing follows.

        Raises:
            DataError: Something does.
        """
        if self.peek():
            fault = "more follows after the end; a file of one object a line should be called .jsonl"
            raise self._error(fault, self._at)

    def _more(self, size: int) -> bool:
        """Read on; False at the end of the file."""
        if self._bad is not None:
            raise self._bad
        if self._ended:
            return False
        data = self._file.read(size)
        self._ended = not data
        self._count()
        rest = self._text[self._at :]
        self._at = self._counted = 0
        pending = len(self._decode.getstate()[0])
        try:
            self._text = rest + self._decode.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            # What stands before the fault can still be read.
            self._text = rest + bytes(error.object[: error.start]).decode("utf-8-sig", "replace")
            line = self._line + self._text.count("\n")
            place = self._bytes - pending + error.start
            self._bad = DataError(f"not UTF-8: {error.reason} at byte {place}", file=self._name, line=line)
        self._bytes += len(data)
        return True

    def _count(self) -> int:
        """Return the line of the next character."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _error(self, message: str, at: int, where: str = "") -> DataError:
        line = self._count() + self._text.count("\n", self._at, at)
        return DataError(f"not JSON: {message}", file=self._name, line=line, field=where or None)
