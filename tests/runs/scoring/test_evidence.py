"""Metrics with a cutoff in words, of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import EvalRun, Evaluator, FakeBackend, Trace
from judge_eval.errors import RefusedError
from judge_eval.runs.scoring.rescore import rescore
from tests.support.cuts import GLUED, MANUAL, SHIFTED, SMALL, Part, run_of
from tests.support.examples import examples
from tests.support.verdicts import judged

CLAIMS = {"a": ["interval", "acid"]}
FAILED = RefusedError("no")
WORDS = st.lists(st.integers(0, 10**6), min_size=150, max_size=150, unique=True).map(
    lambda drawn: [f"w{number}" for number in drawn]
)


def score(parts: Any, *metrics: str, claims: Any = CLAIMS) -> list[float | None]:
    """The scores of one trace."""
    (result,) = run_of({"a": parts}, claims, metrics=metrics).results
    return [result.scores[name] for name in metrics]


def test_worked_numbers() -> None:
    """Claim 1 is read at word 18 and claim 2 at word 28 of the small chunks; of another cut claim 2 alone, at 32."""
    budgets = [f"ClaimRecall@{b}w" for b in (15, 17, 18, 27, 28, 31)]
    assert score(SMALL, *budgets) == [0, 0, 0.5, 0.5, 1, 1]
    assert score(GLUED, "ClaimRecall@16w", "ClaimRecall@17w", "ClaimRecall@27w", "ClaimRecall@28w") == [0, 0.5, 0.5, 1]
    assert score(SHIFTED, "ClaimRecall@31w", "ClaimRecall@32w", "ClaimRecall@33w") == [0, 0.5, 0.5]
    binary = [(MANUAL[0], None), (MANUAL[1], "every 40 hours"), (MANUAL[2], "Use citric acid only")]
    assert score(binary, "HitRate@16w", "HitRate@17w", claims=None) == [0, 1]


@examples(80)
@given(texts=WORDS, relevant=st.lists(st.booleans(), min_size=10, max_size=10), k=st.integers(1, 12))
def test_chunks_of_one_length_have_the_value_at_k(texts: list[str], relevant: list[bool], k: int) -> None:
    """Without repeated words B = K * length gives the value at K, for claims and for verdicts."""
    chunks = [" ".join(texts[place * 15 : place * 15 + 15]) for place in range(10)]
    quotes = [" ".join(text.split()[3:9]) for text in chunks]
    rows = list(zip(chunks, quotes, relevant, strict=True))
    claims: list[Part] = [(text, {str(1 + n % 3): quote} if yes else {}) for n, (text, quote, yes) in enumerate(rows)]
    by_words, by_rank = score(claims, f"ClaimRecall@{15 * k}w", f"ClaimRecall@{k}", claims={"a": ["x", "y", "z"]})
    assert by_words == by_rank
    binary = [(text, quote if yes else None) for text, quote, yes in rows]
    by_words, by_rank = score(binary, f"HitRate@{15 * k}w", f"HitRate@{k}", claims=None)
    assert by_words == by_rank


def test_titles_are_read_before_the_text() -> None:
    """They take words, and a quote may stand in one."""
    chunk = {
        "id": "c",
        "title": "Annual report on descaling ovens",
        "text": "Every forty hours of use it must be done.",
    }
    trace = Trace.parse({"id": "a", "query": "q", "reference": "r", "chunks": [chunk]})
    for quote, at in (("descaling ovens", 7), ("hours of use", 11)):
        table = {"c": {"verdict": True, "evidence": quote}}
        names = [f"HitRate@{at - 1}w", f"HitRate@{at}w"]
        with Evaluator(FakeBackend.table(table), metrics=names, cache=False) as evaluator:
            (result,) = evaluator.evaluate([trace]).results
        assert list(result.scores.values()) == [0, 1], quote


@pytest.mark.parametrize("unquoted", ["", "words that stand elsewhere"])
def test_without_a_quote_the_whole_chunk_is_evidence(unquoted: str) -> None:
    """Of a judge that quotes nothing, or wrongly: it is read with 80% of its words."""
    parts = [(MANUAL[0], None), (MANUAL[1], unquoted)]
    run = run_of({"a": parts}, None, metrics=["HitRate@18w", "HitRate@19w"])
    (result,) = run.results
    assert result.outcomes[1].kind == "verdict"
    assert list(result.scores.values()) == [0, 1]


def test_failed_chunks_open_what_their_words_could_show() -> None:
    """A failed chunk may support any claim from its eighth word on; a blank one has no words to show."""
    parts: list[Part] = [(MANUAL[0], {}), (MANUAL[1], FAILED), (MANUAL[2], {"2": "Use citric acid only"})]
    names = ["ClaimRecall@14w", "ClaimRecall@15w", "ClaimRecall@28w", "HitRate@14w", "HitRate@15w", "HitRate@28w"]
    (result,) = run_of({"a": parts}, CLAIMS, metrics=names).results
    assert [result.scores[n] for n in names] == [0, None, None, 0, None, 1]
    assert result.bounds == {"ClaimRecall@15w": (0, 1), "ClaimRecall@28w": (0.5, 1), "HitRate@15w": (0, 1)}
    blank: list[Part] = [("", FAILED), *SMALL]
    assert score(blank, "ClaimRecall@28w") == [1]


def test_a_doubled_chunk_takes_words_and_gains_nothing() -> None:
    """Evidence counts at its first place, and what stands behind a repeat is read later."""
    doubled = [SMALL[1], SMALL[1], SMALL[2]]
    assert score(doubled, "ClaimRecall@12w", "ClaimRecall@32w", "ClaimRecall@33w") == [0.5, 0.5, 1]


def test_partial_support_and_vital_claims_weigh_as_by_rank() -> None:
    """`partial=half` gives half for partial evidence that has been read."""
    parts: list[Part] = [SMALL[0], (MANUAL[1], {"1": ("partial", "descaled every 40 hours of use")}), SMALL[2]]
    names = [f"ClaimRecall({p})@{b}w" for p in ("partial=half", "partial=full") for b in (17, 18, 28)]
    assert score(parts, *names, "ClaimRecall@28w") == [0, 0.25, 0.75, 0, 0.5, 1, 0.5]


def test_grades_have_hits_of_their_own() -> None:
    """On a graded scale `rel=` asks for evidence of chunks with that grade."""
    traces = [
        Trace.parse(
            {
                "id": "a",
                "query": "q",
                "reference": "r",
                "chunks": [{"id": f"{n}", "text": t} for n, t in enumerate(MANUAL)],
            }
        )
    ]
    table = {"0": 1, "1": 2, "2": 3}
    names = ["HitRate(rel=1)@8w", "HitRate@8w", "HitRate@21w", "HitRate(rel=3)@21w", "HitRate(rel=3)@31w"]
    run = judged(traces, table, prompt="support/graded", metrics=names)
    assert list(run.results[0].scores.values()) == [1, 0, 1, 0, 1]


def test_no_claim_has_no_value_and_no_chunk_finds_none() -> None:
    """As by rank: undefined without a claim, 0 for an empty list."""
    assert score(SMALL, "ClaimRecall@9w", claims={"a": []}) == [None]
    assert score([], "ClaimRecall@9w", "HitRate@9w") == [0, 0]


def test_a_cutoff_in_words_costs_no_call(tmp_path: Path) -> None:
    """Scoring again, from a folder, gives what judging gave."""
    names = ["ClaimRecall@20w", "HitRate@20w"]
    run = run_of({"a": SMALL, "b": GLUED}, {**CLAIMS, "b": CLAIMS["a"]}, out=tmp_path / "run", metrics=["AP@3"])
    again = rescore(EvalRun.load(run.folder), names)  # type: ignore[arg-type]
    assert [list(result.scores.values()) for result in again.results] == [[0.5, 1.0], [0.5, 1.0]]
    assert again.manifest.tally.calls == run.manifest.tally.calls
