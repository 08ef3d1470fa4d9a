"""What people give as text is read by one rule each."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval.errors import ConfigError
from judge_eval.safe_text import prompt_name, read_params, read_toml


@pytest.mark.parametrize(
    ("pair", "name", "value"),
    [
        ("temperature=0", "temperature", 0),
        ("reasoning_effort=low", "reasoning_effort", "low"),
        ("reasoning_effort = low", "reasoning_effort", "low"),
        ("seed = 7 ", "seed", 7),
        ("stop=a=b", "stop", "a=b"),
        ('user="007"', "user", "007"),
        ('prefix=" a"', "prefix", " a"),
    ],
)
def test_a_parameter_is_json_or_text(pair: str, name: str, value: object) -> None:
    """A value is JSON where it reads as JSON, else text without the blanks around it, as in an ini file."""
    assert read_params([pair], "--param") == {name: value}


@pytest.mark.parametrize("pair", ["temperature", "=0", " =0"])
def test_a_parameter_without_a_name_is_refused(pair: str) -> None:
    """The message says where it was given and how it is written."""
    with pytest.raises(ConfigError, match=r"--param .*write NAME=VALUE"):
        read_params([pair], "--param")


def test_a_prompt_is_an_id_or_a_file() -> None:
    """Only `file:` makes a path."""
    assert prompt_name("support/binary") == "support/binary"
    assert prompt_name("file:my/prompt.toml") == Path("my/prompt.toml")


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    """One message says which file and why."""
    path = tmp_path / "x.toml"
    with pytest.raises(ConfigError, match="cannot be read"):
        read_toml(path)
    path.write_text("a = ")
    with pytest.raises(ConfigError, match=r"x\.toml: not TOML"):
        read_toml(path)


def test_a_key_in_the_wrong_place_is_not_repeated() -> None:
    """A text that is no pair is shown by its first letters alone."""
    with pytest.raises(ConfigError, match=r"-p 'sk-pro\.\.\.': write NAME=VALUE") as result:
        read_params(["sk-proj-0123456789abcdef"], "-p")
    assert "0123456789" not in str(result.value)
