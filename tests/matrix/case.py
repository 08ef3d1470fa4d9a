"""One cell at work: a folder, a server, and a run by the kind's judge beside the run that it must equal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judge_eval import EvalRun, Evaluator, JudgeEvalError
from tests.matrix.answers import Answering, rows
from tests.matrix.inside import KEPT_IN, Desk
from tests.matrix.kinds import Kind, Place

SECRET = b"s" * 32
"""Of every cache: the marks of fences follow from it, and with them the bodies of requests."""


class RefusedError(Exception):
    """A combination that is refused, with the message that says so."""


@dataclass(frozen=True)
class Facts:
    """What must be the same whichever way a run took."""

    results: Mapping[str, Mapping[str, Any]]
    """By trace: verdicts, votes, claims, scores and the calls behind them."""
    aggregates: Mapping[str, Any]
    counts: Mapping[str, Any]
    """Verdicts, failures, stages."""
    totals: Mapping[str, Any]
    """Calls, tokens and cost."""
    bodies: Counter[str] = field(default_factory=Counter)
    """Requests that the server received, by their bodies; samples of one judge ask alike."""

    @property
    def asked(self) -> int:
        """How many requests the server received."""
        return self.bodies.total()


def facts(run: EvalRun, bodies: Counter[str] | None = None) -> Facts:
    """Read the facts of a run."""
    results = {}
    for result in run.results:
        outcome = json.loads(
            json.dumps(result.model_dump(mode="json", exclude={"position", "trace", "digest", "v"})),
            object_hook=lambda record: {name: value for name, value in record.items() if name != "request_id"},
        )
        calls = [{name: value for name, value in call.items() if name != "key"} for call in outcome["calls"]]
        results[result.trace_id] = {**outcome, "calls": sorted(calls, key=json.dumps)}
    tally = run.manifest.tally.model_dump(mode="json")
    counted = ("traces", "verdicts", "failed_verdicts", "failures", "unsupported", "stages")
    totals = {name: tally[name] for name in ("calls", "input_tokens", "output_tokens")}
    cost = tally["cost"]
    return Facts(
        results,
        {name: each.model_dump(mode="json") for name, each in run.aggregates.items()},
        {name: tally[name] for name in counted},
        {**totals, "cost": None if cost is None else round(cost, 12)},
        Counter(bodies),
    )


PLAIN: dict[str, Facts] = {}
"""The facts of each kind's plain run, once they are known."""


@dataclass
class Case:
    """A cell at work."""

    kind: Kind
    server: Answering
    desk: Desk
    urls: dict[str, str] = field(default_factory=dict)
    """Where other servers than the common one are asked: `url`, `cheap_url`."""

    @property
    def folder(self) -> Path:
        """The folder of the cell."""
        return self.desk.folder

    @property
    def asked(self) -> int:
        """How many requests the server received."""
        return self.server.asked

    @property
    def plain(self) -> Facts:
        """The facts of the kind's plain run: nothing in the cache, no flag beside the judge's."""
        if self.kind.name not in PLAIN:
            with Answering() as server:
                apart = self.folder / "plain"
                apart.mkdir()
                case = Case(self.kind, server, self.desk)
                run = case.run(out=apart / "runs", cache=apart / "cache")
                PLAIN[self.kind.name] = facts(run, server.bodies)
        return PLAIN[self.kind.name]

    def place(self, prompt: str | None = None) -> Place:
        """Say where the kind's judge is asked."""
        prompt = prompt or self.kind.prompt(self.folder)
        url = self.urls.get("url", self.server.url)
        return Place(self.folder, url, self.urls.get("cheap_url", self.server.url), prompt)

    def judge_flags(self, prompt: str | None = None) -> tuple[object, ...]:
        """Return the flags that say who judges, and where."""
        place = self.place(prompt)
        return (*self.kind.flags(place), "--prompt", place.prompt, "--base-url", place.url)

    def data(self, count: int = 3, *, extra: Sequence[str] = (), name: str = "data.jsonl") -> Path:
        """Write the data; `extra` lines stand after the first."""
        lines = [json.dumps(row) for row in self.rows(count)]
        lines[1:1] = extra
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    def rows(self, count: int = 3) -> list[dict[str, Any]]:
        """Return the data as mappings."""
        return rows(count, claims=self.kind.claims)

    def cache(self, name: str | Path = "cache") -> Path:
        """Make a cache that marks fences as all others of the matrix do."""
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True)
            kept = folder / KEPT_IN
            kept.touch(0o600)
            kept.write_bytes(SECRET)
        return folder

    def call(self, *arguments: object, codes: Sequence[int] = (0,)) -> str:
        """Run the command line and return what it printed.

        Raises:
            RefusedError: It said that it is used wrongly (exit code 2).
        """
        result = self.desk(*arguments, OPENAI_API_KEY="k")
        if result.code == 2 and 2 not in codes:
            raise RefusedError(f"{result.out}\n{result.err}")
        assert result.code in codes, f"exit code {result.code}\n{result.out}\n{result.err}"
        return result.out

    def run_arguments(
        self,
        *flags: object,
        data: Path | None = None,
        out: str | Path = "runs",
        cache: str | Path = "cache",
        prompt: str | None = None,
        metrics: str | None = None,
    ) -> list[object]:
        """Return the arguments of `judge-eval run`."""
        kept = ("--cache", "none") if cache is None else ("--cache", self.cache(cache) if is_folder(cache) else cache)
        return [
            "run", data or self.data(), *self.judge_flags(prompt), "--cache", kept,
            "--out", self.folder / out, "--metrics", metrics or self.kind.metrics, "-q", *flags,
        ]  # fmt: skip

    def run(self, *flags: object, out: str | Path = "runs", codes: Sequence[int] = (0,), **more: Any) -> EvalRun:
        """Judge by the command line and load the newest run."""
        self.call(*self.run_arguments(*flags, out=out, **more), codes=codes)
        return self.newest(out)

    def newest(self, out: str | Path = "runs") -> EvalRun:
        """Load the run that was written last."""
        manifests = (self.folder / out).glob("*/manifest.json")
        return EvalRun.load(max(manifests, key=lambda path: path.stat().st_mtime_ns).parent)

    def evaluator(self, **settings: Any) -> Evaluator:
        """Make the kind's evaluator in Python.

        Raises:
            RefusedError: It cannot be made.
        """
        models, judge, options = self.kind.build(self.place())
        settings = {"cache": self.cache(), "metrics": self.kind.metrics.split(","), **settings}
        try:
            return Evaluator(models, judge=judge, options=options, **settings)
        except JudgeEvalError as error:
            raise RefusedError(str(error)) from error

    def same(self, run: EvalRun, *, totals: bool = True) -> None:
        """See that a run has the facts of the plain run; `totals`: calls, tokens and cost too."""
        mine, plain = facts(run), self.plain
        for trace_id, result in plain.results.items():
            for name, value in result.items():
                assert mine.results[trace_id][name] == value, f"{trace_id}: {name}"
        assert mine.results.keys() == plain.results.keys()
        assert mine.aggregates == plain.aggregates
        assert mine.counts == plain.counts
        if totals:
            assert mine.totals == plain.totals

    def nothing_twice(self, elsewhere: Counter[str] | None = None) -> None:
        """See that the servers received the requests of a plain run, each as often as there."""
        bodies = self.server.bodies + (elsewhere or Counter())
        again = bodies - self.plain.bodies
        assert not again, f"{again.total()} of {bodies.total()} requests were paid beside those of the plain run"
        assert bodies == self.plain.bodies


def is_folder(cache: str | Path) -> bool:
    """Tell whether a cache is a folder, and not the URL of a database."""
    return "://" not in str(cache)
