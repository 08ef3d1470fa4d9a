"""What a comparison says of runs that a cascade judged."""

from __future__ import annotations

from judge_eval.compare.compare import compare
from judge_eval.export.ci_reports import pull_request_comment
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.rows import Table
from tests.support.asking_decisions import row
from tests.support.deciding import RESTS, cascaded, decided
from tests.support.notes import note_sentences

ROWS = [row(id=f"t{n}", query=f"Which tomatoes, {n}?") for n in range(3)]


def test_a_comparison_says_what_was_escalated_and_what_the_threshold_rests_on() -> None:
    """Each cascade's threshold, share escalated and guarantee: in the record, in Markdown, on the page."""
    before = cascaded(ROWS, label="fitted", rests=RESTS)
    after = cascaded(ROWS, label="named", threshold=0.99)
    record = compare(before, after)
    fitted, named = [note for note in note_sentences(record.notes) if "threshold" in note]
    assert fitted.startswith("fitted: threshold 0.90; cascade: ")
    assert "%) escalated; on data like the 200 traces it was fitted on" in fitted
    assert "in at most 4.321% (95% sure; cascade file abab" in fitted
    assert named.startswith("named: threshold 0.99; cascade: ")
    assert "the threshold was named, not fitted" in named
    comment = pull_request_comment(after, record, [])
    page = compare_page(ComparedRuns(Table(before), Table(after)))
    for note in (fitted, named):
        assert note in page["notes"]
        assert note in comment.replace("\\", "")
    assert "threshold" not in str(compare(decided(ROWS), decided(ROWS)).notes)
