"""A run as light rows, one a trace, with the columns of its figures: listed, sorted, filtered."""

import copy
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from judge_eval import limits
from judge_eval.compare.comparison import Change
from judge_eval.runs.columns.verdict_table import AnyResult, id_hashes, verdict_table
from judge_eval.runs.folder.labels import Labelled
from judge_eval.runs.folder.records import SliceBy, TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.aggregate import less_is_better, main_metric
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import Chunk, Outcome, Scale, sign_of
from judge_eval.views.blocks import JSON

QUERY = 240
"""Characters of a question that a row shows."""
STRIP = 60
"""Ranks that a row shows."""


T = TypeVar("T")
_NO_DELTAS: dict[str, float] = {}
"""Of all rows without a baseline: a dictionary of each would take 64 bytes."""


@dataclass(slots=True)
class TraceRow:
    """One trace of a run: `strip` has a sign a rank (`sign_of`), `off` a 1 where a label disagrees."""

    position: int
    id: str
    query: str
    strip: str
    off: str
    scores: dict[str, float | None]
    tags: tuple[str, ...]
    failed: int
    first: int | None = None
    """The rank of the first chunk that is known to be relevant; None if there is none."""
    labelled: str = ""
    """A sign a rank: `1` where there is a human label."""
    deltas: dict[str, float] = field(default_factory=lambda: _NO_DELTAS)
    """By metric: the score minus the baseline's, where both have one."""
    change: Change | None = None
    """None if nothing changed or there is no baseline."""
    before: str | None = None
    """The baseline's strip, where something changed."""

    @property
    def disagreements(self) -> int:
        """How many verdicts a human label disagrees with."""
        return self.off.count("1")

    def data(self) -> JSON:
        """Return it as JSON for a page."""
        names = ("position", "id", "query", "scores", "deltas", "tags", "failed", "first", "disagreements")
        return {name: getattr(self, name) for name in names} | {
            "strip": self.strip[:STRIP],
            "off": self.off[:STRIP],
            "ranks": len(self.strip),
            "change": self.change or "",
            "before": self.before and self.before[:STRIP],
            "ranks_before": None if self.before is None else len(self.before),
        }


def agrees(label: int | None, outcome: Outcome, scale: Scale) -> bool | None:
    """Tell whether label (below 0: unjudged) and verdict agree on relevance; None if one is missing."""
    if outcome.kind == "no_verdict" or label is None or not 0 <= label <= limits.GRADE:
        return None
    return (label >= scale.relevant) == outcome.relevant


def reason_data(outcome: Outcome) -> JSON:
    """Return the judge's reason as a page shows it, or a note that there is none."""
    if outcome.kind == "verdict" and outcome.reason is None:
        return {"reason": None, "no_reason": outcome.explanation}
    return {"reason": outcome.explanation}


def row_of(result: TraceResult, scale: Scale) -> TraceRow:
    """Make the row of a trace."""
    ranks = list(zip(result.trace.chunks, result.outcomes, strict=True))
    return TraceRow(
        position=result.position,
        id=result.trace_id,
        query=in_brief(result.trace.query, QUERY),
        strip="".join(outcome.sign for _, outcome in ranks),
        off="".join("1" if agrees(c.label, outcome, scale) is False else "0" for c, outcome in ranks),
        scores=result.scores,
        tags=result.trace.tags,
        failed=result.failed,
        first=next((rank for rank, (_, o) in enumerate(ranks, 1) if o.kind == "verdict" and o.relevant), None),
        labelled="".join("0" if chunk.label is None else "1" for chunk, _ in ranks),
    )


def known(value: float) -> float | None:
    """Return a value, None for NaN."""
    return None if value != value else value


def in_brief(text: str, most: int) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"


def sort_known(rows: Iterable[T], value: Callable[[T], Any], *, down: bool = False) -> list[T]:
    """Sort rows by a value; those without one come last, and of equals the order stays."""
    pairs = [(value(row), row) for row in rows]
    known = sorted((pair for pair in pairs if pair[0] is not None), key=lambda pair: pair[0], reverse=down)
    return [row for _, row in known] + [row for key, row in pairs if key is None]


def sort_rows(rows: list[TraceRow], by: str, metrics: Sequence[str], metric: str | None = None) -> list[TraceRow]:
    """Sort rows; of equals the dataset's order stays."""
    # `by` is `order` (the dataset's), `score` (lowest first), `-score` (highest first), `change` (largest loss first, a
    # rise where less is better), `-change` (largest gain first), `failed` or `disagree` (most first). Rows without the
    # value go last. `first` is the rank of the first relevant chunk and `tags` the alphabet's order; a `-` turns each
    # round. `metric` is what `score` and `change` mean; the first where None.
    name = metric if metric is not None and metric in metrics else next(iter(metrics), "")
    down = by.startswith("-") != (by.endswith("change") and less_is_better(name))
    values: Mapping[str, Callable[[TraceRow], Any]] = {
        "score": lambda row: row.scores.get(name),
        "change": lambda row: row.deltas.get(name),
        "first": lambda row: row.first,
        "tags": lambda row: row.tags or None,
        "failed": lambda row: -row.failed,
        "disagree": lambda row: -row.disagreements,
        "order": lambda row: row.position,
    }
    return sort_known(rows, values[by.removeprefix("-")], down=down)


LISTED = 1_000
"""The most disagreements and failures a page lists; the counts are of all."""


def lead_first(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a run's metrics, the one a page leads with first."""
    lead = main_metric(names)
    return names if lead is None else (lead, *(name for name in names if name != lead))


class Table:
    """The rows of a run with the columns that its figures are made of.

    Ids and questions are kept as the table is read; if it is known already, they are read for the rows alone. A run
    with more than `most` traces has rows of those that need a look first: those without a value, then those with the
    worst score. `watch` is called now and then with how many traces were read.
    """

    rows: list[TraceRow]
    places: list[int]
    """Where each row's trace stands among the results."""

    def __init__(self, run: Run, most: int | None = None, watch: Callable[[int], None] | None = None) -> None:
        self.run, self.scale = run, scale_of(run)
        self._watch = watch
        self._texts: list[tuple[str, str]] = []  # ids and questions of all traces in order, if they are at hand
        self.columns = verdict_table(run, take=self._take)
        if not np.array_equal(id_hashes(id_ for id_, _ in self._texts), self.columns.ids):
            self._texts.clear()
        if most is not None and len(self.columns) > most:
            scores = self.columns.column(self.metrics[0]) if self.metrics else np.zeros(len(self.columns))
            if self.metrics and less_is_better(self.metrics[0]):
                scores = -scores
            worst = np.where(np.isnan(scores), -np.inf, scores)
            self.take(np.lexsort((-self.columns.per_trace(self.off), worst))[:most].tolist())
            return
        self.take(range(len(self.columns)))
        self._texts.clear()  # the rows hold them all

    @property
    def metrics(self) -> tuple[str, ...]:
        """The run's metrics, the one a page leads with first."""
        return lead_first(self.run.manifest.metrics)

    def sliced_by(self, by: Sequence[SliceBy] = ()) -> Sequence[SliceBy]:
        """Return which slices to show: those named, else what the run was asked for, else all if it is held whole."""
        return by or self.run.manifest.intervals.by or (get_args(SliceBy) if self.whole else ())

    @property
    def whole(self) -> bool:
        """Whether there is a row of every trace."""
        return len(self.rows) == len(self.columns)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which chunks have a verdict and a label that is a grade."""
        labels = self.columns.labels
        return np.asarray((self.columns.grades >= 0) & (labels >= 0) & (labels <= limits.GRADE))

    @property
    def off(self) -> NDArray[np.bool_]:
        """Which chunks have a label that disagrees with the verdict on relevance."""
        least = self.scale.relevant
        differs = (self.columns.labels >= least) != (self.columns.grades >= least)
        return np.asarray(self.labelled & differs)

    def strips(self, places: Sequence[int]) -> list[str]:
        """Draw some traces, told by their places among all: a sign a rank; equal ones are one object."""
        relevant = self.scale.relevant
        table = [sign_of(grade, grade >= relevant) if grade >= 0 else "!" for grade in range(-128, 128)]
        signs = np.frombuffer("".join(sign[:1] for sign in table).encode(), dtype=np.uint8)
        return self._signs(signs[self.columns.grades.astype(np.int64) + 128], places)

    def take(self, places: Sequence[int]) -> None:
        """Hold the rows of these traces, and no others."""
        self.places = sorted(places)
        if len(self._texts) == len(self.columns):
            self.rows = self.rows_of(self.places, (self._texts[place] for place in self.places))
            return
        results = self.run.results
        plain = Run(self.run.manifest, results.plain) if isinstance(results, Labelled) else self.run
        asked = plain.questions(np.array(self.places, dtype=np.int64))
        self.rows = self.rows_of(self.places, ((each.id, in_brief(each.query, QUERY)) for each in asked))

    def with_labels_of(self, run: Run) -> "Table":
        """Return the table of the same run with its later labels, without reading the results again."""
        if not isinstance(run.results, Labelled):
            return self
        table = copy.copy(self)
        table.run, table.columns = run, self.columns.with_labels(run.results.labels)
        table.rows = table.rows_of(table.places, ((row.id, row.query) for row in self.rows))
        return table

    def _take(self, result: AnyResult) -> None:
        """Keep what rows show of a result, while the table is made."""
        self._texts.append((result.trace_id, in_brief(result.trace.query, QUERY)))
        if self._watch is not None and len(self._texts) % 1000 == 0:
            self._watch(len(self._texts))

    def rows_of(self, places: Sequence[int], texts: Iterable[tuple[str, str]]) -> list[TraceRow]:
        """Make the rows of some traces, of which `texts` are the ids and questions."""
        table = self.columns
        failed, scores = table.per_trace(table.failed), table.scores
        strips, alike = self.strips(places), dict[bytes, dict[str, float | None]]()
        hits = table.grades >= self.scale.relevant
        marks = (chunks.astype(np.uint8) + ord("0") for chunks in (self.off, table.labels >= 0, hits))
        off, labelled, hit = (self._signs(signs, places) for signs in marks)
        return [
            TraceRow(
                position=int(table.positions[place]),
                id=sys.intern(id_),  # the same in other runs, whose rows a page holds beside these
                query=sys.intern(query),
                strip=strip,
                off=wrong,
                scores=alike.setdefault(
                    scores[place].tobytes(), dict(zip(table.metrics, map(known, scores[place].tolist()), strict=True))
                ),
                tags=table.names[table.tags[place]],
                failed=int(failed[place]),
                first=relevant.find("1") + 1 or None,
                labelled=given,
            )
            for place, (id_, query), strip, wrong, given, relevant in zip(
                places, texts, strips, off, labelled, hit, strict=True
            )
        ]

    def _signs(self, signs: NDArray[np.uint8], places: Sequence[int]) -> list[str]:
        """Return the signs of the chunks, trace by trace; equal texts are one object."""
        drawn, starts = signs.tobytes().decode(), self.columns.starts
        return [sys.intern(drawn[starts[place] : starts[place + 1]]) for place in places]

    def listed(self, chunks: NDArray[np.bool_]) -> Iterator[tuple[JSON, Chunk, Outcome]]:
        """Yield where some chunks stand, what they are and what came of them; the first `LISTED` of them."""
        wanted, starts = np.flatnonzero(chunks)[:LISTED], self.columns.starts
        traces = np.searchsorted(starts, wanted, side="right") - 1
        unlike = np.unique(traces)
        read = zip(unlike.tolist(), self.run.results_at(unlike, calls=False), strict=True)
        row, result = -1, None
        for chunk, trace in zip(wanted.tolist(), traces.tolist(), strict=True):
            if row != trace:
                row, result = next(read)
            assert result is not None
            rank = chunk - int(starts[row])
            place = {"trace": result.trace_id, "rank": rank + 1, "chunk": result.trace.chunks[rank].id}
            yield place, result.trace.chunks[rank], result.outcomes[rank]


# A filter is words with spaces between, all of which must hold; a text with spaces stands in quotation
# marks. The pages in the offline file read the same language in their own script.

_WORD = re.compile(r'(-?)((?:[^\s":]+:)?)(?:"([^"]*)"?|(\S+))')
_NUMBER = re.compile(r"^([^<>=]+?)(<=|>=|<|>|=)(-?\d*\.?\d+)$")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}

Test: TypeAlias = Callable[[TraceRow], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """What a filter box says: tests of a row, and texts to find in the trace."""

    tests: tuple[Test, ...]
    texts: tuple[tuple[str, bool], ...]
    """Folded texts, each with whether it must be there."""

    def rows(self, rows: Iterable[TraceRow]) -> list[TraceRow]:
        """Return the rows that pass the tests (texts are not looked for)."""
        return [row for row in rows if all(test(row) for test in self.tests)]

    def text_fits(self, result: TraceResult, *, reasons: bool = True) -> bool:
        """Tell whether the texts are there, or not, as they must be; reasons are looked into or not."""
        if not self.texts:
            return True
        hay = haystack(result, reasons=reasons)
        return all((text in hay) == wanted for text, wanted in self.texts)


def haystack(result: TraceResult, *, reasons: bool = True) -> str:
    """Return all text of a trace that a filter looks into, folded to lower case."""
    trace = result.trace
    parts = [trace.id, trace.query, trace.reference or "", trace.answer or "", *trace.tags]
    for chunk, outcome in zip(trace.chunks, result.outcomes, strict=True):
        reason = outcome.explanation if outcome.kind == "verdict" else f"{outcome.why} {outcome.detail}"
        parts += (chunk.id, chunk.title or "", chunk.text, reason if reasons else "")
    return "\n".join(parts).lower()


def parse_filter(text: str, metrics: Sequence[str]) -> Filter:
    """Read a filter: `text`, `tag:x`, `ap<0.5`, `delta<0`, `disagree`, `failed`, `changed`; `-` negates."""
    # A metric is named by its beginning, whatever the case (`ap` is the first one such as `AP@5`); a word
    # that is nothing else is a text.
    tests: list[Test] = []
    texts: list[tuple[str, bool]] = []
    for minus, prefix, quoted, bare in _WORD.findall(text):
        test = _test_of(prefix, quoted, bare, metrics)
        if test is not None:
            tests.append(_negated(test) if minus else test)
        elif word := (prefix + (quoted or bare)).lower():
            texts.append((word, not minus))
    return Filter(tuple(tests), tuple(texts))


_FLAGS: Mapping[str, Test] = {
    "disagree": lambda row: row.disagreements > 0,
    "failed": lambda row: row.failed > 0,
    "changed": lambda row: bool(row.change),
}


def _negated(test: Test) -> Test:
    return lambda row: not test(row)


def _test_of(prefix: str, quoted: str, bare: str, metrics: Sequence[str]) -> Test | None:
    word = (quoted or bare).lower()
    if prefix.lower() == "tag:":
        return lambda row: any(word == tag.lower() for tag in row.tags)
    if prefix or quoted:
        return None
    return _FLAGS.get(word) or _comparison(word, metrics)


def _comparison(word: str, metrics: Sequence[str]) -> Test | None:
    parts = _NUMBER.match(word)
    if not parts:
        return None
    name, compare, number = parts[1], _COMPARE[parts[2]], float(parts[3])
    is_delta = name == "delta" and bool(metrics)
    metric = metrics[0] if is_delta else _find_metric(name, metrics)
    if metric is None:
        return None

    def test(row: TraceRow) -> bool:
        value = (row.deltas if is_delta else row.scores).get(metric)
        return value is not None and compare(value, number)

    return test


def _find_metric(name: str, metrics: Sequence[str]) -> str | None:
    folded = {metric.lower(): metric for metric in reversed(metrics)}
    return folded.get(name) or next((metric for metric in metrics if metric.lower().startswith(name)), None)
