"""Writing a file whole, and holding one against others."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from judge_eval.errors import mask
from judge_eval.files import held_folder, hold, remove_empty, replacing


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    """Where the block raises, the file stays as it was and nothing lies beside it."""
    path = tmp_path / "a"
    path.write_bytes(b"before")

    def write_half() -> None:
        with replacing(path) as file:
            file.write(b"after")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half"):
        write_half()
    assert path.read_bytes() == b"before"
    with replacing(path) as file:
        file.write(b"after")
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_asked_for(tmp_path: Path) -> None:
    """A private file is private before its first byte is written."""
    path = tmp_path / "secret"
    with replacing(path, mode=0o600) as file:
        (beside,) = tmp_path.iterdir()
        assert beside.stat().st_mode & 0o777 == 0o600
        file.write(b"x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_held_file_is_held_against_others(tmp_path: Path) -> None:
    """A second opening does not get the lock until the first is closed."""
    path = tmp_path / "lock"
    with path.open("ab") as first, path.open("ab") as second:
        assert hold(first)
        assert not hold(second, wait=False)
        first.close()
        assert hold(second, wait=False)


def test_a_folder_that_its_holder_removes_keeps_others_waiting(tmp_path: Path) -> None:
    """Whoever waited for a folder that was removed holds the one that is made in its place."""
    folder, order, waits = tmp_path / "a" / "b", list[str](), Event()

    def hold_it(name: str) -> None:
        with held_folder(folder):
            order.append(name)
            waits.wait(0.3)
            order.append(name)

    second, third = Thread(target=hold_it, args=("second",)), Thread(target=hold_it, args=("third",))
    with held_folder(folder):
        second.start()
        waits.wait(0.1)
        remove_empty(folder, folder.parent)
    while not order:
        waits.wait(0.01)
    third.start()
    second.join()
    third.join()
    assert order == ["second", "second", "third", "third"]


def test_secrets_are_masked_the_longest_first() -> None:
    """No rest of a secret is left where another is its beginning; what is empty masks nothing."""
    assert mask("key abc, key abcdef", ["abc", None, "", "abcdef"]) == "key ***, key ***"
