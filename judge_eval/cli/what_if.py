"""`what-if`: a new run from old verdicts, compared with the runs it was made of."""

from contextlib import ExitStack
from typing import Annotated

from judge_eval.cli.exit_codes import INCOMPLETE, OK, verb
from judge_eval.cli.flags.common import MADE, Json, KeepingFlags, NumbersFlags, runs_argument
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import HowCalled, WhoJudges
from judge_eval.cli.printing.output import (
    give_json,
    print_record,
    say,
    show_comparison,
    show_plan,
    summary,
    tell,
    watching,
)
from judge_eval.pools.joining import Settling
from judge_eval.pools.recipe import Recipe
from judge_eval.settings import setting


@verb
def what_if(
    runs: Annotated[
        list[str], runs_argument("Runs of the same questions: folder, id or the start of it, label:NAME or latest.")
    ],
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Annotated[KeepingFlags, MADE],
    recipe: Recipe,
    judging: WhoJudges,
    calling: HowCalled,
    sweep: str | None = setting(
        None,
        "Try many values of k, a, lambda, threshold or cut: k=10,30,60 or a=0:1:.1; keeps no run.",
        metavar="NAME=VALUES",
    ),
    conflicts: Settling = setting(
        "majority", "Which verdict counts if runs disagree: most runs', the first run's, or none."
    ),
    judge_missing: bool = setting(False, "Judge the chunks without a verdict (with --model); the cost first."),
    dry_run: bool = setting(False, "With --judge-missing: only say the cost."),
    json_: Json = False,
) -> int:
    """Make a run of new lists from the verdicts of runs, and compare it with each of them. Nothing is judged.

    A chunk that no run has a verdict of stays open, so means have bounds; --judge-missing asks about those alone.

    Examples:
    judge-eval what-if label:bm25 label:dense --fuse rrf
    judge-eval what-if label:dense --rerank mmr:lambda=.7 --cut 5 --label diverse
    judge-eval what-if label:bm25 label:dense --fuse weighted --sweep a=0:1:.1
    judge-eval what-if label:dense --threshold fit
    judge-eval what-if label:bm25 label:dense --fuse rrf --judge-missing --model openai/NAME --dry-run
    """
    from judge_eval.pools.fitting import cut_by_score
    from judge_eval.views.comparison import TERMINAL_TRACES
    from judge_eval.views.pool import cut_sentence, sweep_view
    from judge_eval.whatif import NewLists
    from judge_eval.whatif import sweep as try_values

    given, names = [keeping.load(name) for name in runs], numbers.names or None
    if recipe.threshold == "fit":
        for run in given:
            cut = cut_by_score(run)
            if json_:
                give_json(cut.model_dump_json(indent=2))
            else:
                tell(f"{run.name}: {cut_sentence(cut)}")
        return OK
    if sweep is not None:
        tried = try_values(given, sweep, metric=(names or (None,))[0], conflicts=conflicts, **recipe.keywords())
        print_record(tried, json_, sweep_view)
        return OK
    kept = keeping.resolved()
    keeping.check()
    lists = NewLists(given, recipe, conflicts)
    with ExitStack() as opened:
        asked = opened.enter_context(judging.evaluator(calling, numbers)) if judge_missing else None
        evaluator = opened.enter_context(lists.evaluator(asked, names))
        if asked is not None:
            show_plan(evaluator, [trace for trace, _ in lists], {"name": str(recipe)}, asks=not dry_run)
        if dry_run:
            return OK
        evaluator.watch = opened.enter_context(watching(json_))
        opened.enter_context(keeping.written())
        made = lists.run(evaluator, out=keeping.out, label=kept.label, tags=kept.tags)
    if json_:
        give_json(made.manifest.model_dump_json(indent=2))
    else:
        for comparison in lists.compared(made, TERMINAL_TRACES):
            show_comparison(comparison)
            say()
        summary(made, page=keeping.page(made))
    return INCOMPLETE if asked is not None and made.manifest.tally.open_verdicts else OK
