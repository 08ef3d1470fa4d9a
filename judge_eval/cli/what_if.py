"""`what-if`: a new run from old verdicts, compared with the runs it was made of."""

from contextlib import ExitStack
from typing import Annotated

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.calling import HowCalled
from judge_eval.cli.flags.common import MADE, Json, KeepingFlags, NumbersFlags
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import WhoJudges
from judge_eval.cli.printing.error_messages import INCOMPLETE, verb
from judge_eval.cli.printing.safe_output import give_json, remark, tell
from judge_eval.pools.joining import Settling
from judge_eval.pools.recipe import Recipe


@verb
def what_if(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Runs of the same questions: folder, id or the start of it, label:NAME or latest.",
            autocompletion=completion.runs,
        ),
    ],
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Annotated[KeepingFlags, MADE],
    recipe: Recipe,
    judging: WhoJudges,
    calling: HowCalled,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Try many values of k, a, lambda, threshold or cut: k=10,30,60 or a=0:1:.1; keeps no run.",
        ),
    ] = None,
    conflicts: Annotated[
        Settling, "Which verdict counts if runs disagree: most runs', the first run's, or none."
    ] = "majority",
    judge_missing: Annotated[bool, "Judge the chunks without a verdict (with --model); the cost first."] = False,
    dry_run: Annotated[bool, "With --judge-missing: only say the cost."] = False,
    json_: Json = False,
) -> None:
    """Make a run of new lists from the verdicts of runs, and compare it with each of them. Nothing is judged.

    A chunk that no run has a verdict of stays open, so means have bounds; --judge-missing asks about those alone.

    Examples:
    judge-eval what-if label:bm25 label:dense --fuse rrf
    judge-eval what-if label:dense --rerank mmr:lambda=.7 --cut 5 --label diverse
    judge-eval what-if label:bm25 label:dense --fuse weighted --sweep a=0:1:.1
    judge-eval what-if label:dense --threshold fit
    judge-eval what-if label:bm25 label:dense --fuse rrf --judge-missing --model openai/NAME --dry-run
    """
    from judge_eval.cli.printing.output import print_record, say, show_comparison, summary
    from judge_eval.cli.printing.progress import show_plan, watching
    from judge_eval.pools.fitting import cut_by_score
    from judge_eval.runs.keeping.mirror import written
    from judge_eval.views.comparison import TERMINAL_TRACES
    from judge_eval.views.pool import cut_sentence, sweep_view
    from judge_eval.whatif import NewLists
    from judge_eval.whatif import sweep as try_values

    given, names = [keeping.load(name, remark) for name in runs], numbers.names or None
    if recipe.threshold == "fit":
        for run in given:
            cut = cut_by_score(run)
            if json_:
                give_json(cut.model_dump_json(indent=2))
            else:
                tell(f"{run.name}: {cut_sentence(cut)}")
        return
    if sweep is not None:
        tried = try_values(given, sweep, metric=(names or (None,))[0], conflicts=conflicts, **recipe.keywords())
        print_record(tried, json_, sweep_view)
        return
    kept = keeping.resolved()
    keeping.check()
    lists = NewLists(given, recipe, conflicts)
    with ExitStack() as opened:
        asked = opened.enter_context(judging.evaluator(calling, numbers)) if judge_missing else None
        evaluator = opened.enter_context(lists.evaluator(asked, names))
        if asked is not None:
            show_plan(evaluator, [trace for trace, _ in lists], {"name": str(recipe)}, asks=not dry_run)
        if dry_run:
            return
        evaluator.watch = opened.enter_context(watching(json_))
        opened.enter_context(written(keeping.out, remark))
        made = lists.run(evaluator, out=keeping.out, label=kept.label, tags=kept.tags)
    if json_:
        give_json(made.manifest.model_dump_json(indent=2))
    else:
        for comparison in lists.compared(made, TERMINAL_TRACES):
            show_comparison(comparison)
            say()
        summary(made, page=keeping.page(made))
    if asked is not None and made.manifest.tally.open_verdicts:
        raise typer.Exit(INCOMPLETE)
