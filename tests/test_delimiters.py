"""Fences cannot be forged: their marks occur in no text, and follow from a secret that is kept well."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.delimiters import DIGITS, KEPT_IN, PUBLIC, nonces_of, process_secret, stored_secret
from judge_eval.prompts import load_form
from judge_eval.wire import Passage, Request, with_secret_fences
from tests.support.command import ROOT

TEXT = st.text(alphabet="0123456789 <>/chunk", max_size=60)


@given(st.lists(st.lists(TEXT, min_size=1, max_size=3), min_size=1, max_size=5), st.binary(max_size=32))
def test_a_mark_occurs_in_no_text(blocks: list[list[str]], key: bytes) -> None:
    """No mark stands in any text of any block, no two marks are equal, and all follow from key and texts."""
    marks = nonces_of(key, blocks)
    assert len(set(marks)) == len(blocks)
    assert all(len(mark) == DIGITS and mark.isdigit() for mark in marks)
    assert not any(mark in text for mark in marks for block in blocks for text in block)
    assert nonces_of(key, blocks) == marks


def test_a_text_that_holds_its_neighbours_mark_changes_it() -> None:
    """Whoever writes down the mark that a neighbour would get makes the neighbour get another."""
    blocks, seen = [["question"], ["the neighbour"], ["a chunk"]], set[str]()
    for _ in range(5):
        marks = nonces_of(PUBLIC, blocks)
        assert not seen & set(marks)
        seen |= set(marks)
        blocks = [*blocks[:2], [" ".join(sorted(seen))]]


def test_marks_follow_from_their_own_block() -> None:
    """A block that says nothing of another's mark leaves it alone: what requests share is written alike."""
    first = nonces_of(b"key", [["question"], ["one chunk"]])
    second = nonces_of(b"key", [["question"], ["another chunk"]])
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert nonces_of(b"other", [["question"], ["one chunk"]]) != first


def test_a_secret_changes_the_marks_and_nothing_else() -> None:
    """A request marked from a secret has the same digest and texts; its marks are others for every secret."""
    form = load_form("listwise/support/binary")
    passages = (Passage("One."), Passage("Two.", "Title"))
    request = Request(form=form, query="q", passages=passages, max_tokens=9, reference="r")
    first, same, other = (with_secret_fences(request, secret) for secret in (b"1" * 32, b"1" * 32, b"2" * 32))
    assert first.digest == request.digest
    assert first.form.digest == form.digest
    assert first.messages == same.messages != other.messages
    assert first.messages[0] == request.messages[0]
    bare = {"".join(c for c in r.messages[1].content if not c.isdigit()) for r in (request, first, other)}
    assert len(bare) == 1
    assert len({len(r.messages[1].content) for r in (request, first, other)}) == 1


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """The file holds 32 random bytes that only the owner may read, and nothing lies beside it."""
    secret = stored_secret(tmp_path)
    path = tmp_path / KEPT_IN
    assert path.read_bytes() == secret == stored_secret(tmp_path)
    assert len(secret) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [KEPT_IN]
    assert stored_secret(tmp_path) != process_secret()


@pytest.mark.slow
def test_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    """Of many processes that draw the secret together one wins, and all have its bytes."""
    code = (
        "import sys; from pathlib import Path; from judge_eval.delimiters import stored_secret\n"
        "print('ready', flush=True)\n"
        "while not Path(sys.argv[2]).exists(): pass\n"
        "print(stored_secret(Path(sys.argv[1])).hex())"
    )
    place, go = tmp_path / "place", tmp_path / "go"
    place.mkdir()
    command = [sys.executable, "-c", code, str(place), str(go)]
    made = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}) for _ in range(6)
    ]
    for process in made:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    go.touch()
    values = {process.communicate(timeout=60)[0].strip() for process in made}
    assert values == {(place / KEPT_IN).read_bytes().hex().encode()}
    assert [each.name for each in place.iterdir()] == [KEPT_IN]


@pytest.mark.parametrize("fault", ["short", "open", "link", "long"])
def test_a_secret_that_was_not_kept_well_is_replaced(tmp_path: Path, fault: str) -> None:
    """A torn file, one that others may read and a link to elsewhere are not believed, nor written through."""
    path, elsewhere = tmp_path / KEPT_IN, tmp_path / "elsewhere"
    elsewhere.write_bytes(b"e" * 32)
    elsewhere.chmod(0o600)
    if fault == "link":
        path.symlink_to(elsewhere)
    else:
        path.write_bytes(b"k" * {"short": 5, "open": 32, "long": 33}[fault])
        path.chmod(0o644 if fault == "open" else 0o600)
    secret = stored_secret(tmp_path)
    assert secret not in (b"k" * 32, b"e" * 32)
    assert path.read_bytes() == secret == stored_secret(tmp_path)
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert elsewhere.read_bytes() == b"e" * 32


def test_without_a_folder_the_process_has_its_own(tmp_path: Path) -> None:
    """Where nothing can be written the secret is random, the same until the process ends."""
    assert stored_secret(tmp_path / "gone") == process_secret()
    assert len(process_secret()) == 32
