"""What people read of a gate, on the terminal and in the reports for CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.cli.printing.door import complain, remark, tell

if TYPE_CHECKING:
    from judge_eval.compare.options import Gates
    from judge_eval.compare.record import Check, Comparison
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.folder.run import Run

SUFFIXES = (".json", ".csv", ".md", ".xml")


@dataclass(frozen=True, slots=True)
class RunGate:
    """The limits a run must keep, and the run it is compared with."""

    gates: Gates
    baseline: EvalRun | None

    def __post_init__(self) -> None:
        if self.gates.has_limits:
            from judge_eval.compare.gate import check_gates, gate_limits

            check_gates((), self.gates) if self.baseline is None else gate_limits(self.gates)

    def metrics(self, chosen: Sequence[str]) -> list[str]:
        """Add the metrics of the limits to those asked for, so that their needs are checked first."""
        if not self.gates.has_limits:
            return list(chosen)
        from judge_eval.compare.gate import gate_limits
        from judge_eval.evaluator import DEFAULT_METRICS
        from judge_eval.metrics import parse_metric

        names = chosen or DEFAULT_METRICS
        there = {str(parse_metric(name)) for name in names}
        return [*names, *dict.fromkeys(limit.metric for limit in gate_limits(self.gates) if limit.metric not in there)]

    def check(self, done: EvalRun, output: Sequence[Path] = (), *, quiet: bool = False) -> bool:
        """Compare, check, print, write the report; return whether all limits were kept."""
        if not self.gates.has_limits and self.baseline is None and not output:
            return True
        from judge_eval.cli.printing.output import show_comparison
        from judge_eval.compare.compare import compare
        from judge_eval.compare.gate import check_gates, gate_limits
        from judge_eval.export import text as export
        from judge_eval.runs.scoring.rescore import rescore

        limits = gate_limits(self.gates)
        wanted = tuple(dict.fromkeys([*done.manifest.metrics, *(limit.metric for limit in limits)]))
        scored = done if wanted == done.manifest.metrics else rescore(done, wanted)
        comparison = (
            None
            if self.baseline is None
            else compare(self.baseline, scored, metrics=wanted, by=done.manifest.intervals.by)
        )
        checks = check_gates([scored], self.gates, comparison)
        if comparison is not None and not quiet:
            tell()
            show_comparison(comparison)
        show_checks(checks, quiet=quiet)
        for path in output:
            if path.suffix.lower() in (".md", ".xml"):
                write_ci_report(path, scored, comparison, checks)
            else:
                export.write(done, path)
        return all(check.passed for check in checks)


def show_checks(checks: Sequence[Check], *, quiet: bool = False) -> None:
    """Say of each limit whether it was kept, and which traces moved most; `quiet` leaves out what passed."""
    from judge_eval.views.comparison import check_lines

    for check in checks:
        line, *movers = check_lines(check)
        if not check.passed:
            complain(f"gate {line}")
        elif not quiet or check.outcome == "undecided":
            remark(f"gate {line}")
        for mover in movers:
            remark(f"  {mover}")


def write_ci_report(output: Path, run: Run | None, comparison: Comparison | None, checks: Sequence[Check]) -> None:
    """Write the report for CI: Markdown for a pull request, or JUnit XML."""
    from judge_eval.export import text as export
    from judge_eval.export.junit import junit
    from judge_eval.export.pull_request import pull_request_comment
    from judge_eval.views.run import remarks_of

    if output.suffix.lower() == ".xml":
        text = junit(checks, [] if run is None else remarks_of(run.manifest))
    else:
        text = pull_request_comment(run, comparison, checks)
    export.write_text(output, text)
