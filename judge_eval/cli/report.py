"""`report`: a run, or two side by side, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import verb

_RUN = "A run's folder, its id or the start of it, label:NAME or latest."


@verb
def report(
    run: Annotated[str, typer.Argument(help=_RUN)],
    other: Annotated[
        str | None, typer.Argument(help="A second run: the file compares it (B) with the first (A).")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
    baseline: Annotated[
        str | None, typer.Option(help="A run whose differences the report of RUN shows.")
    ] = None,
    most: Annotated[
        int,
        typer.Option(min=1, help="The most traces to hold in full, those first that need a look."),
    ] = 10_000,
    out: o.Out = Path("runs"),
    cache: o.Cache = None,
    no_cache: o.NoCache = False,
) -> None:
    """Write a report for people: one HTML file that works offline and calls nobody.

    All figures are of all traces; of a run with more than --most, the file says how many are left out.

    Examples:
    judge-eval report latest -o report.html
    judge-eval report latest --baseline label:main
    judge-eval report label:main latest -o compare.html
    """
    from judge_eval.errors import ConfigError
    from judge_eval.eval_run import EvalRun
    from judge_eval.evaluator import default_cache
    from judge_eval.pages.report import compare_report, run_report, save_page, store_at
    from judge_eval.runs.keeping.finding import find_run

    if other is not None and baseline is not None:
        raise ConfigError("`report A B` compares B with A; leave --baseline out, or name one run only")
    first = EvalRun.load(find_run(run, out))
    if other is not None:
        text = compare_report(first, EvalRun.load(find_run(other, out)), most=most)
    else:
        before = None if baseline is None else EvalRun.load(find_run(baseline, out))
        store = None if no_cache else store_at(cache or default_cache())
        try:
            text = run_report(first, before, store=store, most=most)
        finally:
            close = getattr(store, "close", None)
            if close is not None:
                close()
    save_page(text, output)
    of = "" if len(first.results) <= most else f", {most:,} of {len(first.results):,} traces in full"
    print(f"{output}: {len(text.encode()) / 1e6:.1f} MB{of}")
