import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.digest import canonical_json, digest_json, digest_parts, short

PARTS = st.lists(st.text(alphabet="ab:,1\x00é"), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(PARTS, PARTS)
def test_different_sequences_have_different_digests(messages: list[str], other: list[str]) -> None:
    """No two different sequences collide by joining."""
    assert (digest_parts(messages) == digest_parts(other)) == (messages == other)


@given(st.text(), st.integers(0, 20))
def test_cutting_a_text_changes_the_digest(text: str, at: int) -> None:
    """A text in one part and the same text in two parts differ, wherever it is cut."""
    assert digest_parts([text]) != digest_parts([text[:at], text[at:]])
    assert digest_parts([text, ""]) != digest_parts([text]) != digest_parts(["", text])


def test_the_digests_stay_what_they_are() -> None:
    """Caches and run folders of earlier versions hold these digests."""
    assert digest_parts(["é", "ab"]) == hashlib.sha256(b"1,2:\xc3\xa9ab").digest()
    assert digest_parts(["ab", "c", "é"]) == hashlib.sha256(b"2,1,1:abc\xc3\xa9").digest()
    assert digest_json({"b": [1, None], "a": "é"}) == hashlib.sha256('{"a":"é","b":[1,null]}'.encode()).hexdigest()
    assert short("0123456789abcdef") == "0123456789ab"


@given(VALUES)
def test_canonical_json_has_one_spelling(value: object) -> None:
    """It reads back equal, and the order of keys does not matter."""
    text = canonical_json(value)
    assert json.loads(text) == value
    if isinstance(value, dict):
        assert canonical_json(dict(reversed(value.items()))) == text


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": float("-inf")}])
def test_what_is_not_json_has_no_digest(value: object) -> None:
    """NaN and infinities are refused; so is what JSON cannot spell."""
    with pytest.raises(ValueError, match="JSON"):
        digest_json(value)
    with pytest.raises(TypeError):
        digest_json({1, 2})
