"""Keeps keys out of texts."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from typing import TypeVar
from urllib.parse import quote, quote_plus, unquote, urlsplit

from judge_eval.errors import CallError, TransientError, mask
from judge_eval.safe_text import HOLDS_KEY, LEAST_KEY

_KEYLIKE = re.compile(r"(?i)(bearer\s+|\bsk-|\bkey-|api[-_]?key[=:]\s*)[\w*.~+/=-]{4,}")
_SHORTEST = 5  # characters of a secret that is masked; a shorter one would garble every message
_TELLING = 16  # characters of a key that cannot be words of a chunk


def credentials_in(url: str) -> tuple[str, str, str] | None:
    """Return user name, password and the header `Basic ...` of a URL; None if it has none."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return user, password, "Basic " + b64encode(f"{user}:{password}".encode()).decode()


class Scrubber:
    """Removes keys from texts: those in use, those of the environment, and what looks like one."""

    def __init__(self, key: str, secrets: tuple[str, ...] = ()) -> None:
        used = [text for text in (key, *secrets) if len(text) >= _SHORTEST]
        spelled = [text for secret in used if len(secret) >= _TELLING for text in _spellings(secret)]
        self._secrets = list(dict.fromkeys(used + spelled + environment_secrets()))
        self._hints = {text: _hints(text) for text in used if _is_telling(text)}
        self._all_hints = {hint for text in self._secrets for hint in _hints(text)}

    def __call__(self, text: str) -> str:
        """Return the text with `***` in place of secrets and of 8 characters or more of one."""
        if not self._all_hints.isdisjoint([text[at : at + 4] for at in range(len(text) - 3)]):
            text = mask(text, self._secrets)
        return _KEYLIKE.sub("***", text)

    def reply(self, text: str) -> str:
        """Return a judge's reply without 8 characters or more of a key that is not letters or plain words."""
        for secret, hints in self._hints.items():
            if any(hint in text for hint in hints):
                text = mask(text, [secret])
        return text

    def error(self, error: E_) -> E_:
        """Return the error with a clean detail."""
        clean = self(error.detail)
        if clean == error.detail:
            return error
        if isinstance(error, TransientError):
            return type(error)(clean, kind=error.kind, retry_after=error.retry_after, sent=error.sent)
        return type(error)(clean, why=error.why)


E_ = TypeVar("E_", bound=CallError)


def _hints(secret: str) -> list[str]:
    """Return short parts, of which the secret and any 8 characters of it contain one; they are quickly found."""
    return [secret[at : at + 4] for at in range(0, len(secret) - 3, 5)]


def _spellings(secret: str) -> list[str]:
    """Return a secret in hex, percent-encoded, and in base64 wherever it begins in what was encoded."""
    data = secret.encode()
    texts = [data.hex(), data.hex().upper(), quote(secret, safe=""), quote_plus(secret)]
    for shift in range(3):  # the first and the last character may hold bits of what stands beside the secret
        text = b64encode(b"\0" * shift + data).decode().rstrip("=")[shift and shift + 1 : -1]
        texts += [text, text.translate(str.maketrans("+/", "-_"))]
    return texts


def _is_telling(secret: str) -> bool:
    """Tell whether a secret cannot be a word of a text."""
    return len(secret) >= _TELLING and bool(re.search(r"\d", secret) and re.search(r"[A-Za-z]", secret))


def keys_to_hide() -> list[str]:
    """Return the keys in the environment that no text can hold by chance, the longest first."""
    return sorted(filter(_is_telling, environment_secrets()), key=len, reverse=True)


def environment_secrets() -> list[str]:
    """Return the secrets in the environment: values whose name says so, and passwords of proxies."""
    secrets = []
    for name, value in os.environ.items():
        if name.lower().endswith("_proxy"):
            try:
                value = unquote(urlsplit(value).password or "")
            except ValueError:
                continue
        elif not HOLDS_KEY.search(name):
            continue
        if len(value.strip()) >= LEAST_KEY:
            secrets.append(value.strip())
    return secrets
