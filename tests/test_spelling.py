"""Messages name options; Python, the command line, REST and a configuration file spell them."""

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
from judge_eval.cli.flags.configured import configured
from judge_eval.cli.printing.error_messages import flag_spelling
from judge_eval.cli.verbs import make_app
from judge_eval.errors import ConfigError, DataError, JudgeEvalError, RunError
from judge_eval.server.app import create_app
from judge_eval.server.server_settings import ServerSettings
from judge_eval.spelling import OptionName, json_spelling, option, python_spelling, spell, toml_spelling
from tests.support.forking import ROOT, call

PACKAGE = Path(judge_eval.__file__).parent
SPELLING_FLAGS = {"cli", "pytest_plugin", "settings.py", "spelling.py"}
"""Who may spell flags: the doors at which they are given, and the module that says what spelling is."""


def trees(pattern: str, without: set[str]) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules of the package in whose source the pattern stands, without those of some rooms."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place, source = path.relative_to(PACKAGE), path.read_text(encoding="utf-8")
        if place.parts[0] not in without and re.search(pattern, source):
            yield place, ast.parse(source)


def literals(pattern: str) -> Iterator[tuple[Path, ast.AST, str]]:
    """Yield texts, f-strings' parts and docstrings that hold the pattern, but for the flags' own help."""
    for path, tree in trees(pattern, SPELLING_FLAGS):
        helps = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Setting", "_setting", "_kept", "_limits")
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and node not in helps else None
            if isinstance(text, str) and re.search(pattern, text):
                yield path, node, text


def named_options() -> Iterator[tuple[Path, OptionName]]:
    """Yield the options that messages of the package name, with those values that are literals."""
    for path, tree in trees(r"\boption\(", {"cli"}):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "option":
                name, *value = node.args
                if not isinstance(name, ast.Constant):
                    continue
                known = value[0].value if value and isinstance(value[0], ast.Constant) else None
                yield path, OptionName(str(name.value), known)


def flags() -> set[str]:
    """Return every flag of every verb."""
    words, commands = set(), [get_command(make_app())]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for parameter in command.params:
            words |= {*parameter.opts, *parameter.secondary_opts}
    return words


def test_every_option_that_a_message_names_is_a_flag() -> None:
    """What the command line makes of a named option is a flag that some verb takes."""
    known = flags()
    unknown = {
        f"{path}: {flag_spelling(named)}"
        for path, named in named_options()
        if flag_spelling(named).split()[0] not in known
    }
    assert "--cache" in known
    assert unknown == set()


@pytest.mark.parametrize(
    ("name", "value", "python", "flag", "json", "toml"),
    [
        ("by", "none", 'by="none"', "--by none", '"by": "none"', 'by = "none"'),
        ("on_invalid", None, "`on_invalid`", "--on-invalid", '"on_invalid"', "on_invalid"),
        ("new_if_done", True, "new_if_done=True", "--new-if-done", '"new_if_done": true',
         "new_if_done = true"),
        ("offline", False, "offline=False", "--no-offline", '"offline": false', "offline = false"),
        ("limit", 3, "limit=3", "--limit 3", '"limit": 3', "limit = 3"),
        ("records", "My sheet", 'records="My sheet"', "--records 'My sheet'", '"records": "My sheet"',
         'records = "My sheet"'),
        ("unsupported", ["a", "b"], 'unsupported=["a", "b"]', "--unsupported a --unsupported b",
         '"unsupported": ["a", "b"]', 'unsupported = ["a", "b"]'),
        ("map", {"query": "q", "chunks": "c"}, 'map={"query": "q", "chunks": "c"}',
         "--map query=q --map chunks=c", '"map": {"query": "q", "chunks": "c"}',
         'map = { query = "q", chunks = "c" }'),
        ("record", Path("x.jsonl"), 'record="x.jsonl"', "--record x.jsonl", '"record": "x.jsonl"',
         'record = "x.jsonl"'),
    ],
)  # fmt: skip
def test_each_door_spells_an_option(name: str, value: object, python: str, flag: str, json: str, toml: str) -> None:
    """One reference reads as an argument, as a flag, as a field and as a key."""
    message = f"give {option(name, value)}!"
    doors = (python_spelling, flag_spelling, json_spelling, toml_spelling)
    spelled = [spell(message, door) for door in doors]
    assert spelled == [f"give {python}!", f"give {flag}!", f"give {json}!", f"give {toml}!"]


def test_an_argument_of_another_name_is_named_in_python() -> None:
    """Where Python has another argument, it alone spells that one."""
    message = option("confidence", True, python="params={...}")
    spelled = spell(message, python_spelling), spell(message, flag_spelling)
    assert spelled == ("params={...}", "--confidence")


def test_what_data_hold_is_not_taken_for_a_reference() -> None:
    """Control characters in a text that a message quotes stay as they are."""
    for text in (
        "\x0e",
        "\x0e\x0f",
        "\x0e[1]\x0f",
        "\x0e{}\x0f",
        "\x0e[1, 2, 3]\x0f",
        '\x0e["a", 1, null',
        "\x0ewhat\x0f",
    ):
        assert spell(text, python_spelling) == text


@pytest.mark.parametrize("kind", [ConfigError, DataError, RunError, JudgeEvalError])
def test_an_error_speaks_python_until_a_door_spells_it(kind: type[JudgeEvalError]) -> None:
    """`str()`, `repr()`, `args` and `message` show arguments, pickled or not; doors show their own."""
    error = kind(f"choose another ({option('mode', 'listwise')})")
    for each in (error, pickle.loads(pickle.dumps(error))):
        shown = f"choose another ({python_spelling(OptionName('mode', 'listwise'))})"
        assert (str(each), each.args, getattr(each, "message", shown)) == (shown, (shown,), shown)
        assert "\x0e" not in repr(each)
        assert each.spelled(flag_spelling) == "choose another (--mode listwise)"


def test_a_fault_keeps_its_options_at_another_place() -> None:
    """Moved to the file and line that hold it, an error still names its options for every door."""
    moved = DataError(f"give {option('corpus')}", field="a").at(file="x.csv", line=2, field="a")
    assert str(moved) == "x.csv:2: a: give `corpus`"
    assert moved.message_for(str.upper, flag_spelling) == "X.CSV:2: a: give --corpus"


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


def test_rest_tells_fields(tmp_path: Path) -> None:
    """The server answers an error with the names of JSON fields."""
    handlers = create_app(ServerSettings(tmp_path)).exception_handlers
    answer = handlers[JudgeEvalError](None, ConfigError(f"choose another ({option('mode', 'listwise')})"))  # type: ignore[arg-type]
    assert json.loads(bytes(answer.body))["error"]["message"] == 'choose another ("mode": "listwise")'  # type: ignore[union-attr]


def test_the_settings_of_a_file_are_told_as_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever judges by a configuration file alone is advised in its words."""
    (tmp_path / "judge_eval.toml").write_text('model = "decisions/x"\nmode = "pointwise"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match='mode = "decision"'):
        configured().evaluator(first="MRR")
