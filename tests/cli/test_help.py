from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer
from rich.text import Text

from judge_eval.cli.verbs import PANELS
from tests.support.application import app
from tests.support.desk import Desk


def commands() -> dict[str, Any]:
    """Return every command by its words."""
    messages: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name, inner in command.commands.items() if hasattr(command, "commands") else ():
            walk(inner, (*words, name))
        if not hasattr(command, "commands"):
            messages[" ".join(words)] = command

    walk(typer.main.get_command(app), ())
    return messages


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


@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_in_brackets_is_taken_for_a_style(name: str) -> None:
    """What stands in brackets (`AP@5[tag=NAME]=0.1`) is shown."""
    command = COMMANDS[name]
    for text in (command.help, *(each.help for each in command.params if each.help)):
        assert Text.from_markup(text).plain == text.replace(r"\[", "[")


def test_help_shows_the_examples(desk: Desk) -> None:
    """They stand in what `--help` prints, each at the start of a line."""
    result = desk("show", "--help")
    assert result.code == 0
    assert "\n judge-eval show latest --worst 10" in result.out


def test_the_paragraphs_of_a_help_fill_the_lines(desk: Desk) -> None:
    """A terminal breaks a paragraph at its own width alone, and not where the text in the code has its lines."""
    paragraphs = re.split(r"\n\s*\n", desk("probe", "--help").out)
    (paragraph,) = (text for text in paragraphs if "Does it know when" in text)
    widths = [len(line.strip()) for line in paragraph.splitlines()]
    longest = [len(line.split()[0]) for line in paragraph.splitlines()[1:]]
    assert all(width + 1 + word > 78 for width, word in zip(widths, longest, strict=False)), widths


def visible(name: str) -> list[Any]:
    """Return the options that the full help of a command shows."""
    return [each for each in COMMANDS[name].params if each.param_type_name == "option" and not each.hidden]


def test_h_shows_the_usual_options_on_a_screen_and_a_half(desk: Desk) -> None:
    """`run -h` shows about twenty options and says how to see the others; `--help` shows all."""
    short, full = desk("run", "-h"), desk("run", "--help")
    assert (short.code, full.code) == (0, 0)
    flags = {flag: set(re.findall(r"^. *(--[a-z-]+)", result, re.MULTILINE)) for flag, result in
             (("-h", short.out), ("--help", full.out))}  # fmt: skip
    assert 18 <= len(flags["-h"]) <= 26
    assert {"--model", "--metrics", "--limit", "--fail-under", "--dry-run", "--output"} <= flags["-h"]
    assert flags["-h"] < flags["--help"]
    assert len(short.out.splitlines()) <= 80
    assert f"{len(visible('run'))} options in all: judge-eval run --help" in short.out
    assert flags["--help"] == {max(each.opts, key=len) for each in visible("run")} | {"--help"}


@pytest.mark.parametrize("name", [name for name in COMMANDS if len(visible(name)) > 20])
def test_every_long_verb_has_a_short_help(name: str, desk: Desk) -> None:
    """A verb of more than twenty options shows at most twenty-six of them after `-h`."""
    result = desk(*name.split(), "-h")
    assert result.code == 0
    assert 5 <= len(re.findall(r"^. *--[a-z]", result.out, re.MULTILINE)) <= 26
    assert f"judge-eval {name} --help" in result.out


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("judge", ("--query", "--reference", "--chunk")),
        ("probe", ("--only", "--fail-over", "--limit")),
        ("cascade fit", ("--cascade", "--strong-model", "--alpha", "--target")),
    ],
)
def test_h_shows_the_options_of_the_verb_itself(name: str, flags: tuple[str, ...], desk: Desk) -> None:
    """What a verb has of its own, and what its example uses, stands in its short help, with what it takes."""
    output = desk(*name.split(), "-h").out
    assert all(f"{flag} " in output for flag in flags)
    assert "<list[" not in output.partition("Options")[2]
    assert "<bool>" not in output


def test_the_help_groups_commands_in_a_fixed_order(desk: Desk) -> None:
    """Five groups, what people do first at the top; every command stands in one of them."""
    text = desk("--help").out
    shown = re.findall(r"^\W*(Judge|People and trust|More answers|Data|Scale and tools) \W*$", text, re.MULTILINE)
    assert shown == list(PANELS)
    named = re.findall(r"^│ ([a-z][a-z-]+) {2,}", text, re.MULTILINE)
    assert named == [name for names in PANELS.values() for name in names]


def test_help_is_a_command(desk: Desk) -> None:
    """`help` shows the help, `help VERB` that of a verb, `help GROUP VERB` that of one in a group."""
    assert desk("help").out == desk("--help").out
    assert desk("help", "run").out == desk("run", "--help").out
    assert desk("help", "runs", "list").out == desk("runs", "list", "--help").out
    assert desk("help", "nope").code == 2


def test_the_short_help_of_run_holds_what_decides_the_exit_code(desk: Desk) -> None:
    """`run -h` names the cache and the failures that are allowed."""
    text = desk("run", "-h").out
    assert "--cache" in text
    assert "--max-failures" in text
