from __future__ import annotations

import pytest

from tests.support.command import FIXTURES
from tests.support.desk import Desk
from tests.support.runs import leave_failed

FAKE = ("--model", "fake/overlap", "-q")
PIZZA = FIXTURES / "pizza.jsonl"


def test_a_run_without_a_key_leaves_no_folder(desk: Desk) -> None:
    """A command that could not start leaves nothing, and says nothing of a run to resume."""
    result = desk("run", PIZZA, "--model", "openai/some-model")
    assert (result.code, "--resume" in result.err) == (2, False)
    assert not (desk.folder / "runs").exists()


def run_id(desk: Desk, *arguments: object) -> str:
    """Return the start of the id of the run that a command shows."""
    result = desk(*arguments)
    assert result.code == 0, result.err
    return result.out.rsplit("\nrun ", 1)[1][:8]


def test_a_failed_run_does_not_shadow_a_good_one(desk: Desk) -> None:
    """`latest` and `label:x` pass over a run that failed, and say which they took."""
    assert desk("run", PIZZA, *FAKE, "--label", "main").code == 0
    good = run_id(desk, "show", "latest")
    leave_failed(PIZZA, "main")
    for name in ("latest", "label:main"):
        result = desk("show", name)
        assert (result.code, f"\nrun {good}" in result.out) == (0, True)
        assert result.err == f"{name} is run {good}; a newer one failed or ended without a verdict\n"
        assert desk("compare", good, name).code == 0
        assert desk("report", name, "-o", "page.html").code == 0
    assert desk("show", good).err == ""


def test_what_is_not_newer_than_the_newest_good_run_is_no_matter(desk: Desk) -> None:
    """Nothing is said where the newest run is taken, whatever older ones became."""
    leave_failed(PIZZA)
    assert desk("run", PIZZA, *FAKE).code == 0
    assert desk("show", "latest").err == ""


def test_an_incomplete_run_with_verdicts_is_taken(desk: Desk) -> None:
    """What holds verdicts is shown as it is; what ended without one is passed over."""
    assert desk("run", PIZZA, *FAKE).code == 0
    good = run_id(desk, "show", "latest")
    assert desk("run", PIZZA, "--model", "fake/refused", "-q").code == 3
    result = desk("show", "latest")
    assert f"\nrun {good}" in result.out
    assert "a newer one failed or ended without a verdict" in result.err


def test_a_retriever_that_found_nothing_makes_no_empty_run(desk: Desk) -> None:
    """A run whose traces have no chunks has values, and is taken."""
    assert desk("run", PIZZA, *FAKE).code == 0
    (desk.folder / "none.jsonl").write_text('{"id": "q", "query": "a", "reference": "b", "chunks": []}\n')
    assert desk("run", "none.jsonl", *FAKE).code == 0
    result = desk("show", "latest")
    assert result.err == ""
    assert "none.jsonl: 1 trace," in result.out


def test_where_no_run_has_a_verdict_the_newest_is_shown_and_that_is_said(desk: Desk) -> None:
    """With nothing better the failed run is shown, with the reason."""
    leave_failed(PIZZA)
    result = desk("show", "latest")
    assert result.code == 0
    assert "of status failed; no run has verdicts" in result.err


@pytest.mark.parametrize("name", ["latest", "label:main"])
def test_going_on_takes_the_newest_whatever_became_of_it(desk: Desk, name: str) -> None:
    """`run --resume latest` goes on with the run that failed, which is what it is for."""
    assert desk("run", PIZZA, *FAKE, "--label", "main").code == 0
    leave_failed(PIZZA, "main")
    result = desk("run", PIZZA, *FAKE, "--label", "main", "--resume", name)
    assert "cannot resume" in result.err, result.err
    assert "a newer one" not in result.err
