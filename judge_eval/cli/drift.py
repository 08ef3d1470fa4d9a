"""`drift`: whether a judge still gives the verdicts that it gave."""

from dataclasses import replace
from typing import Annotated

from judge_eval.cli.exit_codes import GATE, INCOMPLETE, OK, verb
from judge_eval.cli.flags.common import MADE, FinishedRun, Json, KeepingFlags, Quiet
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import OF_THE_RUN, CallingFlags, JudgingFlags, judge_of_run
from judge_eval.cli.printing.output import print_record, watching
from judge_eval.settings import check_ranges, setting


@verb
def drift(
    run: FinishedRun,
    judging: Annotated[JudgingFlags, only("model", "prompt", "mode", "judge"), OF_THE_RUN],
    calling: Annotated[CallingFlags, only("fleet", "concurrency", "max_cost"), without("record", "replay", "cache")],
    keeping: Annotated[KeepingFlags, MADE],
    alpha: float = setting(0.05, "The level of the test: exit with code 1 if p is at most this."),
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Ask a run's judge about the same chunks again, and compare: has the judge changed?

    Name the model of the run; prompt, mode, scale and parameters are the run's own. What differs is refused before the
    first call. No reply comes from the cache, and a command that was stopped goes on where it stood. The answers are
    kept as a run, whose baseline is RUN.

    The exit code is 1 if the verdicts drifted: if flips as one-sided as these are no likelier than --alpha.

    Examples:
    judge-eval drift label:release-1 --model openai/NAME --label check-2
    judge-eval drift latest --judge panel.toml --alpha 0.001
    """
    from judge_eval.compare.drift import measure_drift
    from judge_eval.evaluator import Evaluator
    from judge_eval.trials.drift import judge_again, replies_folder
    from judge_eval.views.drift import drift_view

    check_ranges({"alpha": alpha})
    before = keeping.load(run)
    with replies_folder(before, keeping.out) as replies:
        who = judge_of_run(judging, replace(calling, cache=str(replies)), before)
        with Evaluator(**who, cache=str(replies)) as evaluator, keeping.written(), watching(quiet) as evaluator.watch:
            after = judge_again(evaluator, before, **keeping.resolved(before).keywords())
    measured = measure_drift(before, after)
    print_record(measured, json_, lambda _: drift_view(measured, alpha))
    if measured.p <= alpha:
        return GATE
    return INCOMPLETE if after.manifest.tally.open_verdicts else OK
