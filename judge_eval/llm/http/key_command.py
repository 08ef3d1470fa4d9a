"""Runs the command that prints a key or token: at first, before it expires, and when a server declines it."""

import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from time import monotonic, time
from typing import IO, Any, ClassVar

from judge_eval.errors import ConfigError
from judge_eval.foreign import read_json
from judge_eval.llm.http.secrets import Scrubber

_KEYS = ("access_token", "accessToken", "token", "key", "id_token")
_UNTIL = ("expires_on", "expires_at", "expiresOn", "expirationTimestamp", "expiration", "expiry")
_MARGIN = 120.0  # seconds before its end in which a token is renewed
_PATIENCE = 60.0  # seconds that a command may take
_MOST = 16_384  # bytes that it may print: the header of a request with a longer key is accepted nowhere


class KeySource(ABC):
    """Where keys come from that end; each is kept until shortly before its end."""

    shown: ClassVar[str]
    """Where the key comes from, for people."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key, self._until = "", float("inf")

    @property
    def expiring(self) -> bool:
        """Whether the key must be printed anew, as far as its end is known."""
        return not self._key or time() > self._until - _MARGIN

    def key(self) -> str:
        """Return a key that has not expired; raises `ConfigError` if there is none."""
        return self.renewed(self._key) if self.expiring else self._key

    def renewed(self, old: str) -> str:
        """Return another key than `old`, if there is one; of several callers one asks for it."""
        with self._lock:
            if self._key in ("", old):
                self._key, self._until = self._new()
            return self._key

    @abstractmethod
    def _new(self) -> tuple[str, float]:
        """Return a key, and its end in seconds since 1970; raises `ConfigError` if there is none."""


def is_key(text: str) -> bool:
    """Tell whether a text can be sent as a key: one word in ASCII."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


class KeyCommand(KeySource):
    """A command, word by word, that prints a key: as a line, or in a JSON object with the time of its end.

    Raises:
        ConfigError: There are no words.
    """

    shown = "printed by the key command"

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self._words = tuple(words)
        if not "".join(self._words[:1]).strip():
            raise ConfigError("the key command is empty; give a command that prints the key, or leave it out")

    def _new(self) -> tuple[str, float]:
        name = self._words[0]
        try:
            code, out, err = _run(self._words)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            what = "took too long" if isinstance(error, subprocess.TimeoutExpired) else "cannot be run"
            raise ConfigError(f"the key command {name!r} {what}") from None
        if len(out) > _MOST:
            raise ConfigError(f"the key command {name!r} printed more than {_MOST:,} bytes, which is no key")
        if code:
            detail = " ".join(err.decode("utf-8", "replace").split())[:200]
            why = f"exit code {code}" + (f": {Scrubber('')(detail)}" if detail else "")
            raise ConfigError(f"the key command {name!r} failed with {why}")
        text, until = out.decode("utf-8", "replace").strip(), float("inf")
        if text.startswith("{"):
            text, until = _of_json(text)
        if not is_key(text):
            raise ConfigError(f"the key command {name!r} must print a key and nothing else, or a JSON object")
        return text, until


@cache
def key_command(words: tuple[str, ...]) -> KeyCommand:
    """Return the command of these words; all servers that use it share its key."""
    return KeyCommand(words)


def _run(words: Sequence[str]) -> tuple[int, bytes, bytes]:
    """Run a command, and return its exit code with what it wrote, no more than a byte above the bound of each."""
    # One that writes too much to its output is killed. What is left of its errors is read, and thrown away.
    process = subprocess.Popen(  # noqa: S603 - words that the user gave, and no shell
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    written = [b"", b""]

    def read(place: int, pipe: IO[bytes]) -> None:
        with pipe:
            written[place] = pipe.read(_MOST + 1)
            if place == 0 and len(written[place]) > _MOST:
                process.kill()
                return
            while pipe.read(_MOST):
                pass

    end = monotonic() + _PATIENCE
    pipes = (process.stdout, process.stderr)
    readers = [threading.Thread(target=read, args=each, daemon=True) for each in enumerate(pipes)]
    try:
        for reader in readers:
            reader.start()
        process.wait(_PATIENCE)
        for reader in readers:  # a program that it started may write on
            reader.join(end - monotonic())
        if any(reader.is_alive() for reader in readers):
            raise subprocess.TimeoutExpired(words[0], _PATIENCE)
    finally:
        process.kill()
        process.wait()
    return process.returncode, written[0], written[1]


def _of_json(text: str) -> tuple[str, float]:
    try:
        value: Any = read_json(text.encode())
    except ValueError:
        return "", 0.0
    if isinstance(value.get("status"), dict):  # as programs for Kubernetes print it
        value = value["status"]
    key = next((value[name] for name in _KEYS if isinstance(value.get(name), str)), "")
    if isinstance(value.get("expires_in"), int | float):
        return key, time() + value["expires_in"]
    ends = (_time(value[name]) for name in _UNTIL if name in value)
    return key, next((end for end in ends if end is not None), float("inf"))


def _time(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    try:
        date = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return (date if date.tzinfo else date.astimezone()).astimezone(UTC).timestamp()
