"""Three runs or more: a conclusion comes first, and warnings are no greater than what they cost."""

from __future__ import annotations

import pytest

from judge_eval.compare.compare import compare
from judge_eval.errors import RefusedError
from judge_eval.pages.matrixpage import SeveralRuns, matrix_page, ordered_rows
from judge_eval.pages.rows import Table
from judge_eval.runs.folder.run import Run
from judge_eval.views.comparison import best_run_sentence, comparison_view
from judge_eval.views.markdown import markdown_of
from judge_eval.views.note_sentences import notes_of_runs
from tests.support.notes import note_sentences
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:02d}" for k in range(40)]


def run_of(found: int, label: str, failed: int = 0, **settings: str) -> Run:
    """A run that finds a relevant chunk in the first `found` traces; the last chunks of `failed` have no verdict."""
    verdicts: dict[tuple[str, str], object] = {(name, "a"): 1 for name in NAMES[:found]}
    verdicts |= {(name, "c"): RefusedError("no") for name in NAMES[:failed]}
    return judged(traces_of(dict.fromkeys(NAMES, "abc")), verdicts, label=label, **settings)


def test_the_best_run_is_named_first_with_its_lead_over_the_next() -> None:
    """By how much, with the correction for three pairs, before all else; on the page it stands in the data."""
    runs = [run_of(10, "a"), run_of(20, "b"), run_of(36, "c")]
    result = compare(*runs)
    sentence = best_run_sentence(result)
    assert sentence is not None
    assert sentence.startswith("c is best: AP@3 is 0.400 above b (p=")
    text = markdown_of(comparison_view(result, traces=1, claims=1))
    assert text.split("\n\n")[1].startswith("**c is best: AP@3")
    page = matrix_page(SeveralRuns([Table(run) for run in runs]))
    assert page["conclusion"] == sentence


def test_without_a_clear_winner_it_is_said_so() -> None:
    """The highest is named as that, and which runs it is shown to beat."""
    sentence = best_run_sentence(compare(run_of(10, "a"), run_of(34, "b"), run_of(36, "c")))
    assert sentence is not None
    assert sentence.startswith(
        "no run is shown to be best: AP@3 of c is highest, 0.050 above b, not shown after correction for 3 pairs"
    )
    assert "; it is 0.650 above a (p=" in sentence
    same = best_run_sentence(compare(*(run_of(10, name) for name in "abc")))
    assert same == "no run is better: AP@3 is the same in all 3"
    assert best_run_sentence(compare(run_of(10, "a"), run_of(20, "b"))) is None


def test_a_noisy_run_hides_no_lead_of_another() -> None:
    """12 more questions found and none lost is a lead, however much a third run differs."""
    noisy = judged(traces_of(dict.fromkeys(NAMES, "abc")), {(name, "a"): 1 for name in NAMES[1::2]}, label="a")
    pairs = {(p.first, p.second): p.p for p in compare(run_of(12, "b"), run_of(24, "c"), noisy).pairs}
    alone = compare(run_of(12, "b"), run_of(24, "c")).differences[0].p
    assert pairs[0, 1] <= 3 * alone + 1e-12


@pytest.mark.parametrize(("failed", "warns"), [(1, False), (20, True)])
def test_failed_verdicts_warn_by_their_share(failed: int, warns: bool) -> None:
    """1 of 120 verdicts is a note; 20 of 120 are a warning."""
    result = compare(run_of(10, "a"), run_of(20, "b", failed))
    texts = note_sentences(result.warnings) if warns else note_sentences(result.notes)
    assert [text for text in texts if text.startswith(f"b has {failed} failed verdict")]
    assert bool(result.warnings) is warns


def test_the_same_warning_about_several_runs_is_one() -> None:
    """Two candidates of another prompt are one line that names both."""
    others = [run_of(20, name, prompt="relevance/binary") for name in "bc"]
    result = compare(run_of(10, "a"), *others)
    warnings = notes_of_runs(result, result.warnings)
    assert [text for text in warnings if text.startswith("b, c: ")] == list(warnings)


def test_rows_stand_by_spread() -> None:
    """The traces in which the runs are furthest apart come first."""
    rows = SeveralRuns([Table(run_of(n, str(n))) for n in (10, 20, 36)]).rows
    ordered = [row.spread(0) for row in ordered_rows(rows, "apart", 0)]
    assert ordered == sorted(ordered, reverse=True)
    assert ordered[0] == 1.0
