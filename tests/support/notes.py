"""What the notes of a record say."""

from collections.abc import Iterable

from judge_eval.note import Note
from judge_eval.stats.correction import Doubt
from judge_eval.views.note_sentences import note_sentence


def note_sentences(notes: Iterable[Note | Doubt]) -> tuple[str, ...]:
    """Return the sentence of each note."""
    return tuple(map(note_sentence, notes))
