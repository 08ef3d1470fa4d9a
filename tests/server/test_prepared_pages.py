"""Pages that are made before anybody asks for them, or once for all who do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judge_eval.server import library as module
from judge_eval.server import page_routes
from judge_eval.server.library import Library, stamps_of
from judge_eval.server.served_runs import ServedRuns
from judge_eval.server.server_settings import ServerSettings
from tests.support.serving import ask, judge, rows, serving


def until(true: Callable[[], bool]) -> None:
    """Wait until something holds; how long in all, pytest decides."""
    while not true():
        time.sleep(0.01)


def counted(make: Callable[..., Any]) -> tuple[list[Any], Callable[..., Any]]:
    """Return a list that grows with each call of a function, and that function."""
    calls: list[Any] = []

    def called(*args: Any) -> Any:
        result = make(*args)
        calls.append(result)
        return result

    return calls, called


def test_the_page_of_a_run_is_prepared_when_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends while a server looks at the folder has its page made by a thread; who opens it gets that one."""
    made, make = counted(module.run_page)
    monkeypatch.setattr(module, "run_page", make)
    judge(rows()[:2], tmp_path)
    library = Library(tmp_path)
    library.index()
    assert made == []  # small runs of long ago are not read
    run = judge(rows()[:3], tmp_path)
    library.listing()
    until(lambda: len(made) == 1)
    assert made[0]["head"]["id"] == run.id
    page = ServedRuns(library, None).page(run.id, "none")
    assert page is made[0]
    assert len(made) == 1


def test_a_run_that_cannot_be_read_stops_no_preparing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is remembered as faulty, and the next run that ends is prepared all the same."""
    made, make = counted(module.run_page)
    monkeypatch.setattr(module, "run_page", make)
    library = Library(tmp_path)
    library.index()
    broken = judge(rows()[:2], tmp_path)
    assert broken.folder is not None
    (broken.folder / "results.jsonl").unlink()
    library.listing()
    until(lambda: not library._preparing)
    assert library._faulty == {("plain", broken.folder, stamps_of(broken.folder)[:2])}
    run = judge(rows()[:3], tmp_path)
    library.listing()
    until(lambda: [page["head"]["id"] for page in made] == [run.id])


@pytest.mark.slow
def test_a_page_of_several_runs_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that is opened twice is scored once; with a run of other labels or another order it is another page."""
    named = page_routes.page_named
    made, make = counted(named("pool").make)
    monkeypatch.setattr(page_routes, "page_named", lambda name: replace(named(name), make=make))
    a, b = judge(rows()[:4], tmp_path, label="a"), judge(rows()[:4], tmp_path, label="b")
    with serving(ServerSettings(tmp_path)) as url:
        first, again = (ask(f"{url}/api/v1/pages/pool?run={a.id}&run={b.id}") for _ in range(2))
        assert first == again
        assert len(made) == 1
        ask(f"{url}/api/v1/pages/pool?run={b.id}&run={a.id}")
        assert len(made) == 2
