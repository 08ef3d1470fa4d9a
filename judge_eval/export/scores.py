"""The scores of a run, each for the trace that it is about, as a tracing tool takes them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from uuid import NAMESPACE_URL, uuid5

from judge_eval.errors import DataError
from judge_eval.files import json_list
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
class Service:
    """A tracing tool that takes scores over HTTP. The environment names its address and holds its keys.

    Args:
        name: What people call it.
        needed: The key of a trace's metadata that names it there, for messages.
        ids: Returns the ids of a trace there, from its metadata; empty if it has none.
        record: Makes a record of these ids and a score.
        path: Where records are posted, under the base URL.
        base_urls: Variables with the base URL; the first that is set counts.
        default_url: The base URL if none is.
        keys: Variables with its keys.
        key_header: The header that carries the key; if empty, both keys are user name and password.
        headers: Further headers, each with the variable that holds its value; without one it is not sent.
        at_once: The most scores that one request may carry as a list; if it is 1, a request carries an object.
    """

    name: str
    needed: str
    ids: Callable[[Mapping[str, Any]], ScoreBody]
    record: Callable[[ScoreBody, TraceScore], ScoreBody]
    path: str
    base_urls: tuple[str, ...]
    default_url: str
    keys: tuple[str, ...]
    key_header: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    at_once: int = 1

    def scores(self, run: Run) -> TraceScores:
        """Return the scores of a run in its form."""
        return TraceScores(run, self)


@dataclass(frozen=True)
class TraceScores:
    """The scores of a run as records of a tracing tool. A score without a value, and a bound, is not among them."""

    run: Run
    service: Service

    def __iter__(self) -> Iterator[ScoreBody]:
        """Yield the records; raises `DataError` if no trace of the run names one of the tool."""
        run, is_known = self.run, False
        source = {"run_id": run.id, "run": run.name, "judge": judged_by(run.manifest)}
        created = run.created.isoformat().replace("+00:00", "Z")
        for result in run.results:
            ids = self.service.ids(result.trace.metadata)
            if not ids:
                continue
            is_known, comment = True, explanation(result)
            for name, value in result.scores.items():
                if value is not None:
                    number = str(uuid5(NAMESPACE_URL, json.dumps([run.id, result.trace_id, name])))
                    yield self.service.record(ids, TraceScore(number, name, float(value), comment, created, source))
        if not is_known:
            fault = f"no trace of this run names one of {self.service.name}; judge traces that were exported from there"
            raise DataError(f"{fault}, or write the id into their metadata as `{self.service.needed}`")

    def json(self) -> Iterator[str]:
        """Return the records as a JSON array, in parts."""
        return json_list("[", (json.dumps(each, ensure_ascii=False, allow_nan=False) for each in self), "]")

    def left_out(self) -> list[str]:
        """Say what is not among the records, a sentence a reason; empty if no trace names one of the tool."""
        traced, unanswerable, failed, empty = 0, 0, Counter[str](), Counter[str]()
        for result in self.run.results:
            if not self.service.ids(result.trace.metadata):
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
            needed = f"`{self.service.needed}` of {self.service.name}"
            lines.append(f"{counted(untraced, 'trace')} left out: no {needed} in the metadata")
        return lines
