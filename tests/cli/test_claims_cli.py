"""`claims` and `--claims`: split once, read, mend, commit, judge by it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from tests.support.chat_server import ChatServer
from tests.support.claiming import asked_of, by_words
from tests.support.command import FIXTURES
from tests.support.desk import Desk

DATA = FIXTURES / "docs_qa.jsonl"
FAKE = ("--model", "fake/overlap")
BY_CLAIMS = (*FAKE, "--mode", "claims", "-q")


def small(desk: Desk, name: str = "data.jsonl", **changes: Any) -> Path:
    """Write a dataset of three traces, two of which share question and reference."""
    rows = [
        {"id": "a", "query": "What is hot?", "reference": "The oven is hot.", "chunks": ["The oven is hot."]},
        {"id": "b", "query": "What is hot?", "reference": "The oven is hot.", "chunks": ["Ice is cold."]},
        {"id": "c", "query": "Who bakes?", "reference": "Anna bakes. Ben eats.", "chunks": ["Anna bakes."]},
    ]
    path = desk.folder / name
    path.write_text("".join(json.dumps({**row, **changes}) + "\n" for row in rows))
    return path


def entries(path: Path) -> list[dict[str, Any]]:
    """Read a file of claims."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def run_of(desk: Desk) -> EvalRun:
    """Load the newest run."""
    return EvalRun.load(max((desk.folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns))


def test_each_reference_is_split_once_in_the_datas_order(desk: Desk) -> None:
    """One line a distinct question and reference; the same bytes every time."""
    data = small(desk)
    result = desk("claims", data, "-o", "claims.jsonl", *FAKE)
    assert result.code == 0, result.err
    assert "2 references split in claims.jsonl" in result.err
    path = desk.folder / "claims.jsonl"
    assert [row["query"] for row in entries(path)] == ["What is hot?", "Who bakes?"]
    assert [[c["text"] for c in row["claims"]] for row in entries(path)] == [
        ["The oven is hot."],
        ["Anna bakes.", "Ben eats."],
    ]
    assert desk("claims", data, *FAKE).out.strip() == path.read_text().strip()


def test_edits_are_left_alone(desk: Desk) -> None:
    """An existing file gains what it lacks and keeps its bytes; --force alone splits anew."""
    data = small(desk)
    path = desk.folder / "claims.jsonl"
    mine = '{"query":  "Who bakes?", "reference": "Anna bakes. Ben eats.", "claims": ["Anna is a baker."]}'
    path.write_text(mine)
    assert desk("claims", data, "-o", path, *FAKE).code == 0
    assert path.read_text().splitlines()[0] == mine
    assert [row["query"] for row in entries(path)] == ["Who bakes?", "What is hot?"]
    before = path.read_bytes()
    result = desk("claims", data, "-o", path, *FAKE)
    assert "no reference was split, 2 already existed" in result.err
    assert path.read_bytes() == before
    assert desk("claims", data, "-o", path, *FAKE, "--force").code == 0
    assert len(entries(path)[1]["claims"]) == 2


def test_a_broken_file_is_told_before_a_call(desk: Desk) -> None:
    """A line that is none ends it, and nothing is overwritten."""
    path = desk.folder / "claims.jsonl"
    path.write_text("{")
    result = desk("claims", small(desk), "-o", path, *FAKE)
    assert result.code == 2
    assert "claims.jsonl:1: not JSON" in result.err
    assert path.read_text() == "{"


def test_claims_are_not_added_to_a_packed_file(desk: Desk) -> None:
    """A packed file is read by `run`, and is not torn by adding lines to it."""
    data = small(desk)
    packed = gzip.compress(b'{"query": "q?", "reference": "r", "claims": ["one"]}\n')
    (desk.folder / "claims.jsonl").write_bytes(packed)
    result = desk("claims", data, "-o", "claims.jsonl", *FAKE)
    assert result.code == 2
    assert "claims.jsonl: packed" in result.err
    assert (desk.folder / "claims.jsonl").read_bytes() == packed


def test_a_dry_run_tells_splits_and_cells(desk: Desk) -> None:
    """`claims` tells how many references are left; `run` how many calls split, and estimates the others."""
    data = small(desk)
    output = desk("claims", data, "-o", "claims.jsonl", *FAKE, "--dry-run").out
    assert "2 references, 0 with claims, 2 to split\n2 calls" in output
    assert not (desk.folder / "claims.jsonl").exists()
    flags = (*FAKE, "--mode", "claims", "--dry-run")
    output = desk("run", data, *flags).out
    assert "5 calls, 1 answered without a call" in output
    assert "2 of the calls split references into claims; the other 3 are estimated" in output
    assert desk("claims", data, "-o", "claims.jsonl", *FAKE).code == 0
    for more in (flags, (*flags, "--claims", "claims.jsonl")):
        output = desk("run", data, *more).out
        assert "3 calls" in output
        assert "split references" not in output
    assert desk("run", data, *BY_CLAIMS).code == 0
    assert "0 calls" in desk("run", data, *flags).out


def test_a_run_uses_the_file(desk: Desk) -> None:
    """Its claims are those of the traces; the manifest names file and digest; no reference is split."""
    data = small(desk)
    desk("claims", data, "-o", "claims.jsonl", *FAKE, "--cache", "none")
    outcome = desk("run", data, *BY_CLAIMS, "--claims", "claims.jsonl", "--cache", "none")
    assert outcome.code == 0, outcome.err
    run = run_of(desk)
    assert run.manifest.tally.calls == 3
    origin = run.manifest.dataset.claims
    assert origin is not None
    assert (origin.name, len(origin.digest)) == ("claims.jsonl", 64)
    told_claims = [[claim.text for claim in result.claims.claims] for result in run.results if result.claims]
    assert told_claims == [["The oven is hot."], ["The oven is hot."], ["Anna bakes.", "Ben eats."]]
    assert [result.outcomes[0].supports is not None for result in run.results] == [True] * 3  # type: ignore[union-attr]


def test_what_the_file_lacks_is_named(desk: Desk) -> None:
    """The line of the data is told, before anything is asked; --on-invalid skip leaves it out."""
    data = small(desk)
    desk("claims", data, "-o", "claims.jsonl", *FAKE, "--limit", "2")
    result = desk("run", data, *BY_CLAIMS, "--claims", "claims.jsonl")
    assert result.code == 2
    assert "data.jsonl:3: " in result.err
    assert "claims.jsonl has no claims of this question and reference" in result.err
    assert not (desk.folder / "runs").exists()
    assert desk("run", data, *BY_CLAIMS, "--claims", "claims.jsonl", "--on-invalid", "skip").code == 0


def test_the_file_is_for_judging_by_claims(desk: Desk) -> None:
    """In another mode it would change nothing but digests, so it is refused; so are panels."""
    data = small(desk)
    (desk.folder / "claims.jsonl").write_text("")
    result = desk("run", data, *FAKE, "--claims", "claims.jsonl")
    assert (result.code, "(`--claims`) is for judging by claims" in result.err) == (2, True)
    result = desk("run", data, "--member", "fake/overlap", "--member", "fake/never", "--mode", "claims")
    assert (result.code, "a panel does not judge by claims" in result.err) == (2, True)


def edited(desk: Desk, old: str, new: str) -> None:
    """Mend the file of claims by hand."""
    path = desk.folder / "claims.jsonl"
    path.write_text(path.read_text().replace(old, new))


def test_an_edit_judges_anew_exactly_what_it_is_of(desk: Desk) -> None:
    """One claim reworded: one trace has another digest, and its chunks alone are asked about again."""
    data = small(desk)
    desk("claims", data, "-o", "claims.jsonl", *FAKE)
    by = (*BY_CLAIMS, "--claims", "claims.jsonl")
    assert desk("run", data, *by).code == 0
    first = run_of(desk)
    edited(desk, '"Ben eats.", "vital"', '"Ben eats bread.", "vital"')
    result = desk("run", data, *by, "--resume", first.id)
    assert result.code == 2
    assert "cannot resume: the claims differ (of claims.jsonl, digest" in result.err
    assert desk("run", data, *by).code == 0
    second = run_of(desk)
    same = [a.digest == b.digest for a, b in zip(first.results, second.results, strict=True)]
    assert same == [True, True, False]
    assert second.manifest.tally.calls == 1
    warned = desk("compare", first.id, second.id)
    assert "warning: the claims differ in 1 trace (c)" in warned.out + warned.err
    clean = desk("compare", first.id, first.id)
    assert "claims differ" not in clean.out + clean.err


def test_other_claims_of_no_file_are_warned_of_too(desk: Desk) -> None:
    """A file against claims that were split by the way: equal ones compare without a word, others do not."""
    data = small(desk)
    desk("claims", data, "-o", "claims.jsonl", *FAKE)
    assert desk("run", data, *BY_CLAIMS, "--label", "split").code == 0
    assert desk("run", data, *BY_CLAIMS, "--label", "file", "--claims", "claims.jsonl").code == 0
    edited(desk, 'Ben eats.", "vital"', 'Ben eats bread.", "vital"')
    assert desk("run", data, *BY_CLAIMS, "--label", "edited", "--claims", "claims.jsonl").code == 0
    same = desk("compare", "label:split", "label:file")
    assert "claims differ in" not in same.out + same.err
    other = desk("compare", "label:split", "label:edited")
    assert "the claims differ in 1 trace (c)" in other.out + other.err


def test_a_dataset_may_bring_its_claims(desk: Desk) -> None:
    """They are used as they are, split by nobody, written by `claims` as they are."""
    own = [{"id": "k", "text": "The oven is very hot."}]
    data = small(desk, claims=own)
    assert desk("run", data, *BY_CLAIMS).code == 0
    run = run_of(desk)
    assert run.manifest.tally.calls == 3
    assert {claim.id for result in run.results if result.claims for claim in result.claims.claims} == {"k"}
    outcome = desk("claims", data, *FAKE, "--dry-run")
    assert "0 to split" in outcome.out
    assert desk("claims", data, *FAKE).out.count('"id": "k"') == 2


def test_failures_are_named_and_the_rest_is_kept(desk: Desk) -> None:
    """A reference that cannot be split is told with its question and code 3; the others are written."""

    def answer(body: Any) -> Any:
        answers = json.dumps(body)
        return "no" if "Who bakes?" in answers else by_words(body)

    with ChatServer(verdict=answer) as server:
        flags = ("--model", "openai/m", "--base-url", server.url)
        result = desk("claims", small(desk), "-o", "claims.jsonl", *flags, OPENAI_API_KEY="sk-x")
        assert {asked_of(body) for body in server.calls} == {"split"}
    assert result.code == 3, result.err
    assert '"Who bakes?": the reference could not be split into claims: ' in result.err
    assert [row["query"] for row in entries(desk.folder / "claims.jsonl")] == ["What is hot?"]


def test_no_file_is_named_that_was_not_written(desk: Desk) -> None:
    """If no reference could be split, no file is written, and none is named."""
    result = desk("claims", small(desk), "-o", "claims.jsonl", "--model", "fake/refused")
    assert (result.code, (desk.folder / "claims.jsonl").exists()) == (3, False)
    assert result.err.endswith("no reference was split\n")
    assert "claims.jsonl" not in result.err


def test_words_that_no_claim_comes_from_are_noted(desk: Desk) -> None:
    """They stand in the line, and are counted."""

    def answer(body: Any) -> Any:
        split = by_words(body)
        return {"claims": split["claims"][:1]}

    with ChatServer(verdict=answer) as server:
        flags = ("--model", "openai/m", "--base-url", server.url)
        result = desk("claims", small(desk), "-o", "claims.jsonl", *flags, OPENAI_API_KEY="sk-x")
    assert result.code == 0, result.err
    assert "1 have words that no claim covers" in result.err
    assert entries(desk.folder / "claims.jsonl")[1]["uncovered"] == ["Ben eats"]


@pytest.mark.parametrize("mode", ["claims", "claims-list"])
def test_over_http(desk: Desk, mode: str) -> None:
    """A chat server answers splits and rows; a second run asks nobody, nor does another retriever's split."""
    with ChatServer(verdict=by_words) as server:
        flags = ("--model", "openai/m", "--base-url", server.url, "--mode", mode, "-q")
        result = desk("run", DATA, *flags, "--limit", "5", OPENAI_API_KEY="sk-x")
        assert result.code == 0, result.err
        names = [asked_of(body) for body in server.calls]
        assert names.count("split") == 5
        asked = len(names)
        assert desk("run", DATA, *flags, "--limit", "5", OPENAI_API_KEY="sk-x").code == 0
        assert len(server.calls) == asked
        assert desk("run", DATA, *flags, "--limit", "5", "--depth", "1", OPENAI_API_KEY="sk-x").code == 0
        assert [asked_of(body) for body in server.calls].count("split") == 5


def test_metrics_over_claims_come_from_the_same_run(desk: Desk) -> None:
    """Ranking metrics and those over claims are of one run; a judge that tells no claims is refused them."""
    data = small(desk)
    metrics = ("--metrics", "AP@5,ClaimRecall@5,Sufficiency@5")
    assert desk("run", data, *BY_CLAIMS, *metrics).code == 0
    by_trace = {result.trace_id: result.scores for result in run_of(desk).results}
    assert by_trace["a"] == {"AP@5": 1.0, "ClaimRecall@5": 1.0, "Sufficiency@5": 1.0}
    assert by_trace["b"] == {"AP@5": 0.0, "ClaimRecall@5": 0.0, "Sufficiency@5": 0.0}
    assert by_trace["c"] == {"AP@5": 1.0, "ClaimRecall@5": 0.5, "Sufficiency@5": 0.0}
    outcome = desk("run", data, *FAKE, *metrics)
    assert (outcome.code, "use a judge by claims" in outcome.err) == (2, True)
