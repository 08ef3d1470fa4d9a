"""`run`: judge a dataset."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from judge_eval.cli.exit_codes import GATE, INCOMPLETE, OK, advise_resume, close, verb
from judge_eval.cli.flags.common import Json, KeepingFlags, NumbersFlags, Quiet, TracesFile, check_claims, readable
from judge_eval.cli.flags.judging import CallingFlags, JudgingFlags, RunningFlags
from judge_eval.cli.printing.gates import SUFFIXES, RunGate
from judge_eval.cli.printing.output import remark, show, show_more, show_plan, summary, tell, watching
from judge_eval.compare.options import Gates
from judge_eval.data.options import ReadOptions
from judge_eval.runs.options import Selection
from judge_eval.safe_text import counted
from judge_eval.settings import setting


@verb
def run(
    data: TracesFile,
    reading: ReadOptions,
    judging: JudgingFlags,
    numbers: NumbersFlags,
    keeping: KeepingFlags,
    selection: Selection,
    running: RunningFlags,
    calling: CallingFlags,
    gates: Gates,
    output: list[Path] | None = setting(None, "Write the run here too: .json, .csv, .md or .xml (JUnit). Repeatable."),
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Judge every chunk of a dataset; print the metrics, keep the run.

    Examples:
    judge-eval run traces.jsonl --model openai/NAME --metrics AP@5,NDCG@5 --label main
    judge-eval run traces.jsonl --model fake/overlap --dry-run
    """
    from judge_eval.export import text as export
    from judge_eval.runs.keeping.lookup import holds_no_run
    from judge_eval.views.run import cache_view, member_sections

    export.prepare(output or (), SUFFIXES)
    check_claims(selection, judging.by_claims)
    baseline = None if gates.baseline is None else keeping.load(gates.baseline)
    gate = RunGate(gates, baseline)
    keeping.check()
    search = running.search()
    reader = replace(reading, relevant=numbers.relevant)
    with ExitStack() as opened:
        path, name = opened.enter_context(readable(data))
        evaluator = opened.enter_context(judging.evaluator(calling, numbers, gate.metrics(numbers.names)))
        selected = replace(selection, name=name, reader=reader).keywords()
        first = not quiet and calling.used is not None and calling.replay is None and holds_no_run(keeping.out)

        def tell_cache(hits: int) -> None:
            if first:
                show(cache_view(calling.location, shared=calling.cache is None, hits=hits))

        if running.dry_run:
            gate.show_foresight(show_plan(evaluator, path, selected))
            tell_cache(0)
            return OK
        kept = keeping.resolved(baseline).keywords()
        before = datetime.now(UTC)
        with keeping.written(), watching(quiet) as watch:
            done = evaluator.evaluate(
                path, watch=watch, driver=running.driver(evaluator), retriever=search, **kept, **selected
            )
        earlier = done.manifest.tally.calls - evaluator.stack.counts().calls if running.engine == "local" else 0
        close(evaluator)
    if done.manifest.finished and done.manifest.finished < before:
        remark(f"the newest run of these data is done: {done.folder} (--new-if-done starts a new run)")
    done = done.sliced(*numbers.by) if numbers.by else done
    fault = running.show_fault(done)
    gate.check(done)
    summary(done, json_, keeping.page(done))
    if not json_:
        if keeping.resume and earlier > 0:
            made = counted(done.manifest.tally.calls - earlier, "call")
            tell(f"{made} by this command, {earlier:,} before it")
        show_more(member_sections(done))
        tell_cache(done.manifest.tally.hits)
    passed = gate.report(done, output or (), fault=fault, quiet=json_)
    retrieval = done.manifest.dataset.retrieval
    if retrieval is not None and retrieval.failed:
        remark("the same command with --resume asks the retriever for what is missing alone")
    elif fault is not None and not quiet and done.folder is not None:
        advise_resume(str(done.folder))
    return GATE if not passed else INCOMPLETE if fault is not None else OK
