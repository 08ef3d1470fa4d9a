"""Pages of several runs are kept for the next server, and made again when a file of theirs changes."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from judge_eval.eval_run import EvalRun
from judge_eval.pages import derived_files
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.runs.folder.validation import VALIDATION
from judge_eval.server.comparison_routes import make_comparison_routes, make_matrix_routes
from judge_eval.server.library import Library
from tests.support.judges import only
from tests.support.runs import evaluator, traces


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[EvalRun]:
    """Three runs that ended, whose pages are kept although they are small."""
    monkeypatch.setattr(derived_files, "FROM", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    judges = only("q0-a"), only("q1-a", "q2-b"), only("q0-a", "q3-c")
    return [evaluator(judge).evaluate(traces(5, 3), out=tmp_path / "runs") for judge in judges]


def pages_of(runs: list[EvalRun]) -> list[Any]:
    """Ask the routes of a new server for what the pages of the runs show first."""
    assert runs[0].folder is not None
    library, ids = Library(runs[0].folder.parent), [run.id for run in runs]
    made = (*make_comparison_routes(library).routes, *make_matrix_routes(library).routes)
    routes = {route.path: route.endpoint for route in made if isinstance(route, APIRoute)}
    usual: dict[str, Any] = {"filter": "", "metric": None, "offset": 0, "limit": 25}
    two = {"baseline": ids[0], "candidate": ids[1]}
    return [
        routes["/compare"](**two),
        routes["/compare/changed"](**two, **usual, sort="change", trace_id=None),
        routes["/matrix"](run=ids),
        routes["/matrix/rows"](run=ids, **usual, sort="apart"),
        routes["/pages/{name}"](name="pool", run=ids),
    ]


def kept_files() -> list[Path]:
    """Return the kept pages."""
    return sorted(Path(os.environ["XDG_CACHE_HOME"]).glob("judge_eval_pages/*.page"))


@pytest.mark.slow
def test_a_later_server_shows_the_kept_pages(runs: list[EvalRun], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pages come without a run being opened, for their user alone, and those of small runs are not kept."""
    first = pages_of(runs)
    assert len(kept_files()) == 5
    assert kept_files()[0].parent.stat().st_mode & 0o077 == 0
    with monkeypatch.context() as patch:
        patch.setattr(Library, "table", None)
        assert json.dumps(pages_of(runs)) == json.dumps(first)
    for path in kept_files():
        path.unlink()
    monkeypatch.setattr(derived_files, "FROM", 10**9)
    assert json.dumps(pages_of(runs)) == json.dumps(first)
    assert kept_files() == []


def labelled(run: EvalRun) -> None:
    """Add a label."""
    assert run.folder is not None
    add_label(run.folder, Label(trace_id="q0", chunk_id="q0-a", label=0))


def renamed(run: EvalRun) -> None:
    """Change the label of the run."""
    assert run.folder is not None
    path = run.folder / "manifest.json"
    path.write_text(path.read_text().replace('"label": null', '"label": "new"'))


def validated(run: EvalRun) -> None:
    """Change the table of validated judges beside the runs."""
    assert run.folder is not None
    (run.folder.parent / VALIDATION).write_text('{"rows": []}')


def spoiled(_: EvalRun) -> None:
    """Write another page into each kept file."""
    for path in kept_files():
        path.write_bytes(path.read_bytes().replace(b"q1", b"q9"))


@pytest.mark.slow
@pytest.mark.parametrize("change", [labelled, renamed, validated, spoiled])
def test_a_page_that_does_not_fit_is_made_again(runs: list[EvalRun], change: Callable[[EvalRun], None]) -> None:
    """A label, an edited manifest, a validation and a spoiled file lead to the page that is made without a kept one."""
    pages_of(runs)
    whole = {path.name: path.read_bytes() for path in kept_files()}
    change(runs[1])
    after = pages_of(runs)
    assert change is spoiled or all(whole[path.name] != path.read_bytes() for path in kept_files())
    for path in kept_files():
        path.unlink()
    assert json.dumps(after) == json.dumps(pages_of(runs))
    assert '"q9"' not in json.dumps(after)


def test_kept_pages_are_bounded(runs: list[EvalRun], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest pages stay, and no page beyond the bound of its size."""
    monkeypatch.setattr(derived_files, "MOST", 3)
    pages_of(runs)
    assert len(kept_files()) == 3
    for path in kept_files():
        path.unlink()
    monkeypatch.setattr(derived_files, "LARGEST_PAGE", 100)
    pages_of(runs)
    assert kept_files() == []
