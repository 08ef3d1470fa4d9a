"""From two runs to the file of a cascade: what is refused, and what the file's digest covers."""

from __future__ import annotations

from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.digest import digest_json
from judge_eval.errors import DataError
from judge_eval.note import Note
from judge_eval.study.cascade_file import CascadeFile
from judge_eval.study.cascade_fitting import PilotSample, SampleFacts, fit_runs
from judge_eval.views.note_sentences import IN_WORDS, note_sentence

FACTS = SampleFacts(
    sample=PilotSample(traces=[], spots=[], chunks={}, dataset="data", digest="0" * 64, total=60, eligible=60),
    seed=0,
    models={"cheap": "fake/overlap", "strong": "fake/overlap"},
    prompts={"cheap": "support/decision@1", "strong": "support/binary@2"},
    modes={"cheap": "decision", "strong": "pointwise"},
)


def sample(mode: Any, clusters: int) -> EvalRun:
    """Judge sixty traces of one chunk in so many clusters."""
    rows = [
        {
            "id": f"t{n}",
            "query": f"What is {n}?",
            "reference": f"It is blue {n}.",
            "chunks": [{"id": "c", "text": f"Thing {n} is {'blue' if n % 2 else 'gone'}."}],
            "metadata": {"cluster": n % clusters},
        }
        for n in range(60)
    ]
    with Evaluator("fake/overlap", mode=mode, metrics=["RR"], cache=False) as evaluator:
        return evaluator.evaluate(rows)


def fitted(clusters: int) -> CascadeFile:
    """Fit a decision model before a chat model, both offline."""
    return fit_runs(sample("decision", clusters), sample("pointwise", clusters), FACTS)


def test_traces_of_one_cluster_are_refused() -> None:
    """Runs over several traces of one cluster give no bound, whoever drew them."""
    assert fitted(60).fit.n == 60
    with pytest.raises(DataError, match=r"60 traces are in 59 clusters \(metadata.cluster\)"):
        fitted(59)


def test_a_digest_is_of_all_but_notes() -> None:
    """Another cluster key makes another cascade, and the record of the guarantee names only one that there is."""
    file = fitted(60)
    assert file.digest == digest_json({**file.model_dump(mode="json"), "notes": []})
    assert file.model_copy(update={"cluster": "document", "clusters": 60}).digest != file.digest
    guarantee = file.guarantee
    assert guarantee is not None
    assert "cluster" not in guarantee.record()


def test_a_cascade_printed_with_sentences_has_the_digest_of_its_file() -> None:
    """Notes are in the file as they are, in what is printed as sentences: it is the same cascade."""
    file = fitted(60).model_copy(update={"notes": (Note(kind="unjudged", count=2),)})
    for context in (None, IN_WORDS):
        again = CascadeFile.model_validate_json(file.model_dump_json(context=context))
        assert again.digest == file.digest
        assert [note_sentence(note) for note in again.notes] == [note_sentence(note) for note in file.notes]
