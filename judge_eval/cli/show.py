"""`show`: a run, or one of its traces with every verdict."""

import json
from functools import partial
from typing import Annotated

import typer

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import Json, NumbersFlags, OneRun
from judge_eval.cli.flags.groups import only
from judge_eval.cli.printing.output import give_json, print_record, show_more, summary
from judge_eval.errors import ConfigError, RunError, advise
from judge_eval.settings import setting

LISTED = 1000
"""How many traces are listed if nobody says how many."""


@verb
def show(
    chosen: OneRun,
    numbers: Annotated[NumbersFlags, only("by")],
    trace: Annotated[str | None, typer.Argument(help="A trace's id: show its verdicts.")] = None,
    failed: bool = setting(False, "List only traces with failed verdicts."),
    worst: int | None = setting(None, "List this many traces with the worst scores, worst first."),
    sort: str | None = setting(
        None,
        "Sort the traces by a metric of the run, the lowest first (with --worst: in place of its "
        "first metric), or by id; -METRIC puts the highest first.",
        metavar="METRIC|trace",
        completion="metrics",
    ),
    limit: int | None = setting(None, f"List at most this many traces; {LISTED} by default, with --json all."),
    tags: bool = setting(False, "Show each metric by tag, its percentiles, and the claims covered by tag."),
    members: bool = setting(False, "Show how well the members of a panel agree."),
    json_: Json = False,
) -> None:
    """Show a run and its traces, or one trace with its verdicts, reasons and evidence.

    Examples:
    judge-eval show latest --worst 10
    judge-eval show latest --sort -NDCG@5 --limit 20
    judge-eval show latest q2
    """
    from judge_eval.runs.scoring.aggregate import less_is_better
    from judge_eval.runs.scoring.rescore import scale_of
    from judge_eval.views.run import (
        LISTED_CLAIMS,
        claim_sections,
        member_sections,
        pick_traces,
        picked_sections,
        sorting_key,
        spread_sections,
    )
    from judge_eval.views.trace import trace_view

    run = chosen.loaded()
    run = run.sliced(*numbers.by) if numbers.by else run
    if trace is not None:
        for result in run.results:
            if result.trace_id == trace:
                print_record(result, json_, partial(trace_view, scale=scale_of(run)))
                return
        ids = [result.trace_id for result in run.results]
        raise RunError(f"no trace {trace!r} in this run; {advise(trace, ids[:1000])}")
    if worst is not None and limit is not None:
        raise ConfigError("--worst already limits the list; leave out --limit")
    most = limit if worst is None else worst
    if most is None and not json_:
        most = LISTED
    wanted = sort or (run.manifest.metrics[0] if worst is not None else None)
    by = None if wanted is None else sorting_key(wanted, run.manifest.metrics)
    if by is not None and worst is not None and less_is_better(by[0]):
        by = by[0], not by[1]
    if json_ and by is None and most is None and not failed:
        summary(run, json_)
        return
    if json_:
        places = pick_traces(run.results, by, most, failed=failed).places
        give_json(json.dumps([run.results[place].model_dump(mode="json") for place in places], indent=2))
        return
    summary(run)
    if numbers.by:
        return
    show_more(claim_sections(run, LISTED_CLAIMS, tags=tags))
    if members or tags:
        show_more(member_sections(run) if members else spread_sections(run))
        return
    show_more(picked_sections(run, pick_traces(run.results, by, most, failed=failed), by))
