"""`missing`: the verb around the search of a corpus."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from judge_eval.errors import DataError
from judge_eval.server.server_settings import ServerSettings
from tests.support.command import FIXTURES
from tests.support.desk import Desk
from tests.support.serving import ask, serving


def write(path: Path, rows: Iterable[Any]) -> None:
    """Write JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def shop(desk: Desk) -> Desk:
    """A desk with a run that lost questions, and its corpus."""
    assert desk("run", FIXTURES / "docs_qa_by_title.jsonl", "-m", "fake/overlap", "-q", "--label", "title").code == 0
    lines = map(json.loads, (FIXTURES / "docs_qa.jsonl").read_text(encoding="utf-8").splitlines())
    write(
        desk.folder / "corpus.jsonl",
        [{key: chunk.get(key) for key in ("id", "title", "text")} for trace in lines for chunk in trace["chunks"]],
    )
    return desk


ASK = ("missing", "label:title", "--corpus", "corpus.jsonl", "-m", "fake/overlap")


@pytest.mark.slow
def test_the_verb(shop: Desk) -> None:
    """A dry run counts and asks nobody; the run is kept, shown, resumed without a call, and reported on again."""
    dry = shop(*ASK, "--cache", "none", "--dry-run")
    assert (dry.code, "no request was sent" in dry.err) == (0, True)
    assert len([*(shop.folder / "runs").iterdir()]) == 1
    done = shop(*ASK, "--label", "found")
    assert done.code == 0, done.err
    assert "15 questions found nothing relevant." in done.out
    assert "a chunk is accepted for 9: read them" in done.out
    again = shop(*ASK, "--resume")
    assert again.out == done.out
    assert shop("missing", "label:found").out == done.out
    assert done.out.strip() in shop("show", "label:found").out
    assert len([*(shop.folder / "runs").iterdir()]) == 2


def test_time_and_memory_of_a_large_corpus_are_told_before(shop: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything of it is read, from the size of the files, also packed; not of a small one, nor with `-q`."""
    dry = ("missing", "label:title", "-m", "fake/overlap", "--dry-run", "--corpus")
    assert "searching" not in shop(*dry, "corpus.jsonl").err
    for name in ("large.jsonl", "large.jsonl.gz"):
        with (shop.folder / name).open("wb") as file:
            file.truncate(800_000_000 if name.endswith("jsonl") else 160_000_000)

    def read(*_: object) -> None:
        raise DataError("read")

    monkeypatch.setattr("judge_eval.missing.CorpusIndex", read)
    for name in ("large.jsonl", "large.jsonl.gz"):
        done = shop(*dry, name)
        said = "searching 0.8 GB of text takes about 3 minutes and 2.2 GB of memory"
        assert done.err.splitlines()[0].endswith(said), done.err
        assert "searching" not in shop(*dry, name, "-q").err


@pytest.mark.slow
def test_one_record_for_json_rest_and_page(shop: Desk) -> None:
    """A server gives what `--json` prints, with labels that came later; of another run it is refused."""
    assert shop(*ASK, "--label", "found", "-q").code == 0
    with serving(ServerSettings(shop.folder / "runs")) as url:
        for confirmed in (0, 1):
            printed = json.loads(shop("missing", "label:found", "--json").out)
            status, record, _ = ask(f"{url}/api/v1/runs/label%3Afound/missing")
            assert (status, record, record["confirmed"]) == (200, printed, confirmed)
            page = ask(f"{url}/api/v1/runs/label%3Afound/page")[1]
            assert ("1 confirmed by people" in str(page["parts"])) is bool(confirmed)
            first = next(each for each in record["questions"] if each["accepted"])
            label = {"trace_id": first["trace_id"], "chunk_id": first["accepted"][0]["chunk_id"], "label": 1}
            assert ask(f"{url}/api/v1/runs/{record['run']}/labels", method="POST", body=label)[0] == 201
        assert ask(f"{url}/api/v1/runs/label%3Atitle/missing")[0] == 422


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (("missing", "label:title", "-m", "fake/overlap"), "--corpus FILE"),
        ((*ASK, "--prompt", "support/graded"), "this is not the judge of title"),
        ((*ASK, "--depth", "0"), "--depth"),
        (("missing", "label:title", "--corpus", "none.jsonl", "-m", "fake/overlap"), "none.jsonl"),
        (("missing", "label:title", "--corpus", "corpus.jsonl"), "model"),
    ],
)
def test_what_is_refused(shop: Desk, flags: tuple[str, ...], fault: str) -> None:
    """One message, exit code 2, before any call."""
    done = shop(*flags)
    assert (done.code, done.out) == (2, "")
    assert fault in done.err


def test_bm25s_is_an_extra(shop: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the message says what to install."""
    monkeypatch.setitem(sys.modules, "bm25s", None)
    done = shop(*ASK)
    assert done.code == 2
    assert "[corpus]" in done.err


def test_nothing_is_lost(desk: Desk) -> None:
    """A run in which each question has a relevant chunk needs no search."""
    row = {"id": "a", "query": "owls?", "reference": "owls hoot", "chunks": ["owls hoot"]}
    write(desk.folder / "t.jsonl", [row])
    write(desk.folder / "corpus.jsonl", [{"id": "d", "text": "owls"}])
    assert desk("run", "t.jsonl", "-m", "fake/overlap", "-q").code == 0
    done = desk("missing", "latest", "--corpus", "corpus.jsonl", "-m", "fake/overlap")
    assert (done.code, "no question of" in done.out) == (0, True)


def test_claims_mode_end_to_end(desk: Desk) -> None:
    """A run by claims is searched and judged by claims, with the same judge."""
    corpus = [{"id": "d0", "text": "Zebras have stripes, which are black."}, {"id": "d1", "text": "Owls hoot."}]
    write(desk.folder / "corpus.jsonl", corpus)
    row = {"id": "a", "query": "What do zebras have?", "reference": "Zebras have stripes.", "chunks": ["Owls."]}
    write(desk.folder / "t.jsonl", [row])
    assert desk("run", "t.jsonl", "-m", "fake/overlap", "--mode", "claims", "-q").code == 0
    done = desk("missing", "latest", "--corpus", "corpus.jsonl", "-m", "fake/overlap", "--json", "-q")
    assert done.code == 0, done.err
    assert [each["chunk_id"] for each in json.loads(done.out)["questions"][0]["accepted"]] == ["d0"]
