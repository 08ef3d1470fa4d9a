"""Assertions on metrics, whose messages show what the judge said."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from judge_eval.errors import ConfigError
from judge_eval.eval_run import EvalRun
from judge_eval.metrics import Metric, parse_metric
from judge_eval.pytest_plugin import PROPERTY
from judge_eval.pytest_plugin.bench import Bench
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.sources import Traces
from judge_eval.runs.scoring.aggregate import less_is_better, reaches
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.safe_text import logged, number, one_line
from judge_eval.views.run_remarks import remarks_of
from judge_eval.views.trace import brief_lines

SHOWN = 3
"""How many traces a message shows, the worst ones."""
TOLERANCE = 1e-9
"""A value this little short of the wanted one passes: 2/3 written with 9 digits is 2/3."""


def _holds(run: Run, name: str, wanted: float) -> bool:
    aggregate = run.aggregates[name]
    edge = wanted + TOLERANCE if less_is_better(name) else wanted - TOLERANCE
    return aggregate.mean is not None and not aggregate.n_failed and reaches(name, aggregate.mean, edge)


def failure_message(run: Run, wanted: Mapping[str, float], bench: Bench | None) -> str:
    """Say which metrics miss the `wanted` value, and show the verdicts that made them so."""
    lines = []
    for name, least in wanted.items():
        most = "at most" if less_is_better(name) else "at least"
        verb = "holds" if _holds(run, name, least) else "fails"
        lines.append(f"{one_line(name)} is {number(run.aggregates[name].mean)}, wanted {most} {number(least)}: {verb}")
    lines += [one_line(remark.sentence) for remark in remarks_of(run.manifest)]
    if run.manifest.tally.failed_verdicts:
        lines.append("A metric over what was not judged does not pass.")
    results = sorted(run.results, key=lambda result: _rank(result, wanted))
    for result in results[:SHOWN]:
        lines += ["", *brief_lines(result)]
    if len(results) > SHOWN:
        lines += ["", f"... and {len(results) - SHOWN} more traces"]
    if bench is not None:
        lines += ["", one_line(f"verdicts: {bench.source}")]
        if bench.advice:
            lines.append(one_line(f"record them again: {bench.advice}"))
    return logged("\n".join(lines))


def _rank(result: TraceResult, wanted: Mapping[str, float]) -> float:
    signs = {name: -1.0 if less_is_better(name) else 1.0 for name in wanted}
    scores = {name: result.scores.get(name) for name in wanted}
    return min(-1.0 if s is None else signs[name] * (s - wanted[name]) for name, s in scores.items())


def summary_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write the table at the end of a run, one line an assertion, in the order of the tests' names."""
    shown: list[tuple[str, ...]] = [("test", "metric", "score", "wanted", "verdicts", "failed", "")]
    shown += [
        (
            one_line(str(row["test"])),
            one_line(str(row["metric"])),
            number(row["score"]),
            f"{'<=' if row['less'] else '>='} {number(row['wanted'])}",
            str(row["verdicts"]),
            str(row["failed"] or ""),
            "" if row["ok"] else "FAILED",
        )
        for row in sorted(rows, key=lambda row: str(row["test"]))
    ]
    widths = [max(len(line[place]) for line in shown) for place in range(len(shown[0]))]
    return [
        logged("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        for line in shown
    ]


def assert_metrics(
    request: pytest.FixtureRequest,
    data: Traces | EvalRun,
    wanted: Mapping[str | Metric, float],
    *,
    judge: Bench | None = None,
) -> EvalRun:
    """Judge traces and assert that every metric reaches its value; return the run with these metrics.

    Raises:
        AssertionError: A metric does not reach its value, or a verdict failed.
        MissError: In replay mode, the cassette does not hold a verdict.
        ConfigError: No metric is given, or there is none of such a name; nothing is judged then.
    """
    __tracebackhide__ = True
    if not wanted:
        raise ConfigError("no metric is named; name at least one, such as {'AP@5': 0.8}")
    values = _unique(wanted)
    bench = judge
    if isinstance(data, EvalRun):
        run = data
    else:
        bench = bench or request.getfixturevalue("judge")
        run = bench.evaluate(data)
    run = rescore(run, list(wanted))
    least = dict(zip(run.manifest.metrics, values, strict=True))
    missed = False
    for name, value in least.items():
        ok = _holds(run, name, value)
        missed = missed or not ok
        less = less_is_better(name)
        row = {"metric": name, "score": run.aggregates[name].mean, "wanted": value, "less": less, "ok": ok}
        row |= {"verdicts": run.manifest.tally.verdicts, "failed": run.manifest.tally.failed_verdicts}
        request.node.user_properties.append((PROPERTY, json.dumps(row)))
    if missed:
        raise AssertionError(failure_message(run, least, bench))
    return run


def assert_context_precision(
    request: pytest.FixtureRequest,
    data: Traces | EvalRun,
    ap: float,
    *,
    k: int | None = None,
    judge: Bench | None = None,
) -> EvalRun:
    """Judge traces and assert their context precision, `AP` or with `k` `AP@k`; see `assert_metrics`."""
    __tracebackhide__ = True
    return assert_metrics(request, data, {"AP" if k is None else f"AP@{k}": ap}, judge=judge)


def _unique(wanted: Mapping[str | Metric, float]) -> list[Any]:
    """Return the wanted values; of two spellings of one metric the stricter value counts."""
    values: dict[str, float] = {}
    for metric, value in wanted.items():
        name = str(parse_metric(metric))
        stricter = min if less_is_better(name) else max
        values[name] = stricter(value, values.get(name, value))
    return list(values.values())
