"""What the adapters share: one trace judged from another tool's loop, and what is said where it failed."""

import asyncio

from judge_eval.background_loop import background_loop
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError, MissingVerdictError, UnknownNameError, needs_extra
from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.metrics import parse_metric
from judge_eval.runs.folder.records import TraceResult
from judge_eval.schema import Trace
from judge_eval.views.trace import failures_in_words

SHOWN = 3
"""Failed chunks that a message names."""


def not_importable(tool: str, extra: str, error: ImportError) -> ConfigError:
    """Make the error for a tool that is not installed, or whose own imports fail."""
    if error.name == extra:
        return needs_extra(f"{tool} is not installed", extra)
    return needs_extra(
        f"{tool} is installed but cannot be imported ({error}); this installs a version that works", extra
    )


async def judged(evaluator: Evaluator, trace: Trace, reader: ReadOptions) -> EvalRun:
    """Judge a trace from any event loop."""
    # All calls run in one loop of our own: other tools make a loop for each evaluation, and connections,
    # limits and budgets outlive it.
    call = asyncio.run_coroutine_threadsafe(evaluator.aevaluate(trace, reader=reader), background_loop.loop())
    return await asyncio.wrap_future(call)


def chosen(evaluator: Evaluator, metric: str | None) -> str:
    """Return the name of one of an evaluator's metrics; the first where None."""
    _ = evaluator.stack  # told here; inside another tool's evaluation it would be told of every row
    names = evaluator.scorer.names
    name = names[0] if metric is None else str(parse_metric(metric))
    if name not in names:
        raise UnknownNameError("metric of this evaluator", name, names)
    return name


def value_of(result: TraceResult, metric: str) -> float:
    """Return a trace's value; without one, the error says which verdicts failed, and why."""
    value = result.scores[metric]
    if value is None:
        raise MissingVerdictError(failure_of(result, metric))
    return value


def failure_of(result: TraceResult, metric: str) -> str:
    """Say why a trace has no value, in one line that names the first chunks that failed."""
    failed = [o for o in result.outcomes if o.kind == "no_verdict"]
    named = "; ".join(f"{o.chunk_id} {o.why} {o.detail}".rstrip() for o in failed[:SHOWN])
    more = f"; and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    return f"{metric} has no value: {failures_in_words(result)}: {named}{more}"
