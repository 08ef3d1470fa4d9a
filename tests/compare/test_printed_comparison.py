"""A comparison prints as the terminal shows it."""

from tests.support.judges import only
from tests.support.runs import evaluator, traces


def test_a_comparison_prints_what_the_terminal_shows() -> None:
    """Its conclusion, its table and the traces that changed, without the fields of the record."""
    before, after = (evaluator(only(*good)).evaluate(traces(2)) for good in (("q0-a", "q1-a"), ("q1-a",)))
    text = str(before.compare(after))
    assert "metric  baseline  candidate  difference" in text
    assert "Question 0?" in text
    assert "RunRef(" not in text
