"""`show`: a run, or one of its traces with every verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from judge_eval.cli.flags.common import Json
from judge_eval.cli.flags.keeping import OneRun
from judge_eval.cli.printing.door import give_json, tell
from judge_eval.cli.printing.errors import verb


@verb
def show(
    chosen: OneRun,
    trace: Annotated[str | None, typer.Argument(help="A trace's id: show its verdicts.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="List only traces with failed verdicts.")] = False,
    tags: Annotated[
        bool, typer.Option("--tags", help="Show each metric by tag, and its percentiles.")
    ] = False,
    members: Annotated[
        bool, typer.Option("--members", help="Show how far the members of a panel agree.")
    ] = False,
    json_: Json = False,
) -> None:
    """Show a run and its traces, or one trace with its verdicts, reasons and evidence."""
    from judge_eval.cli.printing.members import show_members
    from judge_eval.cli.printing.output import say_table, show_spread, summary, trace_card
    from judge_eval.errors import RunError, advise
    from judge_eval.runs.folder.signs import strip
    from judge_eval.runs.folder.wording import number

    run = chosen.loaded()
    if trace is not None:
        for result in run.results:
            if result.trace_id == trace:
                if json_:
                    give_json(result.model_dump_json(indent=2))
                else:
                    trace_card(result)
                return
        ids = [result.trace_id for result in run.results]
        raise RunError(f"no trace {trace!r} in this run; {advise(trace, ids[:1000])}")
    if json_:
        give_json(run.manifest.model_dump_json(indent=2))
        return
    summary(run)
    if members or tags:
        (show_members if members else show_spread)(run)
        return
    names = run.manifest.metrics[:4]
    rows = []
    for result in run.results:
        if result.failed or not failed:
            scores = [number(result.scores.get(name)) for name in names]
            rows.append([result.trace_id, strip(result.outcomes), *scores, _brief(result.trace.query)])
    if rows:
        tell()
        say_table(["trace", "ranks", *names, "query"], rows, right=range(2, 2 + len(names)))


def _brief(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
