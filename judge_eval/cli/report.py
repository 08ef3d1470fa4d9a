"""`report`: a run, or several side by side, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags.calling import CachingFlags
from judge_eval.cli.flags.common import output_flag
from judge_eval.cli.flags.keeping import OneRun
from judge_eval.cli.printing.door import remark, tell
from judge_eval.cli.printing.errors import verb

if TYPE_CHECKING:
    from judge_eval.eval_run import EvalRun


@verb
def report(
    chosen: OneRun,
    caching: CachingFlags,
    other: Annotated[
        list[str] | None,
        typer.Argument(
            help="More runs: a second one (B) is compared with the first (A); three to eight stand side by "
            "side, a row a trace and a column a run.",
        ),
    ] = None,
    output: Annotated[Path, output_flag("The file to write.")] = Path("report.html"),
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Show the differences of RUN from this run; where not given, from the one RUN was judged "
            "with as --baseline, if it is there. none shows no differences."
        ),
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
    judge-eval report label:main label:a label:b -o matrix.html
    """
    from judge_eval.errors import ConfigError
    from judge_eval.pages.report import compare_report, matrix_report, run_report, save_page, store_at

    if other and baseline is not None:
        raise ConfigError("`report A B` compares B with A; leave --baseline out, or name one run only")
    first = chosen.loaded(remark)
    if other:
        others = [chosen.load(name, remark) for name in other]
        text = (
            compare_report(first, others[0], most=most)
            if len(others) == 1
            else matrix_report([first, *others], most=most)
        )
    else:
        before = _baseline(chosen, first, baseline)
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


def _baseline(chosen: OneRun, run: EvalRun, given: str | None) -> EvalRun | None:
    """Load the baseline that was named, else the one that the run remembers, where it is there."""
    from judge_eval.errors import RunError

    remembered = run.manifest.baseline
    if given == "none" or (given is None and remembered is None):
        return None
    if given is not None:
        return chosen.load(given)
    try:
        return chosen.load(str(remembered))
    except RunError:
        remark(f"the run was judged with the baseline {str(remembered)[:8]}, which is not here (--baseline)")
        return None
