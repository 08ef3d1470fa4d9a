"""What labelled sets show of judges: the records of `validate-judge`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judge_eval.errors import DataError
from judge_eval.files import read_named
from judge_eval.record import Record
from judge_eval.runs.folder.describing import models_of, prompt_of
from judge_eval.runs.folder.records import Manifest
from judge_eval.runs.folder.run import Run, scale_of
from judge_eval.stats.figure import Figure

VALIDATION = "validation.json"
"""The table beside the runs of a folder that tells of their judges."""


class FloorComparison(Record):
    """How well a judge and a floor separate relevant chunks from others, on the same labelled chunks."""

    model: str
    """The floor's."""
    judge: Figure
    """The judge's AUC: of its probabilities if each verdict has one, else of its grades."""
    floor: Figure
    """The floor's AUC."""
    difference: Figure
    """The judge's minus the floor's, with a paired interval by trace; see `judge_eval.stats.auc_difference`."""
    without: int = 0
    """Labelled chunks with a verdict of which the floor says nothing; they are in no figure here."""


class ValidatedSet(Record):
    """A judge on one set, or on the part of it in one language."""

    set: str
    language: str = ""
    """Empty for the whole set."""
    digest: str
    """Of the judged traces."""
    model: str
    prompt: str
    prompt_digest: str = ""
    relevant: int | None = None
    """The least grade that counts as relevant."""
    served: tuple[str, ...] = ()
    """What the server called the model."""
    chunks: int
    traces: int
    """Questions: traces that share a cluster are one."""
    failed: int = 0
    """Labelled chunks without a verdict; they are in no figure."""
    skipped: int = 0
    """Traces of the whole set that lack what the prompt needs."""
    kappa: Figure
    """At the judge's threshold, by question."""
    auc: Figure | None = None
    """Of the judge's probabilities if each verdict has one, else of its grades."""
    floor: FloorComparison | None = None
    """The judge beside a floor, if one was given."""
    systems: Figure | None = None
    """Kendall's tau-b of systems by NDCG@10, where the set's folder holds their runs in `runs/`."""
    spearman: Figure | None = None
    """Spearman's rho of the same."""
    false_support: tuple[int, int] | None = None
    """Of the chunks that people call irrelevant: how many the judge accepts, and all; None if they label none so."""
    evidence_found: Figure | None = None
    """The share of relevant verdicts whose quote stands in the chunk."""
    cost: float | None = None
    """In US dollars, of the whole set; None if no price is known."""
    tokens: int = 0


class ValidationTable(Record):
    """Rows of one model or of several."""

    rows: tuple[ValidatedSet, ...]

    @classmethod
    def joined(cls, paths: Sequence[Path], rows: Sequence[ValidatedSet] = ()) -> ValidationTable:
        """Join tables that were written as JSON, or with a row a line (`lines`), with further rows.

        Raises:
            DataError: A file is not such a table.
        """
        every: list[ValidatedSet] = []
        for path in paths:
            try:
                text = read_named(path)
                if path.suffix.lower() == ".jsonl":
                    every += [ValidatedSet.from_json(line) for line in text.splitlines() if line.strip()]
                else:
                    every += cls.from_json(text).rows
            except OSError as error:
                raise DataError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
            except ValueError as error:
                raise DataError(f"is not a table of validate-judge: {type(error).__name__}", file=str(path)) from None
        return cls(rows=(*every, *rows))

    def lines(self) -> str:
        """Return a row a line, as JSON Lines: such files join by being put one after the other."""
        return "".join(row.model_dump_json() + "\n" for row in self.rows)

    def of_judge(self, run: Run) -> tuple[ValidatedSet, ...]:
        """Return the rows of a run's judge (model, prompt, least relevant grade), each of a whole set."""
        m = run.manifest
        whose = models_of(m), prompt_of(m) or "", prompt_digest(m), scale_of(run).relevant, ""
        return tuple(r for r in self.rows if (r.model, r.prompt, r.prompt_digest, r.relevant, r.language) == whose)


def prompt_digest(m: Manifest) -> str:
    """Return the digest of the prompt that a run was judged with; empty if there is no single one."""
    prompt = m.judge.get("prompt")
    return str(prompt.get("digest", "")) if isinstance(prompt, dict) else ""
