"""No rule asks for a kind of judge by its name outside of `judges`: the `Kind` of a judge says what differs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import judge_eval
from judge_eval.registry import MODES, kind_named, kind_of_record, parts_of, stages_of

PACKAGE = Path(judge_eval.__file__).parent
NAMES = {*MODES, "panel", "cascade"} - {"claims"}
"""The names of kinds; claims are also fields and tables."""
CLASSES = {"Pointwise", "Listwise", "Decision", "Claims", "Panel", "Cascade", "WholeTraces"}
FIELDS = {"members"}
"""Fields of records in which a kind keeps its parts."""
ALLOWED = {"judges", "prompts"}
"""Rooms of the kinds themselves, and of their prompt files."""


def rules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield what compares with the name of a kind, asks for its class, or reads the field of its parts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                items = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
                for item in items:
                    if isinstance(item, ast.Constant) and item.value in NAMES and "mode" in ast.unparse(node):
                        yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            asked = {each.id for part in node.args[1:] for each in ast.walk(part) if isinstance(each, ast.Name)}
            if name == "isinstance" and asked & CLASSES:
                yield node.lineno, ast.unparse(node)
            first = node.args[0] if node.args else None
            if name == "get" and isinstance(first, ast.Constant) and first.value in FIELDS:
                yield node.lineno, ast.unparse(node)


def by_name(source: str) -> list[str]:
    """Return where Python code asks for a kind by its name."""
    return [f"{line}: {text}" for line, text in rules(ast.parse(source))]


@pytest.mark.slow
def test_no_python_file_asks_for_a_kind_by_name() -> None:
    """Outside of the kinds one function alone reads the models of a run by route."""
    found = {
        str(path.relative_to(PACKAGE)): rules
        for path in sorted(PACKAGE.rglob("*.py"))
        if not ALLOWED & set(path.relative_to(PACKAGE).parts) and (rules := by_name(path.read_text(encoding="utf-8")))
    }
    assert list(found) == ["runs/folder/describing.py"]
    assert len(found["runs/folder/describing.py"]) == 1


@pytest.mark.parametrize(
    "rule",
    [
        'record.get("mode") == "cascade"',
        'mode in ("decision", "listwise")',
        "isinstance(judge, Cascade)",
        "isinstance(judge, Panel | Cascade)",
        'judge.get("members")',
    ],
)
def test_a_rule_by_name_is_found(rule: str) -> None:
    """The search finds each way in which such a rule can be written."""
    assert by_name(rule)


def test_a_kind_states_its_parts_and_stages() -> None:
    """Records are read by what their kind states; of a kind that nobody knows nothing is."""
    cascade = {"mode": "cascade", "cheap": {"mode": "pointwise"}, "strong": {"mode": "listwise"}}
    assert list(stages_of(cascade)) == ["cheap", "strong"]
    assert parts_of({"mode": "panel", "members": [{"mode": "pointwise"}]}) == [{"mode": "pointwise"}]
    assert (stages_of({"mode": "pointwise"}), parts_of({"mode": "pointwise"})) == ({}, [])
    assert (kind_of_record({}).stages, kind_of_record({"mode": "no-such-kind"}).parts) == ((), None)
    assert [name for name in MODES if kind_named(name).shows_list] == ["listwise"]
