"""Why the mean of one metric cannot be corrected by labels."""

from typing import Final

from judge_eval.errors import DataError
from judge_eval.note import Note, NoteKind
from judge_eval.spelling import option
from judge_eval.stats.correction import LABEL_FAULTS

_FEW: Final = (
    "{names}: {count} of {other} judged traces are labelled in full; a correction needs at least 3 labelled and at "
    "least 1 unlabelled trace (if all are labelled, use the labels alone)"
)
REFUSALS: Final[dict[NoteKind, str]] = {
    "too few whole traces": _FEW,
    "only whole traces": f"{_FEW}; labels of single chunks do not help {{names}}, label whole traces",
    "some probabilities": "{names}: {count} of {other} labelled traces have a `probability`; add it to all or to none",
    "some chunk probabilities": "{count} of {other} labelled chunks have a `{names}`; add it to all or to none",
    "unequal chances": f"{option('sequential')} needs whole traces that were drawn with the same chance",
    "no limits": f"{{names}}: {option('sequential')} needs a metric between two limits",
    **{kind: f"{{names}}: cannot correct: {text}" for kind, text in LABEL_FAULTS.items()},
}
"""What is said of each, in an error and of a note."""


class NotCorrectedError(DataError):
    """The mean of one metric cannot be corrected, though those of others may."""

    def __init__(self, kind: NoteKind, name: str, count: int = 0, other: int = 0) -> None:
        self.note = Note(kind=kind, names=(name,), count=count, other=other)
        super().__init__(REFUSALS[kind].format(names=name, count=count, other=other))
