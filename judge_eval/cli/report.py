"""`report`: a run, or two side by side, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags.calling import CachingFlags
from judge_eval.cli.flags.common import output_flag
from judge_eval.cli.flags.keeping import OneRun
from judge_eval.cli.printing.door import tell
from judge_eval.cli.printing.errors import verb


@verb
def report(
    chosen: OneRun,
    caching: CachingFlags,
    other: Annotated[
        str | None, typer.Argument(help="A second run: the file compares it (B) with the first (A).")
    ] = None,
    output: Annotated[Path, output_flag("The file to write.")] = Path("report.html"),
    baseline: Annotated[
        str | None, typer.Option(help="A run whose differences the report of RUN shows.")
    ] = None,
    most: Annotated[
        int, typer.Option(help="The most traces to hold in full, those first that need a look.")
    ] = 10_000,
) -> None:
    """Write a report for people: one HTML file that works offline and calls nobody.

    All figures are of all traces; of a run with more than --most, the file says how many are left out.

    Examples:
    judge-eval report latest -o report.html
    judge-eval report latest --baseline label:main
    judge-eval report label:main latest -o compare.html
    """
    from judge_eval.errors import ConfigError
    from judge_eval.pages.report import compare_report, run_report, save_page, store_at

    if other is not None and baseline is not None:
        raise ConfigError("`report A B` compares B with A; leave --baseline out, or name one run only")
    first = chosen.loaded()
    if other is not None:
        text = compare_report(first, chosen.load(other), most=most)
    else:
        before = None if baseline is None else chosen.load(baseline)
        store = None if caching.no_cache else store_at(caching.location)
        try:
            text = run_report(first, before, store=store, most=most)
        finally:
            close = getattr(store, "close", None)
            if close is not None:
                close()
    save_page(text, output)
    of = "" if len(first.results) <= most else f", {most:,} of {len(first.results):,} traces in full"
    tell(f"{output}: {len(text.encode()) / 1e6:.1f} MB{of}")
