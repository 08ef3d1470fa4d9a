"""Judging by claims by batch: references are split in one round, chunks held against claims in the next."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval.runs.keeping.lookup import run_folders
from tests.support.application import app
from tests.support.batch_server import BatchServer
from tests.support.batching import RUNNER, call, export, newest, run_online, same_results
from tests.support.claiming import asked_of, by_words, cell
from tests.support.killing import Killer

pytestmark = pytest.mark.slow
METRICS = ("--metrics", "AP@5,NDCG@5,ClaimRecall@5,Sufficiency@5")
THINGS = ("kettle", "lamp", "violin", "rudder")


def in_parts(body: Mapping[str, Any]) -> Any:
    """Answer by words; who knows nothing states a part of the first claim, and all chunks give each claim."""
    fields = by_words(body)
    user = str(body["messages"][-1]["content"])
    if asked_of(body) == "together":
        return {"claims": [{**item, "quotes": ["Nobody knows"], "covered": True} for item in fields["claims"]]}
    if asked_of(body) != "split":
        texts = re.findall(r"<chunk[ \d]*>\n(.*?)\n</chunk", user, re.DOTALL)
        for text, row in zip(texts, fields.get("chunks", [fields]), strict=True):
            if "Nobody" in text:
                row["claims"].append(cell(1, "partial", "Nobody knows"))
    return fields


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Five traces; the last has the question and the reference of the first, and other chunks."""
    lines = []
    for n in range(5):
        thing = THINGS[n % len(THINGS)]
        trace = {
            "id": f"q{n}",
            "query": f"What of the {thing}?",
            "reference": f"The {thing} is blue. It was made in Oslo.",
            "chunks": [f"A {thing} that is blue.", f"Nobody knows {n}.", f"Made in Oslo, number {n}."][n % 2 :],
        }
        lines.append(json.dumps(trace) + "\n")
    path = tmp_path / "told.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def by_rounds(folder: Path, runs: Path) -> int:
    """Lead a batch to its run, and return how many rounds it took."""
    for number in range(1, 6):
        call("batch", "submit", folder)
        call("batch", "fetch", folder)
        done = RUNNER.invoke(app, ["batch", "import", str(folder), "--finish", "batch", "--out", str(runs)])
        if done.exit_code == 0:
            return number
    raise AssertionError(done.output)


@pytest.mark.parametrize("mode", ["claims", "claims-list"])
def test_claims_by_batch_are_the_online_run(tmp_path: Path, told: Path, mode: str) -> None:
    """Split, rows and what all chunks cover together come by files; each request is paid once."""
    with BatchServer(verdict=in_parts) as server:
        online = run_online(server, told, tmp_path / "online", "--mode", mode, *METRICS)
        once = dict(server.paid)
        server.paid.clear()
        server.online = 0
        folder = tmp_path / "batch"
        first = export(server, told, folder, "--mode", mode, *METRICS)
        assert "4 requests" in first.output  # two traces share a reference
        call("batch", "import", folder, "--finish", "missing", "--out", tmp_path / "runs", code=3)
        assert by_rounds(folder, tmp_path / "runs") == 3
        call("batch", "import", folder, "--out", tmp_path / "runs")
        assert server.online == 0
        assert dict(server.paid) == once
        ((_, manifest),) = run_folders(tmp_path / "runs")  # the one that was begun without the replies
        assert manifest.tally.calls == sum(once.values())
        run = newest(tmp_path / "runs")
        same_results(run, online)
        together = [result.claims.together for result in run.results if result.claims is not None]
        assert sum(covered is not None for item in together for covered in item.values()) == 2


def test_a_file_of_claims_spares_the_first_round(tmp_path: Path, told: Path) -> None:
    """Rows are asked for at once; a file that was edited since is another batch."""
    with BatchServer(verdict=by_words) as server:
        call("claims", told, "-o", tmp_path / "claims.jsonl", "--model", "openai/m", "--base-url", server.url)
        folder = tmp_path / "batch"
        given = ("--mode", "claims", "--claims", tmp_path / "claims.jsonl")
        export(server, told, folder, *given, *METRICS)
        server.online = 0
        assert by_rounds(folder, tmp_path / "runs") <= 2
        assert server.online == 0
        origin = newest(tmp_path / "runs").manifest.dataset.claims
        assert origin is not None
        lines = (tmp_path / "claims.jsonl").read_text().splitlines()
        edited = json.loads(lines[0])
        edited["claims"][0]["text"] = "The kettle is red."
        (tmp_path / "claims.jsonl").write_text("\n".join([json.dumps(edited), *lines[1:]]) + "\n")
        refused = call("batch", "import", folder, "--finish", "later", code=2)
        assert "the data differ" in refused.output


def test_claims_need_the_mode(tmp_path: Path, told: Path) -> None:
    """A file of claims beside another mode, and claims of a decision model, are refused in words."""
    asked = ("batch", "export", told, "--out", tmp_path / "b")
    refused = call(*asked, "--model", "openai/m", "--claims", told, code=2)
    assert "(`--claims`) is for judging by claims" in refused.output
    refused = call(*asked, "--model", "decisions/d", "--mode", "claims", code=2)
    assert "decision models do not support batches" in refused.output


def test_references_are_split_by_batch(tmp_path: Path, told: Path) -> None:
    """`claims --batch` writes requests, then what is open of them, then the file that `claims` writes online."""

    def shy(body: Mapping[str, Any]) -> Any:
        if len(body["messages"]) == 2 and "The lamp is blue." in body["messages"][-1]["content"]:
            return "There are two claims."
        return by_words(body)

    with BatchServer(verdict=shy) as server:
        asked = ("claims", told, "--model", "openai/m", "--base-url", server.url)
        call(*asked, "-o", tmp_path / "online.jsonl", "--cache", tmp_path / "cache")
        once = dict(server.paid)
        lines = (tmp_path / "online.jsonl").read_text().splitlines()
        (tmp_path / "claims.jsonl").write_text(lines[0] + "\n")  # one reference is split already
        server.paid.clear()
        server.online = 0
        folder = tmp_path / "splits"
        again = (*asked, "-o", tmp_path / "claims.jsonl", "--cache", tmp_path / "other", "--batch", folder)
        for requests in ("3 requests", "1 requests"):
            told_ = call(*again, code=3).output
            assert requests in told_
            assert call(*again, code=3).output  # nothing is ordered by it
            call("batch", "submit", folder)
            if requests == "3 requests":
                assert "are being processed" in call(*again, code=3).output
            call("batch", "fetch", folder)
            assert "splits references" in call("batch", "import", folder, code=2).output
        call(*again)
        assert server.online == 0
        assert set(server.paid.values()) == {1}
        assert len(server.paid) == len(once) - 1
        assert (tmp_path / "claims.jsonl").read_text().splitlines() == lines
        call(*again)
        assert (tmp_path / "claims.jsonl").read_text().splitlines() == lines


def test_killed_splitting_pays_once(tmp_path: Path, told: Path) -> None:
    """Killed at every step, a batch of splits is ordered once and ends with the file."""
    folder, file = tmp_path / "splits", tmp_path / "claims.jsonl"
    with BatchServer(verdict=by_words) as server:
        killer = Killer(server)
        split = (
            "claims", told, "-o", file, "--model", "openai/m", "--base-url", server.url,
            "--cache", tmp_path / "cache", "--batch", folder,
        )  # fmt: skip
        killer.when(folder.exists, *split)
        killer.when((folder / "round-1").exists, *split)
        killer.to_the_end(*split, codes=(3,))
        for kind in ("upload", "create"):
            for when in ("before", "after"):
                killer.at(when, kind, "batch", "submit", folder, "--patience", 0.1)
        killer.to_the_end("batch", "submit", folder, "--patience", 0.1)
        killer.at("before", "content", "batch", "fetch", folder)
        killer.to_the_end("batch", "fetch", folder)
        killer.when((tmp_path / "cache" / "cache.db").exists, *split)
        killer.to_the_end(*split)
        assert killer.kills >= 5
        assert set(server.paid.values()) == {1}
        assert len(file.read_text().splitlines()) == len(THINGS)
