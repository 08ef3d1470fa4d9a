"""A key that a server echoes in another spelling is masked, as far as that is cheap."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from judge_eval.llm.http.secrets import Scrubber

KEY = "sk-Geheim/0123456789+abcdefXYZ=="
ECHOES = {
    "hex": KEY.encode().hex(),
    "upper hex": KEY.encode().hex().upper(),
    "percent": quote(KEY, safe=""),
    "url-safe base64": base64.urlsafe_b64encode(KEY.encode()).decode(),
    **{f"base64 behind {n}": base64.b64encode(b"x" * n + KEY.encode() + b"tail").decode() for n in range(7)},
}


@pytest.mark.parametrize("kind", ECHOES)
def test_a_key_in_another_spelling_is_masked(kind: str) -> None:
    """Of no spelling 8 characters in a row are left."""
    text = Scrubber(KEY)(f"invalid key <{ECHOES[kind]}> was sent")
    assert "***" in text
    echoed = ECHOES[kind][10:-10]
    assert not any(echoed[at : at + 8] in text for at in range(len(echoed) - 7))
    assert text.startswith("invalid key")


@pytest.mark.parametrize("start", range(0, len(KEY) - 7))
def test_any_8_characters_of_a_key_are_masked(start: int) -> None:
    """Wherever a part of a key is cut out, and whatever stands around it, it does not stay."""
    part = KEY[start : start + 8]
    assert part not in Scrubber(KEY)(f"req_{part}0")
    assert Scrubber("", (KEY,))(f"{part}") != part


def test_texts_without_a_key_stay() -> None:
    """A text that shares fewer characters with a key is left as it is."""
    text = f"req_{KEY[3:10]} {KEY[-7:]}"
    assert Scrubber(KEY)(text) == text
