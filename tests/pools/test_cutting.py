from __future__ import annotations

import numpy as np
import pytest

from judge_eval import EvalRun, Trace, import_verdicts
from judge_eval.errors import DataError
from judge_eval.pools.fitting import cut_by_score
from judge_eval.views.pool import cut_sentence


def scored(relevance: float, seed: int = 0) -> EvalRun:
    """Make a run of 60 questions whose scores tell relevance by so much."""
    rng = np.random.default_rng(seed)
    traces, grades = [], {}
    for number in range(60):
        hits = rng.random(8) < 0.3
        scores = np.round(rng.random(8) + relevance * hits, 6)
        order = np.argsort(-scores)
        chunks = [{"id": f"c{i}", "text": f"{number} {i}", "score": float(scores[i])} for i in order]
        traces.append(Trace(id=f"q{number}", query=f"{number}?", chunks=chunks))
        grades |= {(f"q{number}", f"c{i}"): int(hits[i]) for i in order}
    return import_verdicts(grades, traces, metrics=["P@8"], label="dense")


def test_a_score_that_tells_is_cut_where_it_tells() -> None:
    """Scores of relevant chunks from 1.1 up, of others below 1: the cut keeps all and nothing else."""
    cut = cut_by_score(scored(1.1))
    assert all(0.95 < threshold < 1.2 for threshold in cut.thresholds)
    assert (cut.precision.value or 0) > 0.98
    assert (cut.recall.value or 0) > 0.98
    assert "of the relevant chunks stay" in cut_sentence(cut)


def test_a_score_of_chance_gains_nothing() -> None:
    """Scores without a relation to relevance: precision is about what it is without a cut, not flattered by choice."""
    cuts = [cut_by_score(scored(0.0, seed)) for seed in range(10)]
    gains = [(cut.precision.value or 0) - (cut.uncut.value or 0) for cut in cuts]
    assert abs(float(np.mean(gains))) < 0.02


def test_a_cut_needs_scores_and_relevant_chunks() -> None:
    """A chunk without a score, and a run without anything relevant, are named."""
    trace = Trace(id="q", query="q?", chunks=[{"id": "c", "text": "t"}])
    with pytest.raises(DataError, match="has no score"):
        cut_by_score(import_verdicts({("q", "c"): 1}, [trace], metrics=["P@1"]))
    scored_trace = Trace(id="q", query="q?", chunks=[{"id": "c", "text": "t", "score": 1.0}])
    with pytest.raises(DataError, match="no relevant chunk"):
        cut_by_score(import_verdicts({("q", "c"): 0}, [scored_trace], metrics=["P@1"]))
