"""Keeps keys out of texts, and out of the parameters of requests."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from logging import LogRecord
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from judge_eval.errors import CallError, ConfigError, TransientError, mask

_KEYLIKE = re.compile(r"(?i)(bearer\s+|\bsk-|\bkey-|api[-_]?key[=:]\s*)[\w*.~+/=-]{4,}")
_HOLDS_KEY = re.compile(r"(?i)(^|_)(api_?key|access_key|key|token|secret|password|passwd|pat)$|^pgpassword$")
_CREDENTIAL = re.compile(
    r"(api|access|auth|secret|subscription|private)keys?$|(authorization|cookies?|passwords?|passwd)$"
    r"|(access|auth|bearer|api|security|refresh|hf)tokens?$|^(x?tokens?|bearer|secrets?)$"
    r"|(client|shared)secret$|^credentials?$"
)
_SHORTEST = 5  # characters of a secret that is masked; a shorter one would garble every message
_TELLING = 16  # characters of a key that cannot be words of a chunk


def credentials_in(url: str) -> tuple[str, str, str] | None:
    """Find user name and password before the host of a URL, and the header that carries them.

    Returns:
        User name, password, and `Basic ...`; None where the URL has none.
    """
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return user, password, "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def refuse_credentials(params: Mapping[str, Any]) -> None:
    """See that no parameter holds a key: parameters are written into runs, and are part of cache keys.

    Raises:
        ConfigError: One does; the message names it and the right way, without its value.
    """
    known = [
        value for name, value in os.environ.items() if _HOLDS_KEY.search(name) and len(value) >= _SHORTEST + 3
    ]
    for name, value in params.items():
        place = _credential(name, value, known, ())
        if place is not None:
            raise ConfigError(
                f"the parameter {place} holds a credential, and parameters are written into the run; set the "
                "environment variable OPENAI_API_KEY, which is sent as `Authorization: Bearer ...`; for a "
                "server that wants a password write the base URL as https://user:password@host/v1"
            )


def _credential(name: str, value: Any, known: list[str], above: tuple[str, ...]) -> str | None:
    """Name the place of a credential in a parameter; None where there is none."""
    path = (*above, name)
    said = re.sub(r"[^a-z0-9]", "", name.lower())
    # Deeper down a name may be that of a field in a JSON schema; a text under it is what it says.
    if value is not None and _CREDENTIAL.search(said) and (not above or isinstance(value, str | list)):
        return ".".join(path)
    if isinstance(value, str):
        telling = any(secret in value for secret in known) or re.match(r"(?i)(bearer|basic)\s+\S{8}", value)
        return ".".join(path) if telling else None
    if isinstance(value, Mapping):
        inner = [(str(key), each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        inner = [(str(number), each) for number, each in enumerate(value)]
    else:
        return None
    found = (_credential(key, each, known, path) for key, each in inner)
    return next((place for place in found if place is not None), None)


@dataclass(frozen=True, slots=True)
class _Gram:
    """A secret as what can be looked for quickly."""

    secret: str
    hints: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, secret: str) -> _Gram:
        # Whatever 8 characters of the secret a text holds, one of these 4 stands in them.
        return cls(secret, tuple(secret[at : at + 4] for at in range(0, len(secret) - 3, 5)))


class Scrubber:
    """Takes keys out of texts: those in use, those of the environment, and whatever looks like one.

    Args:
        key: The key in use.
        secrets: Others in use: those of the base URL.
    """

    def __init__(self, key: str, secrets: tuple[str, ...] = ()) -> None:
        used = [text for text in (key, *secrets) if len(text) >= _SHORTEST]
        self._secrets = list(dict.fromkeys(used + _environment()))
        self._grams = [
            _Gram.of(text)
            for text in used
            if len(text) >= _TELLING and re.search(r"\d", text) and re.search(r"[A-Za-z]", text)
        ]

    def __call__(self, text: str) -> str:
        """Return the text with `***` in place of secrets and of 8 characters or more of one."""
        return _KEYLIKE.sub("***", mask(text, self._secrets))

    def reply(self, text: str) -> str:
        """Return a judge's reply without the keys in use, nor 8 characters or more of one.

        A key of a few letters or of plain words stays, since a reply may hold them by right: it quotes.
        """
        for gram in self._grams:
            for hint in gram.hints:
                if hint in text:
                    text = mask(text, [gram.secret])
                    break
        return text

    def log_record(self, record: LogRecord) -> bool:
        """Clean what a library logs; a filter of its logger."""
        record.msg, record.args = self(record.getMessage()), ()
        return True

    def error(self, error: E_) -> E_:
        """Return the error with a clean detail."""
        clean = self(error.detail)
        if clean == error.detail:
            return error
        if isinstance(error, TransientError):
            return type(error)(clean, kind=error.kind, retry_after=error.retry_after, sent=error.sent)
        return type(error)(clean, why=error.why)


E_ = TypeVar("E_", bound=CallError)


def _environment() -> list[str]:
    """Gather the secrets in the environment: values whose name says so, and passwords of proxies."""
    secrets = []
    for name, value in os.environ.items():
        if name.lower().endswith("_proxy"):
            try:
                value = unquote(urlsplit(value).password or "")
            except ValueError:
                continue
        elif not _HOLDS_KEY.search(name):
            continue
        if len(value.strip()) >= _SHORTEST + 3:
            secrets.append(value.strip())
    return secrets
