"""`run`: judge a dataset."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags.calling import CallingFlags, RunningFlags
from judge_eval.cli.flags.common import Json, Quiet, TracesFile, check_claims, output_flag, readable
from judge_eval.cli.flags.groups import without
from judge_eval.cli.flags.judging import JudgingFlags
from judge_eval.cli.flags.keeping import KeepingFlags
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.errors import GATE, INCOMPLETE, advise_resume, close, spelled_remark, verb
from judge_eval.cli.printing.safe_output import complain, remark, tell
from judge_eval.compare.options import Gates
from judge_eval.data.options import ReadOptions
from judge_eval.runs.judging.selection import Selection
from judge_eval.safe_text import counted
from judge_eval.spelling import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from judge_eval.evaluator import Evaluator
    from judge_eval.judges.judge import Judge
    from judge_eval.runs.folder.run import Run
    from judge_eval.runs.judging.selection import Selecting
    from judge_eval.runs.judging.sources import Traces
    from judge_eval.schema import Trace


@verb
def run(
    data: TracesFile,
    reading: ReadOptions,
    judging: JudgingFlags,
    numbers: NumbersFlags,
    keeping: KeepingFlags,
    selection: Selection,
    running: RunningFlags,
    calling: Annotated[CallingFlags, without("base_url")],
    gates: Gates,
    output: Annotated[
        list[Path] | None, output_flag("Write the run here too: .json, .csv, .md or .xml (JUnit). Repeatable.")
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge every chunk of a dataset; print the metrics, keep the run.

    Examples:
    judge-eval run traces.jsonl --model openai/NAME --metrics AP@5,NDCG@5 --label main
    judge-eval run traces.jsonl --model fake/overlap --dry-run
    """
    from judge_eval.cli.printing.gates import SUFFIXES, RunGate
    from judge_eval.cli.printing.output import show, show_more, summary
    from judge_eval.cli.printing.progress import show_plan, watching
    from judge_eval.export import text as export
    from judge_eval.runs.columns import parquet as parts
    from judge_eval.runs.keeping.lookup import holds_no_run
    from judge_eval.runs.keeping.mirror import written
    from judge_eval.views.run import cache_view, member_sections

    export.check_suffixes(output or (), SUFFIXES)
    if keeping.columnar:
        parts.load_arrow()
    check_claims(selection, judging.by_claims)
    baseline = None if gates.baseline is None else keeping.load(gates.baseline, remark)
    gate = RunGate(gates, baseline)
    if (anchors := running.anchors) is not None and not running.dry_run:
        from judge_eval.trials.drift import watch_judge

        beside = anchors.with_name(f"{anchors.name}.drift.jsonl")  # where earlier versions kept it
        history = beside if beside.exists() else keeping.out / beside.name
        with watching(quiet) as watch:
            seen = watch_judge(judging.anew(calling, numbers, anchors, watch), history)
        (complain if seen.verdict == "drifted" else remark)(f"anchors: {seen.verdict}: {seen.why}")
        if seen.verdict == "drifted":
            raise typer.Exit(GATE)
    keeping.page()  # an invalid address is an error before the first call
    reader = replace(reading, relevant=numbers.relevant)
    budget = None
    if running.pool_budget is not None:
        from judge_eval.pools.sampling import read_budget

        budget = read_budget(running.pool_budget)
    prior = None if running.pool_prior is None else keeping.load(running.pool_prior, remark)
    with ExitStack() as opened:
        path, name = opened.enter_context(readable(data))
        evaluator = opened.enter_context(judging.evaluator(calling, numbers, gate.metrics(numbers.names)))
        selected = replace(selection, name=name, reader=reader).keywords()
        judged: Traces = path
        if budget is not None:
            judged, judge = _sampled(evaluator, path, selected, budget, running.pool, prior)
            evaluator, selected = opened.enter_context(evaluator.with_judge(judge)), {"name": name}
        first = not quiet and not calling.no_cache and calling.replay is None and holds_no_run(keeping.out)

        def tell_cache(hits: int) -> None:
            if first:
                show(cache_view(calling.location, shared=calling.cache is None, hits=hits))

        if running.dry_run:
            show_plan(evaluator, judged, selected)
            tell_cache(0)
            return
        kept = keeping.resolved(baseline).keywords()
        before = datetime.now(UTC)
        with written(keeping.out, spelled_remark, keeping.push_grace), watching(quiet) as watch:
            done = evaluator.evaluate(judged, watch=watch, driver=running.driver(evaluator), **kept, **selected)
            if keeping.columnar:
                parts.write_parts(done)
        earlier = done.manifest.tally.calls - evaluator.stack.counts().calls if running.engine == "local" else 0
        close(evaluator)
    if done.manifest.finished and done.manifest.finished < before:
        remark(f"the newest run of these data is done: {done.folder} (--new-if-done starts a new run)")
    done = done.sliced(*numbers.by) if numbers.by else done
    checked = gate.check(done)
    summary(done, json_, keeping.page(done))
    if not json_:
        if keeping.resume and earlier > 0:
            made = counted(done.manifest.tally.calls - earlier, "call")
            tell(f"{made} by this command, {earlier:,} before it")
        show_more(member_sections(done))
        tell_cache(done.manifest.tally.hits)
    if running.pool is not None:
        from judge_eval.pools.growing import grow
        from judge_eval.views.pool import pool_view

        grown = pool_view(*grow(running.pool, done, remark))
        if not json_:
            show_more(grown.sections)
    passed = gate.report(checked, done, output or (), quiet=json_)
    if done.manifest.tally.open_verdicts > running.max_failures:
        if not quiet and done.folder is not None:
            advise_resume(str(done.folder))
        raise typer.Exit(INCOMPLETE)
    if not passed:
        raise typer.Exit(GATE)


def _sampled(
    evaluator: Evaluator,
    path: Path | str,
    selected: Selecting,
    budget: tuple[str, float],
    place: Path | None,
    prior: Run | None,
) -> tuple[Sequence[Trace], Judge]:
    """Draw the chunks that a budget pays for; return the traces, and the judge that is asked about them."""
    from judge_eval.errors import ConfigError
    from judge_eval.pools.pool import Pool
    from judge_eval.pools.sampling import affordable, first_cutoff, sample_pool

    pool = Pool.load(place) if place is not None and place.exists() else None
    source = evaluator.source(path, Selection(**selected))
    assert source is not None  # a file
    traces = [*source]
    share = 1.0
    for _ in range(2):
        sample = sample_pool(traces, share, pool=pool, prior=prior, k=first_cutoff(evaluator.scorer.names))
        judge = sample.judge(evaluator.judge)
        _, plan = evaluator.with_judge(judge).plan(sample.traces)
        if share < 1 and affordable(budget, plan, evaluator.stack) < 0.9:
            unit, most = budget
            limit = option("pool_budget", f"${most:g}" if unit == "dollars" else f"{most:g}{unit}")
            raise ConfigError(
                f"the first three ranks and two more chunks of each trace take {plan.calls:,} calls, more than "
                f"{limit} pays for; raise it, or take --limit"
            )
        share = affordable(budget, plan, evaluator.stack)
        if share >= 1:
            break
    return sample.traces, judge
