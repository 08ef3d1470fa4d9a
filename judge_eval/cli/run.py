"""`run`: judge a dataset."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.common import Json, Quiet, output_flag
from judge_eval.cli.flags.gating import GatingFlags
from judge_eval.cli.flags.groups import without
from judge_eval.cli.flags.judging import JudgingFlags
from judge_eval.cli.flags.keeping import KeepingFlags
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.flags.reading import ChoosingFlags, ReadingFlags, readable
from judge_eval.cli.flags.running import RunningFlags
from judge_eval.cli.printing.door import remark
from judge_eval.cli.printing.errors import GATE, INCOMPLETE, advise_resume, close, verb


@verb
def run(
    data: Annotated[
        str, typer.Argument(help="Traces: a file, folder or URL of any known format; - reads standard input.")
    ],
    reading: ReadingFlags,
    judging: JudgingFlags,
    numbers: NumbersFlags,
    keeping: KeepingFlags,
    choosing: ChoosingFlags,
    running: RunningFlags,
    calling: Annotated[CallingFlags, without("base_url")],
    gating: GatingFlags,
    output: Annotated[
        Path | None, output_flag("Write the run here too: .json, .csv, .md or .xml (JUnit).")
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge every chunk of a dataset; print the metrics, keep the run.

    Examples:
    judge-eval run traces.jsonl --model openai/NAME --metrics AP@5,NDCG@5 --label main
    judge-eval run traces.jsonl --model fake/overlap --dry-run
    """
    from judge_eval.cli.printing.caching import say_cache
    from judge_eval.cli.printing.gates import SUFFIXES, RunGate
    from judge_eval.cli.printing.members import show_members
    from judge_eval.cli.printing.output import summary
    from judge_eval.cli.printing.plans import show_plan
    from judge_eval.cli.printing.progress import watching
    from judge_eval.export import text as export
    from judge_eval.runs.columns import parquet as parts
    from judge_eval.runs.keeping.finding import holds_no_run
    from judge_eval.runs.keeping.mirroring import written

    if output is not None:
        export.check_suffix(output, SUFFIXES)
    if keeping.columnar:
        parts.load_arrow()
    choosing.check_claims(judging.by_claims)
    limits = gating.limits()
    baseline = None if gating.baseline is None else keeping.load(gating.baseline, remark)
    gate = RunGate(limits, gating.strict, gating.on_undecided, baseline)
    label, href = keeping.named()
    keeping.page()  # an address that is none is told before the first call
    reader = reading.options(numbers.relevant)
    with (
        readable(data) as (path, name),
        judging.evaluator(calling, numbers, gate.metrics(numbers.names)) as evaluator,
    ):
        selected = choosing.selecting(name, reader)
        first = not quiet and holds_no_run(keeping.out)
        if running.dry_run:
            show_plan(evaluator, path, selected)
            if first:
                say_cache(calling)
            return
        resume: Path | bool = running.resume == "newest"
        if running.resume is not None and running.resume != "newest":
            resume = keeping.find(running.resume, any_=True)
        before = datetime.now(UTC)
        with written(keeping.out, remark), watching(quiet) as watch:
            done = evaluator.evaluate(
                path,
                out=keeping.out,
                label=label,
                href=href,
                tags=keeping.tag or (),
                baseline=None if baseline is None else baseline.id,
                resume=resume,
                or_new=running.or_new,
                watch=watch,
                driver=running.driver(evaluator),
                push_every=running.push_every,
                **selected,
            )
            if keeping.columnar:
                parts.write_parts(done)
        close(evaluator)
    if done.manifest.finished and done.manifest.finished < before:
        remark(f"the newest run of these data is done: {done.folder} (--or-new begins another)")
    summary(done, json_, keeping.page(done))
    if not json_:
        show_members(done)
        if first:
            say_cache(calling, done.manifest.tally.hits)
    passed = gate.check(done, output, quiet=json_)
    if done.manifest.tally.failed_verdicts > running.max_failures:
        if not quiet and done.folder is not None:
            advise_resume(str(done.folder))
        raise typer.Exit(INCOMPLETE)
    if not passed:
        raise typer.Exit(GATE)
