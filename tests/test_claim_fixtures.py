"""The hand-made traces with claims hold together, and have the cases they were written for."""

from collections import Counter

import pytest

from judge_eval.metrics import parse_metric
from tests.support.claim_fixtures import case_of, claim_traces, truths
from tests.support.command import FIXTURES
from tests.support.naive_claims import VARIANTS, naive, table_of

KINDS = {
    "plain": 12, "no-claims": 3, "one-claim": 3, "forty-claims": 1, "cross-language": 4, "two-claims": 3,
    "together": 4, "contradiction": 4, "duplicate": 3, "empty-retrieval": 2, "partial": 2, "okay-only": 1,
    "all-irrelevant": 2, "redundant": 2,
}  # fmt: skip


def test_every_claim_quotes_its_reference_and_every_cell_its_chunk() -> None:
    """Word for word; ids are unique, and cells are of chunks and claims that exist."""
    traces = claim_traces()
    assert set(truths()) == {trace.id for trace in traces}
    for trace in traces:
        claims = {claim.id: claim for claim in trace.claims or ()}
        assert all(claim.quote and claim.quote in (trace.reference or "") for claim in claims.values())
        truth = truths()[trace.id]
        assert list(truth.rows) == [chunk.id for chunk in trace.chunks]
        for chunk in trace.chunks:
            row = truth.rows[chunk.id]
            assert len({cell.claim for cell in row}) == len(row)
            assert all(cell.claim in claims and cell.quote in chunk.text for cell in row)
            if claims:
                assert chunk.label == any(cell.support != "contradicts" for cell in row)


def test_what_is_asked_of_all_chunks_is_what_none_covers_but_one_does_in_part() -> None:
    """As a judge by claims asks it."""
    for trace in claim_traces():
        truth = truths()[trace.id]
        cells = [cell for row in truth.rows.values() for cell in row]
        alone = {cell.claim for cell in cells if cell.support == "full"}
        partly = {cell.claim for cell in cells if cell.support == "partial"}
        assert set(truth.together) == partly - alone, trace.id


def test_texts_that_read_alike_say_the_same() -> None:
    """A repeated chunk has the row of the first."""
    for trace in claim_traces():
        messages: dict[str, object] = {}
        for chunk in trace.chunks:
            row = truths()[trace.id].rows[chunk.id]
            assert messages.setdefault(chunk.text, row) == row


def test_the_cases_are_there() -> None:
    """At least forty traces, of every kind that the page of the fixtures names."""
    traces = claim_traces()
    assert Counter(str(trace.metadata["kind"]) for trace in traces) == KINDS
    assert len(traces) >= 40
    assert {len(trace.claims or ()) for trace in traces} >= {0, 1, 2, 3, 40}
    words = Counter(word for trace in traces for row in case_of(trace).rows for word in row)
    assert words.keys() == {"full", "partial", "contradicts", "none"}
    values = [answer for truth in truths().values() for answer in truth.together.values()]
    assert set(values) == {True, False}
    page = (FIXTURES / "README.md").read_text()
    assert all(f"| `{kind}` |" in page for kind in KINDS)
    chunks = sum(len(trace.chunks) for trace in traces)
    claims = sum(len(trace.claims or ()) for trace in traces)
    assert f"{len(traces)} traces, {chunks} chunks, {claims} claims" in page


@pytest.mark.slow
def test_every_metric_of_the_fixtures_is_what_its_formula_says() -> None:
    """All traces in one table, in every variant, at several cutoffs."""
    cases = [case_of(trace) for trace in claim_traces()]
    table = table_of(cases)
    for name in VARIANTS:
        for k in (None, 1, 2, 3, 5, 10):
            metric = parse_metric(name if k is None else f"{name}@{k}")
            values = metric.compute(table).tolist()
            expected = [naive(metric, case) for case in cases]
            for trace, value, result in zip(claim_traces(), values, expected, strict=True):
                assert (value != value) == (result is None), (name, k, trace.id)
                assert result is None or abs(value - result) < 1e-12, (name, k, trace.id)
