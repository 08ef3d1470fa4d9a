"""`report`: a run, or several side by side, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import Floor, NumbersFlags, OneRun
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import CachingFlags
from judge_eval.cli.printing.output import remark, tell
from judge_eval.compare.options import Gates
from judge_eval.errors import ConfigError, RunError
from judge_eval.settings import setting
from judge_eval.spelling import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from judge_eval.compare.comparison import Check
    from judge_eval.eval_run import EvalRun


@verb
def report(
    chosen: OneRun,
    caching: CachingFlags,
    numbers: Annotated[NumbersFlags, only("by")],
    gates: Annotated[Gates, only("fail_under", "max_drop", "non_inferior", "undecided"), without("baseline")],
    other: Annotated[
        list[str] | None,
        typer.Argument(
            help="More runs: a second run (B) is compared with the first (A); three to eight are shown side "
            "by side, one row per trace and one column per run."
        ),
    ] = None,
    output: Path = setting(Path("report.html"), "The file to write."),
    baseline: str | None = setting(
        None,
        "Compare RUN with this run. Default: the baseline that RUN was judged "
        "with (--baseline), if it exists. none: no comparison.",
    ),
    floor: Floor = None,
    max_traces: int = setting(10_000, "How many traces to include in full, those that need attention first."),
    page: str | None = setting(
        None, "The page to write: run, compare, matrix, pool, or a page of an installed package."
    ),
) -> None:
    """Write a report for people: one HTML file that works offline and makes no requests.

    All figures cover all traces. The file says how many traces are left out because of --max-traces.

    Examples:
    judge-eval report latest -o report.html
    judge-eval report latest --baseline label:main --max-drop AP@5=0.03 --by tag
    judge-eval report label:main latest -o compare.html
    judge-eval report label:main label:a label:b --by tag -o matrix.html
    """
    from judge_eval.compare.compare import compare
    from judge_eval.compare.gate import check_gates, gated_metrics
    from judge_eval.pages.page import PageSettings
    from judge_eval.pages.report import page_report, save_page, store_at
    from judge_eval.trials.floor_judge import floor_of

    if other and baseline is not None:
        raise ConfigError("`report A B` compares B with A; leave out --baseline, or name only one run")
    first = chosen.loaded()
    runs = [first, *(chosen.load(name) for name in other or ())]
    if not other and (before := _baseline(chosen.out, first, baseline)) is not None:
        runs.append(before)
    name = page or ("run" if not other else "compare" if len(other) == 1 else "matrix")
    if floor is not None and name != "run":
        raise ConfigError(f"{option('floor', floor)}: a floor stands on the page of one run")
    store = None if (place := caching.used) is None else store_at(place)
    checks: Sequence[Check] = ()
    if gates.has_limits:
        before, *after = runs if other else reversed(runs)
        wanted = gated_metrics(before.manifest.metrics, gates)
        made = compare(before, *after, metrics=wanted, gates=gates) if after else None
        checks = check_gates(after or runs, gates, made)
    try:
        below = None if floor is None else floor_of(floor, runs[0])
        text = page_report(name, runs, PageSettings(store, max_traces, numbers.by, checks, below))
    finally:
        close = getattr(store, "close", None)
        if close is not None:
            close()
    save_page(text, output)
    of = "" if len(first.results) <= max_traces else f", {max_traces:,} of {len(first.results):,} traces in full"
    tell(f"{output}: {len(text.encode()) / 1e6:.1f} MB{of}")


def _baseline(out: Path, run: EvalRun, baseline: str | None) -> EvalRun | None:
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.keeping.lookup import find_run

    name = run.manifest.baseline_id if baseline is None else baseline
    if name is None or baseline == "none":
        return None
    try:
        return EvalRun.load(find_run(name, out))
    except RunError:
        if baseline is not None:
            raise
        remark(f"the run was judged with the baseline {name[:8]}, which is not here (--baseline)")
        return None
