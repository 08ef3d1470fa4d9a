"""What people read of a gate, on the terminal and in the reports for CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.cli.printing.door import complain, remark, tell
from judge_eval.errors import ConfigError

if TYPE_CHECKING:
    from judge_eval.comparison.findings import Check
    from judge_eval.comparison.gate import Limit, OnUndecided
    from judge_eval.comparison.record import Comparison
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.folder.run import Run

SUFFIXES = (".json", ".csv", ".md", ".xml")


@dataclass(frozen=True, slots=True)
class RunGate:
    """The limits a run must keep, and the run it is compared with.

    Raises:
        ConfigError: A limit needs a baseline.
    """

    limits: Sequence[Limit]
    strict: bool
    on_undecided: OnUndecided | None
    baseline: EvalRun | None

    def __post_init__(self) -> None:
        needy = [limit.kind for limit in self.limits if not limit.of_mean]
        if needy and self.baseline is None:
            raise ConfigError(f"--{needy[0]} needs something to compare with; give --baseline RUN")

    def metrics(self, given: Sequence[str]) -> list[str]:
        """Add the metrics of the limits to those asked for, so that their needs are checked first."""
        if not self.limits:
            return list(given)
        from judge_eval.evaluator import DEFAULT_METRICS
        from judge_eval.metrics import parse_metric

        names = given or DEFAULT_METRICS
        there = {str(parse_metric(name)) for name in names}
        return [*names, *dict.fromkeys(limit.metric for limit in self.limits if limit.metric not in there)]

    def check(self, done: EvalRun, output: Path | None, *, quiet: bool = False) -> bool:
        """Compare, check, print, write the report; return whether all limits were kept."""
        if not self.limits and self.baseline is None and output is None:
            return True
        from judge_eval.cli.printing.comparison import show_comparison
        from judge_eval.comparison.compare import compare
        from judge_eval.comparison.gate import check_drops, check_under
        from judge_eval.export import text as export
        from judge_eval.runs.scoring.rescore import rescore

        wanted = tuple(dict.fromkeys([*done.manifest.metrics, *(limit.metric for limit in self.limits)]))
        scored = done if wanted == done.manifest.metrics else rescore(done, wanted)
        comparison: Comparison | None = None
        undecided = self.on_undecided or ("fail" if self.strict else "pass")
        checks: list[Check] = check_under(scored, self.limits, on_undecided=undecided)
        if self.baseline is not None:
            comparison = compare(self.baseline, scored, metrics=wanted)
            checks += check_drops(comparison, self.limits, strict=self.strict, on_undecided=undecided)
            if not quiet:
                tell()
                show_comparison(comparison)
        show_checks(checks, quiet=quiet)
        if output is not None:
            if output.suffix.lower() in (".md", ".xml"):
                write_ci_report(output, scored, comparison, checks)
            else:
                export.write(done, output)
        return all(check.passed for check in checks)


def show_checks(checks: Sequence[Check], *, quiet: bool = False) -> None:
    """Say of each limit whether it was kept, by how much it was missed, and which traces moved most.

    What is undecided is said whatever it does; `quiet` leaves out what passed.
    """
    for check in checks:
        if check.passed:
            if not quiet or check.outcome == "undecided":
                remark(f"gate {check.outcome}: {check.kind} {check.sentence}")
            continue
        complain(f"gate {check.outcome}: {check.kind} {check.sentence}")
        for m in check.movers:
            remark(f"  {m.trace_id}: {m.differences[check.metric]:+.4f} ({m.before} to {m.after}) {m.query}")


def write_ci_report(
    output: Path, run: Run | None, comparison: Comparison | None, checks: Sequence[Check]
) -> None:
    """Write the report for CI: Markdown for a pull request, or JUnit XML.

    Raises:
        ConfigError: The file cannot be written.
    """
    from judge_eval.export import text as export
    from judge_eval.export.junit import junit
    from judge_eval.export.pull_request import pull_request_comment
    from judge_eval.runs.folder.describing import cascaded

    if output.suffix.lower() == ".xml":
        text = junit(checks, [] if run is None else cascaded(run.manifest))
    else:
        text = pull_request_comment(run, comparison, checks)
    export.write_text(output, text)
