"""A judge by claims against people's cells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.errors import DataError
from judge_eval.stats import cohen_kappa
from judge_eval.study.agree_claims import agree_on_claims, holds_claim_labels, read_claim_labels
from tests.support.claim_fixtures import CELLS, CLAIMS


@pytest.fixture(scope="module")
def run() -> EvalRun:
    """The claims of the fixtures, judged offline."""
    with Evaluator("fake/overlap", mode="claims", metrics=["ClaimRecall"], cache=False) as evaluator:
        return evaluator.evaluate(CLAIMS)


def level(outcome: object, claim: str) -> int:
    """Return a judged cell's level by hand."""
    supports = {s.claim: s.support for s in outcome.supports or ()}  # type: ignore[attr-defined]
    return {"full": 2, "partial": 1}.get(supports.get(claim, "none"), 0)


def test_cells_together_and_recall(run: EvalRun) -> None:
    """Kappa of three levels is that of all cells paired by hand; recall is that of the metric."""
    labels = read_claim_labels(CELLS)
    output = agree_on_claims(run, labels, "cells")
    judge, people, recalls, scores = [], [], [], []
    for result in run.results:
        cells = labels[result.trace_id].chunks
        if result.claims is None or result.failed:
            continue  # a reference without claims
        covered = set()
        for outcome in result.outcomes:
            theirs = {cell.claim: cell.support for cell in cells[outcome.chunk_id]}
            for claim in result.claims.claims:
                judge.append(level(outcome, claim.id))
                people.append({"full": 2, "partial": 1}.get(theirs.get(claim.id, "none"), 0))
                covered |= {claim.id} if people[-1] == 2 else set()
        scores.append(result.scores["ClaimRecall"])
        recalls.append(len(covered) / len(result.claims.claims))
    assert output.cells == len(judge) == sum(map(sum, output.confusion))
    assert output.figures["kappa"].value == pytest.approx(cohen_kappa(judge, people))
    assert output.figures["accuracy"].value == pytest.approx(np.mean(np.array(judge) == np.array(people)))
    assert (output.failed, output.elsewhere) == (0, 0)
    assert output.recall is not None
    assert output.recall.people == pytest.approx(np.mean(recalls))
    assert output.recall.difference.n == len(recalls)
    assert output.recall.judge == pytest.approx(np.mean(scores))
    answered = sum(
        result.claims is not None and result.claims.together.get(claim) is not None
        for result in run.results
        for claim in labels[result.trace_id].together
    )
    assert (output.together["kappa"].n if output.together else 0) == answered


def test_what_does_not_match_is_counted(run: EvalRun, tmp_path: Path) -> None:
    """Unknown traces, chunks and claims are counted; without any match the message says what to do."""
    path = tmp_path / "cells.jsonl"
    first = run.results[0]
    lines = [
        {
            "trace": first.trace_id,
            "chunks": {first.outcomes[0].chunk_id: [{"claim": "no", "support": "full"}], "x": []},
        },
        {"trace": "nowhere", "chunks": {}},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    result = agree_on_claims(run, read_claim_labels(path), "cells")
    assert result.elsewhere == 3
    assert result.recall is None
    with pytest.raises(DataError, match="judge by claims"):
        agree_on_claims(run, {"nowhere": read_claim_labels(path)["nowhere"]}, "cells")
    path.write_text(path.read_text() + "\n" + json.dumps(lines[1]))
    with pytest.raises(DataError, match="two lines are of trace 'nowhere'"):
        read_claim_labels(path)
    path.write_text('{"trace": "t", "chunks": {"c": [{"claim": "1", "support": "much"}]}}\n')
    assert holds_claim_labels(path)
    with pytest.raises(DataError, match="support"):
        read_claim_labels(path)
