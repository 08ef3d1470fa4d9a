import pickle
import re

import pytest

from judge_eval import errors
from judge_eval.errors import DataError, MissError, UnknownNameError, advise


def drawn() -> dict[str, str]:
    """Read the tree at the top of the module: each class with the one above it."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        result = re.match(r"^(\s+(?:[│ ] +)*)(?:[├└]── )?([A-Z]\w+Error)\b", line)
        if result:
            depth = (len(line) - len(line.lstrip("│├└─ ")) - 4) // 4
            path[depth:] = [result[2]]
            parents[result[2]] = path[depth - 1] if depth else ""
    return parents


def test_the_tree_is_drawn_as_it_is() -> None:
    """The tree at the top of the module and the classes agree, name by name and branch by branch."""
    made = {
        name: kind.__base__.__name__ if kind.__base__ is not Exception else ""
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert drawn() == made
    assert len(made) > 10


def test_advice_names_what_is_near() -> None:
    """A typo is answered with the nearest names, nonsense with all of them."""
    assert advise("suport", ["support", "relevance"]) == "did you mean 'support'?"
    assert advise("SUPPORT", ["support"]) == "did you mean 'support'?"
    assert advise("zzz", ["a", "b"]) == "known: a, b"
    assert advise("zzz", []) == "none are known"
    assert str(UnknownNameError("prompt", "suport", ["support"])) == "no prompt 'suport'; did you mean 'support'?"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DataError("m"), "m"),
        (DataError("m", file="f"), "f: m"),
        (DataError("m", file="f", line=3), "f:3: m"),
        (DataError("m", file="f", line=3, field="a.b"), "f:3: a.b: m"),
        (DataError("m", field="a"), "a: m"),
    ],
)
def test_a_data_error_says_where(error: DataError, told: str) -> None:
    """File, line and field stand before the message, as far as they are known."""
    assert str(error) == told


def test_a_missing_answer_survives_another_process() -> None:
    """The error names trace and chunks, also after it was sent between processes."""
    error = MissError("the cache", "t1", ["a", "b"], "run online")
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error) == "no answer in the cache for trace 't1', chunks 'a', 'b'; run online"
    assert back.chunk_ids == ("a", "b")
