"""The scores of a run, each for the trace that it is about, as a tracing tool takes them."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from uuid import NAMESPACE_URL, uuid5

from judge_eval.errors import DataError
from judge_eval.runs.folder.describing import judged_by
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.telemetry import explanation
from judge_eval.safe_text import counted

ScoreBody: TypeAlias = dict[str, Any]
"""The JSON object of one score, as a service takes it."""


class TraceScore(NamedTuple):
    """The value of a metric for one trace."""

    id: str
    """A UUID made of run, trace and metric: whoever gets it twice replaces what came first."""
    name: str
    value: float
    comment: str
    """What the judge says of each chunk, by rank."""
    created: str
    """When the run was started, as RFC 3339 writes it: the same however often it is sent."""
    source: Mapping[str, str]
    """The run's id and name, and who judged."""


@dataclass(frozen=True)
class TraceScores:
    """The scores of a run as records of a tracing tool. A score without a value, and a bound, is not among them.

    Args:
        run: The run.
        tool: What people call the tool.
        needed: The key of a trace's metadata that names it there, for messages.
        ids: Returns the ids of a trace there, from its metadata; empty if it has none.
        record: Makes a record of these ids and a score.
    """

    run: Run
    tool: str
    needed: str
    ids: Callable[[Mapping[str, Any]], ScoreBody]
    record: Callable[[ScoreBody, TraceScore], ScoreBody]

    def __iter__(self) -> Iterator[ScoreBody]:
        """Yield the records; raises `DataError` if no trace of the run names one of the tool."""
        run, is_known = self.run, False
        source = {"run_id": run.id, "run": run.name, "judge": judged_by(run.manifest)}
        created = run.created.isoformat().replace("+00:00", "Z")
        for result in run.results:
            ids = self.ids(result.trace.metadata)
            if not ids:
                continue
            is_known, comment = True, explanation(result)
            for name, value in result.scores.items():
                if value is not None:
                    number = str(uuid5(NAMESPACE_URL, json.dumps([run.id, result.trace_id, name])))
                    yield self.record(ids, TraceScore(number, name, float(value), comment, created, source))
        if not is_known:
            raise DataError(
                f"no trace of this run names one of {self.tool}; judge traces that were exported from there, or "
                f"write the id into their metadata as `{self.needed}`"
            )

    def json(self) -> Iterator[str]:
        """Yield the records as a JSON array, in parts."""
        yield "["
        for number, record in enumerate(self):
            yield (",\n" if number else "\n") + json.dumps(record, ensure_ascii=False, allow_nan=False)
        yield "\n]\n"

    def left_out(self) -> list[str]:
        """Say what is not among the records, a sentence a reason; empty if no trace names one of the tool."""
        traced, unanswerable, failed, empty = 0, 0, Counter[str](), Counter[str]()
        for result in self.run.results:
            if not self.ids(result.trace.metadata):
                continue
            traced += 1
            if result.trace.answerable is False:
                unanswerable += 1
                continue
            for name, value in result.scores.items():
                if value is None:
                    (failed if name in result.bounds else empty)[name] += 1
        lines = [
            f"{counted(n, 'score')} of {name} left out: failed verdicts leave it open" for name, n in failed.items()
        ]
        lines += [f"{counted(n, 'score')} of {name} left out: there is nothing to measure" for name, n in empty.items()]
        if unanswerable:
            lines.append(f"{counted(unanswerable, 'trace')} left out: nothing answers the question")
        if traced and (untraced := len(self.run.results) - traced):
            lines.append(f"{counted(untraced, 'trace')} left out: no `{self.needed}` of {self.tool} in the metadata")
        return lines
