"""What people read of a gate, on the terminal and in the reports for CI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.cli.printing.output import annotation, complain, remark, show_comparison, tell
from judge_eval.errors import ConfigError, JudgeEvalError

if TYPE_CHECKING:
    from judge_eval.compare.comparison import Check, Comparison
    from judge_eval.compare.options import Gates
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.folder.run import Run

SUFFIXES = (".json", ".csv", ".md", ".xml")


@dataclass(slots=True)
class RunGate:
    """The limits a run must keep, the run it is compared with, and what `check` found."""

    gates: Gates
    baseline: EvalRun | None
    scored: EvalRun | None = None
    comparison: Comparison | None = None
    checks: Sequence[Check] = ()
    error: JudgeEvalError | None = None
    """Why the limits cannot be checked, raised by `report`: the run's summary comes first."""

    def __post_init__(self) -> None:
        if self.gates.has_limits:
            from judge_eval.compare.gate import check_gates, gate_limits

            check_gates((), self.gates) if self.baseline is None else gate_limits(self.gates)

    def show_foresight(self, traces: int) -> None:
        """Print which drops the limits will see in so many traces."""
        if self.gates.has_limits and self.baseline is not None:
            from judge_eval.compare.foresight import foresights
            from judge_eval.views.gate_sentences import foresight_sentence

            for foresight in foresights(self.baseline, self.gates, traces):
                tell(foresight_sentence(foresight))

    def metrics(self, chosen: Sequence[str]) -> list[str]:
        """Add the metrics of the limits to those asked for, so that their needs are checked first."""
        if not self.gates.has_limits:
            return list(chosen)
        from judge_eval.compare.gate import gated_metrics
        from judge_eval.evaluator import DEFAULT_METRICS
        from judge_eval.metrics import parse_metric

        return [*gated_metrics([str(parse_metric(name)) for name in chosen or DEFAULT_METRICS], self.gates)]

    def check(self, done: EvalRun) -> None:
        """Compare and check the limits; a gate that failed is printed, as it must be read first."""
        self.scored = done
        if not self.gates.has_limits and self.baseline is None:
            return
        from judge_eval.compare.compare import compare
        from judge_eval.compare.gate import check_gates, gated_metrics
        from judge_eval.runs.scoring.rescore import rescore

        wanted, by = gated_metrics(done.manifest.metrics, self.gates), done.manifest.intervals.by
        try:
            scored = done if wanted == done.manifest.metrics else rescore(done, wanted)
            if self.baseline is not None:
                self.comparison = compare(self.baseline, scored, metrics=wanted, by=by, gates=self.gates)
            self.checks = check_gates([scored], self.gates, self.comparison)
        except JudgeEvalError as error:
            self.error = error
        else:
            self.scored = scored
            show_failed(self.checks)

    def report(
        self, done: EvalRun, output: Sequence[Path] = (), *, fault: str | None = None, quiet: bool = False
    ) -> bool:
        """Print comparison and limits, write the reports; return whether all limits were kept.

        `fault` says why the run is incomplete.
        """
        from judge_eval.export import text as export

        if self.error is not None:
            raise self.error
        if self.comparison is not None and not quiet:
            tell()
            show_comparison(self.comparison)
        show_passed(self.checks, quiet=quiet)
        for path in output:
            with exit_code_of_gate(self.checks):
                if path.suffix.lower() in (".md", ".xml"):
                    write_ci_report(path, self.scored, self.comparison, self.checks, fault)
                else:
                    export.write(done, path)
        return all(check.passed for check in self.checks)


def show_failed(checks: Sequence[Check]) -> None:
    """Print a gate that failed, in the words of the reports: its limits, and the traces that lost most."""
    from judge_eval.views.comparison import check_lines, gate_title

    if all(check.passed for check in checks):
        return
    complain(gate_title(checks))
    for check in checks:
        line, *movers = check_lines(check)
        remark(line)
        _annotate(check)
        for mover in movers:
            remark(f"  {mover}")


def show_passed(checks: Sequence[Check], *, quiet: bool = False) -> None:
    """Print the limits of a gate that passed; `quiet` leaves out those that were kept."""
    if checks and all(check.passed for check in checks):
        from judge_eval.views.comparison import check_lines

        for check in checks:
            if not quiet or check.outcome == "undecided":
                remark(f"gate {check_lines(check)[0]}")
            _annotate(check)


def _annotate(check: Check) -> None:
    """Let GitHub show a limit that failed as an error, and one that is undecided as a warning."""
    from judge_eval.views.gate_sentences import check_sentence

    if os.environ.get("GITHUB_ACTIONS") == "true" and (check.warns or not check.passed):
        annotation("warning" if check.passed else "error", f"{check.outcome}: {check.title}", check_sentence(check))


@contextmanager
def exit_code_of_gate(checks: Sequence[Check]) -> Iterator[None]:
    """Print what cannot be written if a gate failed: that is what the exit code says."""
    try:
        yield
    except ConfigError as error:
        if all(check.passed for check in checks):
            raise
        complain(str(error))


def write_ci_report(
    output: Path, run: Run | None, comparison: Comparison | None, checks: Sequence[Check], fault: str | None = None
) -> None:
    """Write the report for CI: Markdown for a pull request, or JUnit XML; `fault` comes first in it."""
    from judge_eval.export import text as export
    from judge_eval.export.ci_reports import junit, pull_request_comment
    from judge_eval.views.run_remarks import remarks_of

    if output.suffix.lower() == ".xml":
        text = junit(checks, [] if run is None else remarks_of(run.manifest), fault)
    else:
        text = pull_request_comment(run, comparison, checks, fault)
    export.write_text(output, text)
