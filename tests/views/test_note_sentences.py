"""A note of a record has a sentence, whatever its kind."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from pydantic import TypeAdapter

from judge_eval.note import Note, NoteKind
from judge_eval.runs.folder.describing import JudgeDifference
from judge_eval.runs.folder.records import Tally
from judge_eval.stats.correction import Doubt, DoubtKind
from judge_eval.views.note_sentences import IN_WORDS, note_sentence


@pytest.mark.parametrize("kind", get_args(NoteKind))
def test_each_kind_has_a_sentence(kind: NoteKind) -> None:
    """Nothing of a template is left in it, and a count stands with its noun."""
    differs = JudgeDifference(what="judges", there="a", here="b")
    common = {"count": 1, "other": 2, "least": 3, "value": 0.5, "names": ("x", "y")}
    note = Note(kind=kind, differs=differs, judge={}, tally=Tally(), **common)
    assert not re.search(r"{[a-z]+[:}]", note_sentence(note))
    assert "1 questions" not in note_sentence(note)


def test_a_note_says_in_json_only_what_its_kind_names() -> None:
    """Fields that a kind does not need are left out."""
    assert Note(kind="ties", count=3).model_dump(mode="json") == {"kind": "ties", "count": 3}


def test_a_record_printed_with_sentences_is_read_again() -> None:
    """A sentence in the place of a note is a note in words, which says the same."""
    note = Note(kind="ties", count=3)
    again = Note.model_validate_json(note.model_dump_json(context=IN_WORDS))
    assert note_sentence(again) == note_sentence(note)


def test_a_doubt_is_printed_with_its_sentence() -> None:
    """A doubt of a corrected figure is data by itself, and in JSON for people the sentence of its note."""
    doubts = TypeAdapter(tuple[Doubt, ...])
    few = (Doubt("few labelled clusters", count=18, other=6, least=20),)
    assert doubts.validate_python(doubts.dump_python(few)) == few
    assert doubts.dump_python(few, context=IN_WORDS) == (note_sentence(few[0]),)
    assert note_sentence(few[0]).startswith("only 18 labelled traces in 6 clusters: below 20 the interval")


@pytest.mark.parametrize("kind", get_args(DoubtKind))
def test_each_kind_of_doubt_is_one_of_a_note(kind: DoubtKind) -> None:
    """A doubt is said as the note of the same kind."""
    assert kind in get_args(NoteKind)
