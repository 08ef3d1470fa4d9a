"""Files of claims: read strictly, found by question and reference, told apart by what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Trace
from judge_eval.data.claimfiles import ClaimsFile, claims_line, read_claims
from judge_eval.errors import DataError
from judge_eval.schema import Claim
from tests.support.claiming import CLAIMS, QUERY, REFERENCE

TRACE = Trace(id="q1", query=QUERY, reference=REFERENCE, chunks=())


def file_of(folder: Path, *rows: Any) -> ClaimsFile:
    """Write rows, or lines as they are, and read them."""
    path = folder / "claims.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_claims(path)


def entry(**more: Any) -> dict[str, Any]:
    """Return a line with one claim."""
    return {"query": QUERY, "reference": REFERENCE, "claims": [{"text": "A claim."}], **more}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A line holds the claims with their quotes, and names what of the reference stands in none."""
    line = claims_line(QUERY, REFERENCE, CLAIMS[:2])
    assert json.loads(line)["uncovered"] == ["in 1931"]
    assert "uncovered" not in json.loads(claims_line(QUERY, REFERENCE, CLAIMS))
    assert file_of(tmp_path, line, "").find(TRACE) == CLAIMS[:2]


def test_people_may_write_less(tmp_path: Path) -> None:
    """A claim is a text, or an object with one; ids are counted, numbers are ids, all else has a default."""
    read = file_of(tmp_path, entry(claims=["One.", {"id": 7, "text": "Two.", "vital": False}])).find(TRACE)
    assert read == (Claim(id="1", text="One."), Claim(id="7", text="Two.", vital=False))


def test_nuggets_are_read(tmp_path: Path) -> None:
    """Lines as AutoNuggetizer writes them are of a question whatever its reference, not of another's id."""
    nuggets = [{"text": "One.", "importance": "vital"}, {"text": "Two.", "importance": "okay", "x": 1}]
    result = (Claim(id="1", text="One."), Claim(id="2", text="Two.", vital=False))
    held = file_of(tmp_path, {"qid": "q9", "query": QUERY, "nuggets": nuggets})
    assert held.find(TRACE) == result
    with pytest.raises(DataError, match="the file belongs to other data"):
        held.find(Trace(id="q9", query="Another question?", chunks=()))
    without_query = file_of(tmp_path, {"qid": "q9", "nuggets": nuggets})
    assert without_query.find(Trace(id="q9", query="Another question?", chunks=())) == result
    assert held.find(Trace(id="q8", query="Another question?", chunks=())) is None
    with pytest.raises(DataError, match="importance 'high' is unknown"):
        file_of(tmp_path, {"qid": "1", "query": "Q", "nuggets": [{"text": "T", "importance": "high"}]})


BAD = {
    "no JSON": ("{", "not JSON"),
    "a list": ([1], "a line is an object"),
    "no question": ({"reference": "R", "claims": []}, "there is no `query`"),
    "a question that is a number": (entry(query=1), "not a text"),
    "no claims": ({"query": QUERY}, "no list of `claims`"),
    "claims that are a text": (entry(claims="x"), "no list of `claims`"),
    "a claim that is a number": (entry(claims=[1]), "a claim is a text, or an object"),
    "an empty claim": (entry(claims=[""]), "claims.1"),
    "a field that is unknown": (entry(claims=[{"text": "x", "importance": "vital"}]), "importance"),
    "an id twice": (entry(claims=[{"id": "1", "text": "x"}, {"id": 1, "text": "y"}]), "an id occurs twice"),
    "a quote of nobody": (entry(claims=[{"text": "x", "quote": "in Lund"}]), "is not in the reference"),
    "too many": (entry(claims=["x"] * 1001), "more than 1,000"),
}


@pytest.mark.parametrize(("row", "message"), BAD.values(), ids=BAD)
def test_a_line_that_is_none_is_named(tmp_path: Path, row: Any, message: str) -> None:
    """The message names file, line and what is wrong."""
    with pytest.raises(DataError, match=message) as caught:
        file_of(tmp_path, entry(query="Another?", reference=None), row)
    assert str(caught.value).startswith(f"{tmp_path / 'claims.jsonl'}:2: ")


def test_two_lines_of_one_reference_are_refused(tmp_path: Path) -> None:
    """Which of them counts must not be guessed; both lines are named."""
    with pytest.raises(DataError, match=r":2: .*line 1 has claims of the same"):
        file_of(tmp_path, entry(), entry(claims=["Other."]))


def test_a_file_that_lacks_a_trace_says_so(tmp_path: Path) -> None:
    """A trace that brings claims of its own keeps them; what the file has goes before."""
    held = file_of(tmp_path, entry())
    other = Trace(id="q2", query="Another?", reference=REFERENCE, chunks=())
    with pytest.raises(DataError, match="has no claims of this question and reference"):
        held.fill(other)
    own = other.model_copy(update={"claims": CLAIMS})
    assert held.fill(own) is own
    assert held.fill(TRACE.model_copy(update={"claims": CLAIMS})).claims == (Claim(id="1", text="A claim."),)


def test_an_edit_changes_the_traces_it_is_of(tmp_path: Path) -> None:
    """Text, id and vitality are in a trace's digest, quotes and order in the file are not."""
    other = entry(query="Another?")
    before = file_of(tmp_path, entry(), other)
    traces = [TRACE, Trace(id="q2", query="Another?", reference=REFERENCE, chunks=())]
    digests = [before.fill(trace).digest for trace in traces]
    assert digests[0] != TRACE.digest
    edited = file_of(tmp_path, entry(claims=["An edited claim."]), other)
    assert edited.digest != before.digest
    assert [edited.fill(trace).digest == digest for trace, digest in zip(traces, digests, strict=True)] == [False, True]
    same = file_of(tmp_path, other, "", entry(claims=[{"text": "A claim.", "quote": "in 1931"}]))
    assert same.digest == before.digest
    assert [same.fill(trace).digest for trace in traces] == digests
