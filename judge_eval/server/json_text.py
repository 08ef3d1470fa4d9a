"""JSON of a request, decoded value by value."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from judge_eval.errors import DataError
from judge_eval.foreign import RepeatedKeyError, single_keys
from judge_eval.record import TOO_DEEP

BLOCK = 1 << 18
NEAR = 64
"""Characters at the end of what was decoded in which an error may only mean that the rest is missing."""
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder(object_pairs_hook=single_keys)


class JsonText:
    """A window that moves over JSON: where a value does not end in it, the window grows and the value is read again.

    Each time it grows by twice as much, so the work stays linear. `most` is the most characters of a value, and of
    brackets and commas in it a 32nd of them: so much is decoded in one go.
    """

    def __init__(self, data: bytes, most: int) -> None:
        self._data, self._most = memoryview(data), most
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._taken = "", 0, 0

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            match = SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(BLOCK):
                return ""

    def value(self, where: str = "") -> Any:
        """Read the next value."""
        grow, scalar = BLOCK, self.peek() not in ("{", '"', "[")
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos + NEAR > len(self._text)
                if not (cut and self._is_bounded(where) and self._more(grow)):
                    raise DataError(f"not JSON: {error.msg}", field=where or None) from None
            except RepeatedKeyError as error:
                raise DataError(str(error), field=where or None) from None
            except (ValueError, RecursionError) as error:  # a number of too many digits, too deep a nest
                fault = TOO_DEEP if isinstance(error, RecursionError) else f"not JSON: {error}"
                raise DataError(fault, field=where or None) from None
            else:
                # A number at the end of the window may go on behind it.
                if not (scalar and end + NEAR > len(self._text) and self._more(grow)):
                    self._at = end
                    return value
            grow *= 2

    def elements(self, where: str = "") -> Iterator[Any]:
        """Read the list that stands next, yielding each element."""
        self._take("[", where)
        place, going = 0, self.peek() != "]"
        while going:
            yield self.value(f"{where}[{place}]")
            going = self._take(",]", f"{where}[{place}]") == ","
            place += 1
        if not place:
            self._take("]", where)

    def members(self) -> Iterator[str]:
        """Read the object that stands next, yielding each key; whoever asks must read its value."""
        self._take("{")
        seen, going = set[str](), self.peek() != "}"
        while going:
            if self.peek() != '"':
                raise DataError("not JSON: a key in double quotes is missing")
            key = self.value()
            if key in seen:
                raise DataError(str(RepeatedKeyError(key)))
            seen.add(key)
            self._take(":", key)
            yield key
            going = self._take(",}", key) == ","
        if not seen:
            self._take("}")

    def end(self) -> None:
        """See that nothing follows."""
        if self.peek():
            raise DataError("not JSON: more follows after the end")

    def _take(self, wanted: str, where: str = "") -> str:
        char = self.peek()
        if not char or char not in wanted:
            missing = " or ".join(repr(char) for char in wanted)
            raise DataError(f"not JSON: {missing} is missing", field=where or None)
        self._at += 1
        return char

    def _is_bounded(self, where: str) -> bool:
        """See that the value that stands next, of which more is to be read, is not too large."""
        parts = sum(self._text.count(sign, self._at) for sign in "{[,")
        if len(self._text) - self._at > self._most or parts > self._most // 32:
            fault = f"a value is larger than {self._most:,} characters, or has too many parts"
            raise DataError(fault, field=where or None)
        return True

    def _more(self, size: int) -> bool:
        """Decode more bytes into the window; tell whether there were any."""
        block = self._data[self._taken : self._taken + size]
        try:
            decoded = self._decode.decode(block, final=not block)
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8: {error.reason}") from None
        if block:
            self._text, self._at = self._text[self._at :] + decoded, 0
            self._taken += len(block)
        return len(block) > 0
