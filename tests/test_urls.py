import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.safe_text import public_url, reads_one_way

PLAIN = {
    "s3://key:secret@bucket/a/b?x=1": "s3://bucket/a/b",
    "s3://bucket/data@v2/x.jsonl": "s3://bucket/data@v2/x.jsonl",
    "hf://datasets/a/b@main/c.jsonl": "hf://datasets/a/b@main/c.jsonl",
    "https://token@host/x#part": "https://host/x",
    "https://host:8080/x?token=abc": "https://host:8080/x",
    "https://host/x?mail=a@b.example": "https://host/x",
    "http://[::1]:80/x": "http://[::1]:80/x",
    "zip://a.csv::s3://bucket/b.zip": "zip://a.csv::s3://bucket/b.zip",
    "postgresql://me:pw@one:1,two:2/name": "postgresql://one:1,two:2/name",
    "postgresql:/me:pw@host/name": "postgresql://host/name",
    "some/folder@2": "some/folder@2",
    "support/binary": "support/binary",
}
ODD = {
    "https://host:8080/a@b": "https://***@b",
    "s3://key:se/cret@bucket/a": "s3://***@bucket/a",
    "postgresql://me:p?w@host/name": "postgresql://***",
    "postgresql://me:p#w@host/name": "postgresql://***",
    "postgresql://me:password": "postgresql://***",
    "https://to?ken@host/": "https://***",
}


@pytest.mark.parametrize(("url", "shown"), [*PLAIN.items(), *ODD.items()])
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    """Host and path are shown as every reader finds them; what any reader takes for a password is not."""
    assert public_url(url) == shown
    assert reads_one_way(url) == (url in PLAIN)


passwords = st.text(st.sampled_from("ab1:/@?#%[]&=+, .*\\") | st.characters(), min_size=1, max_size=12)


@given(passwords)
def test_nothing_of_a_password_is_shown_however_it_is_written(password: str) -> None:
    """Whatever stands in the place of a password, what is left of the URL is the same few texts."""
    shown = {f"postgresql://{place}" for place in ("db:5432/name", "***@db:5432/name", "***")}
    for tail in ("", "?sslmode=require", "#part"):
        assert public_url(f"postgresql://me:{password}@db:5432/name{tail}") in shown
    for mark in ("?password=", "?a=b&password=", "#"):
        assert public_url(f"postgresql://db:5432/name{mark}{password}") in shown
        assert public_url(f"postgresql://db:5432/name{mark}{password}&c=d") in shown
