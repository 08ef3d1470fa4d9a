"""The house keeps its order: names stand for one thing, rooms and signatures stay small."""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "judge_eval"
TESTS = Path(__file__).parent
FLOORS = (
    ("integrations",),
    ("cli", "server", "pytest_plugin"),
    ("batch", "distributed", "trials"),
    ("pages",),
    ("export",),
    ("compare", "pools", "study"),
    ("runs",),
    ("judges", "llm", "metrics", "stats", "data"),
)
"""The floors that are folders; what is a single file has a name of its own anyway."""
NUMPY_ALIASES = {"Floats", "Ints"}
"""Short names of NumPy arrays, the same wherever they stand."""
SAME_ROLE = {"base", "options"}
"""Module names that mean the same in each room: what a judge is, how data are read."""


SHARED = {
    "agree", "agreement", "bias", "calibrate", "calibration", "cascade", "claims", "compare",
    "comparison", "correct", "correction", "decision", "drift", "judge", "labels", "missing", "options",
    "pool", "probe", "report", "run", "sample", "slices",
    "tables", "trec", "validation",
}  # fmt: skip
"""Module names that stand in several rooms and mean one thing in all: a verb, its study and its view, for instance."""


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """Read every module once."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def length(path: Path) -> int:
    """Count a module's lines."""
    return path.read_text(encoding="utf-8").count("\n")


def test_no_contract_has_an_exemption() -> None:
    """Imports inside functions count for the floors and for circles like all others."""
    text = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    assert [each["name"] for each in contracts if each.get("ignore_imports")] == []


def test_a_class_name_stands_for_one_thing(trees: dict[Path, ast.Module]) -> None:
    """No two modules define a public class, or name a type, of one name."""
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                name = node.name
            elif (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and "TypeAlias" in ast.unparse(node.annotation)
            ):
                name = node.target.id
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if len(name) == 1 or name in NUMPY_ALIASES or not re.fullmatch(r"[A-Z]\w*[a-z]\w*", name):
                    continue
            else:
                continue
            if not name.startswith("_"):
                places[name].append(str(path.relative_to(PACKAGE)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice


def test_a_function_name_stands_for_one_thing(trees: dict[Path, ast.Module]) -> None:
    """No two modules define a public function of one name, but for what is one thing at two doors.

    A verb of the command line bears the name of what it calls; each provider makes its backend by `create`.
    """
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                room = path.relative_to(PACKAGE).parts[0]
                if room not in ("cli", "pytest_plugin") and node.name != "create":
                    places[node.name].append(str(path.relative_to(PACKAGE)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice


def test_a_module_name_stands_for_one_thing_on_its_floor() -> None:
    """On one floor no two modules bear one name, unless they play the same part in each of its rooms."""
    for floor in FLOORS:
        names = Counter(
            path.stem for room in floor for path in (PACKAGE / room).rglob("*.py") if path.stem != "__init__"
        )
        twice = {name for name, count in names.items() if count > 1} - SAME_ROLE
        assert not twice, floor


def test_a_module_name_that_rooms_share_is_known() -> None:
    """A name that stands in several rooms means one thing: a new one is added to the list after a look, or avoided."""
    names = Counter(path.stem for path in PACKAGE.rglob("*.py") if path.stem != "__init__")
    assert {name for name, count in names.items() if count > 1} == SHARED


def test_a_test_module_has_a_name_of_its_own() -> None:
    """Test modules outside packages have distinct names: pytest imports them by name alone and refuses the second."""
    plain = [path.name for path in TESTS.rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    assert [name for name, count in Counter(plain).items() if count > 1] == []


def test_no_room_is_a_fifth_of_the_house(trees: dict[Path, ast.Module]) -> None:
    """No folder right below the package holds more than 20% of its lines."""
    total = sum(map(length, trees))
    for room in (path for path in PACKAGE.iterdir() if path.is_dir()):
        share = sum(map(length, room.rglob("*.py"))) / total
        assert share <= 0.2, f"{room.name} holds {share:.0%} of the lines"


def test_no_signature_is_long(trees: dict[Path, ast.Module]) -> None:
    """No function takes more than 12 parameters, `self` not counted."""
    long = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                count = len([item for item in given if item.arg not in ("self", "cls")])
                if count > 12:
                    long.append(f"{path.relative_to(PACKAGE)}: {node.name} takes {count}")
    assert not long


def test_records_hold_no_sentences(trees: dict[Path, ast.Module]) -> None:
    """What a record warns of or notes is data, of which a view makes a sentence."""
    fields = [
        (path.name, node.name, ast.unparse(each.target), ast.unparse(each.annotation))
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
    ]
    said = [field for field in fields if field[2] in {"warnings", "notes", "doubts"}]
    assert ("correction.py", "CorrectedMean", "warnings", "tuple[Doubt, ...]") in said
    assert [field for field in said if re.search(r"\bstr\b", field[3])] == []


def test_every_module_says_what_it_is_for(trees: dict[Path, ast.Module]) -> None:
    """Every module begins with a docstring whose first line is one sentence."""
    for path, tree in trees.items():
        first = (ast.get_docstring(tree) or "").split("\n")[0]
        assert first.endswith((".", ":")), path


def test_the_drawing_is_the_layer_contract() -> None:
    """The picture of the house is what its script draws from the floors and the rooms' own words."""
    root = PACKAGE.parent
    drawn = runpy.run_path(str(root / "docs" / "pictures" / "house.py"))["drawing"]()
    assert (root / "docs" / "design" / "house.svg").read_text(encoding="utf-8") == drawn


def test_what_the_house_page_names_is_there() -> None:
    """Every example that the page names exists."""
    text = (PACKAGE.parent / "docs" / "design" / "house.md").read_text(encoding="utf-8")
    examples = re.findall(r"`(tests/[\w/.]+)`", text)
    assert len(examples) >= 6
    assert [path for path in examples if not (PACKAGE.parent / path).exists()] == []


def test_variables_bear_nouns(trees: dict[Path, ast.Module]) -> None:
    """No variable or parameter is called by a word that says nothing of what it holds."""
    empty = {"told", "found", "said", "one"}
    stored = [
        (path, node.lineno, node.arg if isinstance(node, ast.arg) else node.id)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
    fields = {
        (path, node.target.lineno)
        for path, tree in trees.items()
        for record in ast.walk(tree)
        if isinstance(record, ast.ClassDef)
        for node in record.body
        if isinstance(node, ast.AnnAssign)
    }
    assert [
        f"{path}:{line} {name}" for path, line, name in stored if name in empty and (path, line) not in fields
    ] == []
