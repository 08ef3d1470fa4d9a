"""No rule asks for a metric by its name outside of the metrics' families: the `Spec` of a metric says what differs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import judge_eval
from judge_eval.metrics.metric import ALIASES, SPECS

PACKAGE = Path(judge_eval.__file__).parent
WORDS = {"map"}
"""Names of metrics that are words of other things, too: of probabilities there is a map."""
NAMES = {name for _, name in SPECS} | set(ALIASES)
BEGINNINGS = NAMES - WORDS | {f"{name}{mark}" for name in NAMES for mark in ("@", "_", "(")}
SEARCHES = {"startswith", "endswith", "removeprefix", "removesuffix", "count", "index", "find"}


def constants(node: ast.AST) -> list[str]:
    """Return the texts of a node: its own, or those of a tuple, list or set."""
    items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def texts_in_rules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts, each with its line, that code compares with, searches for, or lists under a constant's name."""
    for node in ast.walk(tree):
        found: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            found = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
            found = list(node.args)
        elif isinstance(node, ast.MatchValue):
            found = [node.value]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Tuple | ast.List | ast.Set):
            texts = constants(node.value)
            # A list of names alone is a rule; one with a cutoff (`AP@5`) is a default that users see.
            found = [node.value] if texts and set(texts) <= NAMES else []
        for each in found:
            for text in constants(each):
                yield each.lineno, text


def by_name(source: str) -> list[str]:
    """Return where Python code asks for a metric by its name."""
    return [f"{line}: {text}" for line, text in texts_in_rules(ast.parse(source)) if text in BEGINNINGS]


def by_name_in_script(source: str) -> list[str]:
    """Return where a page's script names a metric."""
    return [text for text in re.findall(r"""["'`]([^"'`\n]*)["'`]""", source) if text in BEGINNINGS]


@pytest.mark.slow
def test_no_python_file_asks_for_a_metric_by_name() -> None:
    """Outside of `metrics/families` no code compares a text with a metric's name, or lists names for that."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "families" not in path.parts:
            assert by_name(path.read_text(encoding="utf-8")) == [], path.relative_to(PACKAGE)


def test_no_page_script_names_a_metric() -> None:
    """What a page shows first, and which way is better, comes from the server."""
    for path in sorted((PACKAGE / "pages" / "web").glob("*.js")):
        assert by_name_in_script(path.read_text(encoding="utf-8")) == [], path.name


@pytest.mark.parametrize(
    "rule",
    [
        'metric.name == "UDCG"',
        'name.startswith("AP")',
        'name.startswith(("P@", "DCG"))',
        'RANKING = ("AP", "MAP", "NDCG")',
        'metric.name in {"Harm"}',
        'match name:\n    case "Harm":\n        pass',
    ],
)
def test_a_rule_by_name_is_found(rule: str) -> None:
    """The search finds each way in which such a rule can be written."""
    assert by_name(rule)


def test_a_name_in_a_script_is_found() -> None:
    """The search finds a metric's name in a script, and nothing in words that only begin like one."""
    assert by_name_in_script('names.find((n) => n.startsWith("AP"))') == ["AP"]
    assert by_name_in_script('el("Apple", "P of all")') == []
