from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judge_eval import Chunk, NoVerdict, Scale, Trace, TraceResult, Verdict
from judge_eval.pages.blind import blind_card, blind_row
from judge_eval.pages.card import card_page, ladder
from judge_eval.pages.rows import TraceRow, parse_filter, row_of, sort_rows
from judge_eval.quotes import marked, stands_in
from judge_eval.schema import BINARY, GRADED
from tests.support.serving import judge, rows


@pytest.mark.parametrize(
    ("text", "quote", "pieces"),
    [
        ("one two three", "two", ["one ", "two", " three"]),
        ("one  two\nthree", "one two three", ["", "one  two\nthree", ""]),
        ("he said “yes” twice", 'said "yes"', ["he ", "said “yes”", " twice"]),
        ("a b c d e", "a b ... d", ["", "a b", " c ", "d", " e"]),
        ("🍅 is red, 🍋 is not", "🍋 is", ["🍅 is red, ", "🍋 is", " not"]),
        ("one two", "four", ["one two"]),
        ("one two", "  ", ["one two"]),
        ("one two", "\xad", ["one two"]),
        ("", "\xad", [""]),
        ('say "', '"', ['say "']),
        ("no 0:0 here", "0:", ["no ", "0:", "0 here"]),
    ],
)
def test_a_quote_is_marked_where_it_stands(text: str, quote: str, pieces: list[str]) -> None:
    """The marked pieces are the quote as the text spells it, folded differences and ellipses included."""
    assert marked(text, quote) == pieces


@given(st.text(), st.text())
@example("0:0", "0")  # too short for evidence, and still shown where it stands
@example('"', '"')
@example("\xad", "\xad")
@example("e\u0301", '"e')
def test_marking_loses_nothing(text: str, quote: str) -> None:
    """The pieces join to the text, and what is marked stands there, letter by letter or after folding."""
    pieces = marked(text, quote)
    assert "".join(pieces) == text
    assert len(pieces) % 2 == 1
    if len(pieces) > 1:
        assert quote in text or stands_in(text, quote)
        assert quote.strip(" \t\n\"'\xad\u200b")


def row(**more: object) -> TraceRow:
    """Make a row."""
    messages: dict[str, object] = {
        "position": 0, "id": "q1", "query": "What?", "strip": "+.", "off": "01", "scores": {"AP@5": 0.5},
        "tags": ("Prod", "two words"), "failed": 0,
    }  # fmt: skip
    return TraceRow(**{**messages, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("ap<0.6", True),
        ("ap<0.5", False),
        ("AP@5=0.5", True),
        ("ap>=0.5 tag:prod", True),
        ("tag:pro", False),
        ('tag:"two words"', True),
        ("-tag:prod", False),
        ("disagree", True),
        ("failed", False),
        ("-failed", True),
        ("changed", False),
        ("delta<0", False),
    ],
)
def test_filter_words_test_a_row(text: str, fits: bool) -> None:
    """Every word must hold; a minus negates; a metric is named by its beginning."""
    actual = parse_filter(text, ["AP@5", "MRR"])
    assert bool(actual.rows([row()])) is fits
    assert not actual.texts


def test_what_is_no_filter_word_is_text() -> None:
    """A word that names no metric is looked for in the texts, a phrase as a whole."""
    actual = parse_filter('foo<3 "Two Words" -gone http://x', ["AP@5"])
    assert not actual.tests
    assert actual.texts == (("foo<3", True), ("two words", True), ("gone", False), ("http://x", True))


def test_rows_without_a_value_sort_last() -> None:
    """Whichever way scores are sorted, a trace without one comes last."""
    given = [row(position=0, scores={"AP@5": None}), row(position=1), row(position=2, scores={"AP@5": 0.1})]
    assert [r.position for r in sort_rows(given, "score", ["AP@5"])] == [2, 1, 0]
    assert [r.position for r in sort_rows(given, "-score", ["AP@5"])] == [1, 2, 0]


def result(grades: list[int | None], labels: list[int | None] | None = None, **more: object) -> TraceResult:
    """Make a result from grades, None for a failed verdict."""
    chunks = tuple(Chunk(id=f"c{i}", text=f"text {i}", label=labels[i] if labels else None) for i in range(len(grades)))
    outcomes = tuple(
        NoVerdict(chunk_id=f"c{i}", why="refused")
        if grade is None
        else Verdict(chunk_id=f"c{i}", grade=grade, relevant=grade >= 1)
        for i, grade in enumerate(grades)
    )
    trace = Trace(id="q", query="What?", reference="This.", chunks=chunks)
    values = {"scores": {}, **more}
    return TraceResult(position=0, trace_id="q", digest=trace.digest, outcomes=outcomes, trace=trace, **values)  # type: ignore[arg-type]


def test_the_shares_add_up_to_average_precision() -> None:
    """For [1, 0, 0, 1] the ranks add 0.5 and 0.25 to an AP of 0.75, and P@i is 1, 1/2, 1/3, 1/2."""
    precision, shares = ladder(result([1, 0, 0, 1], scores={"AP@5": 0.75}), BINARY, ["AP@5"])
    assert precision == pytest.approx([1, 1 / 2, 1 / 3, 1 / 2])
    assert shares == pytest.approx([0.5, 0, 0, 0.25])


def test_the_shares_add_up_on_every_fixture() -> None:
    """On real runs the shares of a trace sum to its score."""
    for each in judge(rows()).results:
        _, shares = ladder(each, BINARY, ["AP@5"])
        assert shares is not None
        assert sum(shares) == pytest.approx(each.scores["AP@5"])


def test_after_a_failure_precision_is_unknown() -> None:
    """A failed verdict is not counted as irrelevant: from its rank on there is no P@i, and no share."""
    precision, shares = ladder(result([1, None, 1], scores={"AP@5": None}), BINARY, ["AP@5"])
    assert precision == [1.0, None, None]
    assert shares is None


def test_a_row_outlines_where_a_label_disagrees() -> None:
    """A label disagrees where it counts as relevant and the verdict does not, or the other way round."""
    outcome = row_of(result([1, 0, None, 1], [1, 1, 0, None]), BINARY)
    assert (outcome.strip, outcome.off, outcome.failed, outcome.labelled) == ("+.!+", "0100", 1, "1110")
    scale = Scale(name="graded", maximum=3, relevant=2)
    graded = result([1], [1]).model_copy(update={"outcomes": (Verdict(chunk_id="c0", grade=1, relevant=False),)})
    assert row_of(graded, scale).off == "0"
    assert row_of(graded, GRADED).strip == "1"


def test_blind_shows_nothing_the_judge_said() -> None:
    """Before a label is given, neither row nor card tells verdict, reason, quote, score or call."""
    outcome = result([1, 0], [None, 1], scores={"AP@5": 1.0})
    hidden = blind_row(row_of(outcome, BINARY), 1)
    assert hidden.strip == "??"
    assert hidden.scores == {"AP@5": None}
    page = blind_card(card_page(outcome, BINARY, ["AP@5"], None, []), {"c1": 1})
    first, second = sorted(page["chunks"], key=lambda card: card["label"] is not None)
    assert set(first) == {"rank", "id", "title", "score", "label", "text", "hidden"}
    assert first["score"] is None
    assert second["relevant"] is False
    assert second["precision"] is None
    assert page["scores"] == {}
