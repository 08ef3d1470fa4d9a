"""The language of the filter box over a run's traces."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from judge_eval.pages.rows import TraceRow
from judge_eval.runs.folder.records import TraceResult

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
        said = outcome.explanation if outcome.kind == "verdict" else f"{outcome.why} {outcome.detail}"
        parts += (chunk.id, chunk.title or "", chunk.text, said if reasons else "")
    return "\n".join(parts).lower()


def parse_filter(text: str, metrics: Sequence[str]) -> Filter:
    """Read a filter: `text`, `tag:x`, `ap<0.5`, `delta<0`, `disagree`, `failed`, `changed`; `-` negates.

    A metric is named by its beginning, whatever the case (`ap` is the first one such as `AP@5`); a word
    that is nothing else is a text.
    """
    tests: list[Test] = []
    texts: list[tuple[str, bool]] = []
    for minus, prefix, quoted, bare in _WORD.findall(text):
        wanted = not minus
        test = None
        if prefix.lower() == "tag:":
            test = _tagged((quoted or bare).lower())
        elif not prefix and bare and not quoted:
            test = _FLAGS.get(bare.lower()) or _comparison(bare, metrics)
        if test is None:
            word = (prefix + (quoted or bare)).lower()
            if word:
                texts.append((word, wanted))
        else:
            tests.append(test if wanted else _negated(test))
    return Filter(tuple(tests), tuple(texts))


_FLAGS: Mapping[str, Test] = {
    "disagree": lambda row: row.disagreements > 0,
    "failed": lambda row: row.failed > 0,
    "changed": lambda row: bool(row.change),
}


def _tagged(tag: str) -> Test:
    return lambda row: any(tag == given.lower() for given in row.tags)


def _negated(test: Test) -> Test:
    return lambda row: not test(row)


def _comparison(word: str, metrics: Sequence[str]) -> Test | None:
    parts = _NUMBER.match(word)
    if not parts:
        return None
    name, sign, number = parts.group(1).lower(), _COMPARE[parts.group(2)], float(parts.group(3))
    if name == "delta" and metrics:
        return lambda row: (value := row.deltas.get(metrics[0])) is not None and sign(value, number)
    metric = find_metric(name, metrics)
    if metric is None:
        return None
    return lambda row: (value := row.scores.get(metric)) is not None and sign(value, number)


def find_metric(name: str, metrics: Sequence[str]) -> str | None:
    """Find a metric by its name or the beginning of it, whatever the case."""
    folded = name.lower()
    exact = [metric for metric in metrics if metric.lower() == folded]
    return next(iter(exact or [metric for metric in metrics if metric.lower().startswith(folded)]), None)
