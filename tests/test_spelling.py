"""Messages name an option once, as the argument in Python and as the flag."""

import ast
import json
import os
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

import judge_eval
from judge_eval import Evaluator
from judge_eval.cli.verbs import make_app
from judge_eval.errors import ConfigError, DataError, JudgeEvalError, RunError
from judge_eval.spelling import option
from tests.support.forking import ROOT, call

PACKAGE = Path(judge_eval.__file__).parent


def trees(pattern: str, without: set[str]) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules of the package in whose source the pattern stands, without those of some rooms."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place, source = path.relative_to(PACKAGE), path.read_text(encoding="utf-8")
        if place.parts[0] not in without and re.search(pattern, source):
            yield place, ast.parse(source)


def named_options() -> Iterator[tuple[Path, str]]:
    """Yield the options that messages of the package name."""
    for path, tree in trees(r"\boption\(", {"cli"}):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "option":
                name, *_ = node.args
                if not isinstance(name, ast.Constant):
                    continue
                yield path, str(name.value)


def flags() -> set[str]:
    """Return every flag of every verb."""
    words, commands = set(), [get_command(make_app())]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for parameter in command.params:
            words |= {*parameter.opts, *parameter.secondary_opts}
    return words


def test_every_option_that_a_message_names_is_a_flag() -> None:
    """What stands in messages as a flag is one that some verb takes."""
    known = flags()
    named = {(str(path), f"--{name.replace('_', '-')}") for path, name in named_options()}
    assert len(named) > 40
    assert {(path, flag) for path, flag in named if flag not in known} == set()


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("on_invalid", None, "`on_invalid` (`--on-invalid`)"),
        ("by", "none", '`by="none"` (`--by none`)'),
        ("new_if_done", True, "`new_if_done=True` (`--new-if-done`)"),
        ("limit", 3, "`limit=3` (`--limit 3`)"),
        ("records", "My sheet", "`records=\"My sheet\"` (`--records 'My sheet'`)"),
        ("unsupported", ["a", "b"], '`unsupported=["a", "b"]` (`--unsupported a --unsupported b`)'),
        ("map", {"query": "q", "chunks": "c"}, '`map={"query": "q", "chunks": "c"}` (`--map query=q --map chunks=c`)'),
        ("record", Path("x.jsonl"), '`record="x.jsonl"` (`--record x.jsonl`)'),
    ],
)
def test_an_option_is_written_for_python_and_the_command_line(name: str, value: object, written: str) -> None:
    """A message shows the argument, and in parentheses the flag, which can be pasted into a shell."""
    assert option(name, value) == written


def test_an_argument_of_another_name_is_named_in_python() -> None:
    """If Python has another argument, that one stands before the flag."""
    assert option("confidence", True, python="params={...}") == "`params={...}` (`--confidence`)"


@pytest.mark.parametrize("kind", [ConfigError, DataError, RunError, JudgeEvalError])
def test_an_error_is_the_same_when_it_was_pickled(kind: type[JudgeEvalError]) -> None:
    """`str()`, `args` and `message` hold the message, pickled or not."""
    error = kind(f"choose another ({option('mode', 'listwise')})")
    for each in (error, pickle.loads(pickle.dumps(error))):
        shown = 'choose another (`mode="listwise"` (`--mode listwise`))'
        assert (str(each), each.args, getattr(each, "message", shown)) == (shown, (shown,), shown)


def test_a_fault_keeps_its_message_at_another_place() -> None:
    """Moved to the file and line that hold it, an error says the same; the file's name can be replaced."""
    moved = DataError("give a corpus", field="a").at(file="x.csv", line=2, field="a")
    assert str(moved) == "x.csv:2: a: give a corpus"
    assert moved.message_for(str.upper) == "X.CSV:2: a: give a corpus"
    assert ConfigError("give a corpus").message_for(str.upper) == "give a corpus"


def test_python_names_arguments_for_files_and_rows_alike(tmp_path: Path) -> None:
    """Rows in memory and files are refused with the same advice, in the words of the arguments."""
    rows = [{"user_input": "q", "reference": "r", "reference_contexts": ["c"]}]
    path = tmp_path / "x.jsonl"
    path.write_text('{"user_input": "q", "reference": "r", "reference_contexts": ["c"]}\n', encoding="utf-8")
    for data in (rows, path):
        with pytest.raises(DataError, match=r'map={"chunks": "reference_contexts"'):
            Evaluator("fake/overlap", cache=False).evaluate(data)


def test_the_command_line_tells_flags(tmp_path: Path) -> None:
    """A file without a retrieval: the command line names the flags that judge what it holds."""
    row = {"user_input": "q", "reference": "r", "reference_contexts": ["c"]}
    (tmp_path / "x.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    for code, *arguments in ((2, "validate", "x.jsonl"), (0, "convert", "x.jsonl", "--on-invalid", "skip")):
        done = call(arguments, tmp_path, {**os.environ, "PYTHONPATH": str(ROOT)}, None)
        assert done.returncode == code, done
        assert "--map chunks=reference_contexts" in done.stdout + done.stderr
