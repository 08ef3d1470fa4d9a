"""How well people who label the same chunks agree with each other."""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from judge_eval import limits
from judge_eval.data.files.values import is_missing
from judge_eval.data.labels import graded_rows, scale_of_labels
from judge_eval.errors import DataError
from judge_eval.files import csv_text
from judge_eval.record import Record
from judge_eval.runs.folder.labels import Label
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Scale
from judge_eval.stats import agreement_of, alpha_interval
from judge_eval.stats.figure import Figure
from judge_eval.study.matching import tables_of


class PeopleAgreement(Record):
    """How well two people agree on the chunks that both labelled."""

    people: tuple[str, str]
    kappa: Figure
    """Cohen's kappa on what is relevant, with its interval, resampled by trace."""
    n: int
    """Chunks that both labelled."""
    differ: int
    """Chunks with different labels."""


def agree_people(
    people: Mapping[str, Mapping[tuple[str, str], int]], scale: Scale, *, threshold: int | None = None, seed: int = 0
) -> tuple[PeopleAgreement, ...]:
    """Compare each two people, by name, on the chunks that both labelled; `scale` is that of the judge."""
    pairs = []
    for first, second in combinations(sorted(people), 2):
        keys = sorted(people[first].keys() & people[second].keys())
        if not keys:
            continue
        labels = np.array([[people[name][key] for key in keys] for name in (first, second)], dtype=np.int16)
        ends = int(labels.min()), int(labels.max())
        common = scale_of_labels(ends, f"{first} and {second}", scale, threshold)
        _, rows = np.unique([trace for trace, _ in keys], return_inverse=True)
        tables, _ = tables_of(labels[0], labels[1], rows, common.grades)
        figures = agreement_of(tables, np.array(common.grades, dtype=np.float64), seed=seed)
        kappa = figures.get(f"kappa_ge{common.relevant}") or figures["kappa"]
        differ = int((labels[0] != labels[1]).sum())
        pairs.append(PeopleAgreement(people=(first, second), kappa=kappa, n=len(keys), differ=differ))
    return tuple(pairs)


def alpha_of_people(people: Mapping[str, Mapping[tuple[str, str], int]], *, seed: int = 0) -> Figure | None:
    """Return Krippendorff's ordinal alpha of all people on every chunk that two or more graded; None without one."""
    counts = Counter(key for grades in people.values() for key in grades)
    keys = sorted(key for key, count in counts.items() if count > 1)
    if not keys:
        return None
    ratings = np.array([[people[name].get(key, np.nan) for key in keys] for name in sorted(people)], dtype=np.float64)
    return alpha_interval(ratings, [trace for trace, _ in keys], "ordinal", seed=seed)


@dataclass(frozen=True, slots=True)
class LabelSample:
    """The traces and chunks of a file that `sample` wrote, in its order."""

    run: str
    """The start of the id of the run that it was drawn from."""
    chunks: Mapping[str, tuple[str, ...]]
    """By trace id."""

    def done(self, labelled: Iterable[tuple[str, str]]) -> int:
        """Count the traces of which all chunks of the sample are labelled."""
        there = set(labelled)
        return sum(all((trace, chunk) in there for chunk in chunks) for trace, chunks in self.chunks.items())


def read_sample(path: Path) -> LabelSample:
    """Read which traces and chunks a file of `sample` holds, whether they are labelled yet or not."""
    run, chunks = "", dict[str, list[str]]()
    for row in graded_rows(path):
        chunks.setdefault(row.trace, []).append(row.chunk)
        words = shlex.split(str(row.beside.get("next") or ""))
        run = run or (words[2] if len(words) > 2 else "")
    if not run:
        raise DataError("does not say which run it was drawn from; draw it with `judge-eval sample`", file=str(path))
    return LabelSample(run, {trace: tuple(ids) for trace, ids in chunks.items()})


_COLUMNS = ("trace_id", "chunk_id", "label", "by", "comment", "final", "blind", "given")


def labels_text(labels: Iterable[Label], *, csv: bool) -> str:
    """Write labels with the names of people, a line each."""
    rows = [label.model_dump(mode="json", include=set(_COLUMNS)) for label in labels]
    if csv:
        return csv_text([[*_COLUMNS], *([row[name] for name in _COLUMNS] for row in rows)])
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def labels_for(run: Run, path: Path, by: str = "") -> Iterator[Label]:
    """Read labels from a file for the chunks of a run; `by` names who gave those that name nobody."""
    scale = scale_of(run)
    there = {(result.trace_id, chunk.id) for result in run.results for chunk in result.trace.chunks}
    for row in graded_rows(path):
        if row.grade is None or row.grade < 0:
            continue
        if (row.trace, row.chunk) not in there:
            raise row.fault(f"this run does not have chunk {row.chunk!r} of trace {row.trace!r}", "chunk_id")
        if row.grade not in scale.grades:
            raise row.fault(f"{row.grade} is not on the run's scale {scale.span}", "label")
        name, comment = (str(row.beside.get(field) or "") for field in ("by", "comment"))
        if max(len(name), len(comment)) > limits.HREF:
            raise row.fault("the name or the comment is too long", "by")
        final, blind = (str(row.beside.get(field) or "").lower() in ("true", "1") for field in ("final", "blind"))
        given = {} if is_missing(row.beside.get("given")) else {"given": row.beside["given"]}
        try:
            yield Label.parse(
                {"trace_id": row.trace, "chunk_id": row.chunk, "label": row.grade, "by": name or by, "comment": comment}
                | {"final": final, "blind": blind, **given}
            )
        except DataError as error:
            raise row.fault(error.message, error.field) from None
