from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer

from tests.support.application import app
from tests.support.desk import Desk


def commands() -> dict[str, Any]:
    """Return every command by its words."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name, inner in command.commands.items() if hasattr(command, "commands") else ():
            walk(inner, (*words, name))
        if not hasattr(command, "commands"):
            found[" ".join(words)] = command

    walk(typer.main.get_command(app), ())
    return found


COMMANDS = commands()


def examples(name: str) -> list[str]:
    """Return the examples in a command's help."""
    _, _, shown = (COMMANDS[name].help or "").replace("Examples:", "Example:").partition("Example:\n")
    joined = re.sub(r"\n\s*(?=-)", " ", shown)  # an example of two lines goes on with a flag
    return [line.strip() for line in joined.splitlines() if line.strip()]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_verb_has_an_example_that_parses(name: str) -> None:
    """Each example calls the verb it stands under, and all of its flags and arguments exist."""
    shown = examples(name)
    assert shown, f"{name} has no example"
    for line in shown:
        words = shlex.split(line.rpartition(" | ")[2])
        assert words[: 1 + len(name.split())] == ["judge-eval", *name.split()], line
        given = words[1 + len(name.split()) :]
        COMMANDS[name].make_context(name, given, resilient_parsing=False)


def test_help_shows_the_examples(desk: Desk) -> None:
    """They stand in what `--help` prints, each at the start of a line."""
    told = desk("show", "--help")
    assert told.code == 0
    assert "\n judge-eval show latest --worst 10" in told.out
