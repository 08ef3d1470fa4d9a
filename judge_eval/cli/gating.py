"""The gate of `run` and `compare`: limits, the baseline, the reports for CI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.cli.printing.errors import complain, remark
from judge_eval.errors import ConfigError

if TYPE_CHECKING:
    from judge_eval.comparison.gate import Check, Limit
    from judge_eval.comparison.record import Comparison
    from judge_eval.eval_run import EvalRun
    from judge_eval.runs.folder.run import Run

SUFFIXES = (".json", ".csv", ".md", ".xml")


def place(label: str | None, href: str | None) -> tuple[str | None, str | None]:
    """Take label and address from the CI server where they are not given."""
    from judge_eval.runs.judging.provenance import place_in_ci

    found = place_in_ci(os.environ)
    return label or found[0], href or found[1]


@dataclass
class Gate:
    """The limits a run must keep, and the run it is compared with."""

    limits: list[Limit]
    strict: bool
    baseline: EvalRun | None

    @classmethod
    def of(
        cls,
        fail_under: Sequence[str] | None,
        max_drop: Sequence[str] | None,
        non_inferior: Sequence[str] | None,
        strict: bool,
        *,
        baseline: str | None,
        out: Path,
    ) -> Gate:
        """Read the limits and find the baseline, before anything is paid for.

        Raises:
            ConfigError: A limit cannot be read, or needs a baseline.
            RunError: There is no such run.
        """
        if baseline is None and not (fail_under or max_drop or non_inferior):
            return cls([], strict, None)
        from judge_eval.comparison.gate import read_limits
        from judge_eval.eval_run import EvalRun
        from judge_eval.runs.keeping.finding import find_run

        limits = read_limits(fail_under or (), max_drop or (), non_inferior or ())
        if baseline is None:
            needy = [limit.kind for limit in limits if limit.kind != "fail-under"]
            if needy:
                raise ConfigError(f"--{needy[0]} needs something to compare with; give --baseline RUN")
        found = EvalRun.load(find_run(baseline, out)) if baseline is not None else None
        return cls(limits, strict, found)

    def metrics(self, given: Sequence[str] | None) -> list[str] | None:
        """Add the metrics of the limits to those asked for, so that their needs are checked first."""
        from judge_eval.cli.flags.values import split_metrics
        from judge_eval.evaluator import DEFAULT_METRICS
        from judge_eval.metrics import parse_metric

        if not self.limits:
            return list(given) if given else None
        names = split_metrics(given) or list(DEFAULT_METRICS)
        there = {str(parse_metric(name)) for name in names}
        return [*names, *dict.fromkeys(limit.metric for limit in self.limits if limit.metric not in there)]

    def check(self, done: EvalRun, output: Path | None, *, quiet: bool = False) -> bool:
        """Compare, check, tell, write the report; return whether all limits were kept."""
        if not self.limits and self.baseline is None and output is None:
            return True
        from judge_eval.cli.printing.comparison import show_comparison
        from judge_eval.comparison.compare import compare
        from judge_eval.comparison.gate import check_drops, check_under
        from judge_eval.export import text as export
        from judge_eval.runs.scoring.rescore import rescore

        wanted = tuple(dict.fromkeys([*done.manifest.metrics, *(limit.metric for limit in self.limits)]))
        scored = done if wanted == done.manifest.metrics else rescore(done, wanted)
        found: Comparison | None = None
        checks: list[Check] = check_under(scored, self.limits)
        if self.baseline is not None:
            found = compare(self.baseline, scored, metrics=wanted)
            checks += check_drops(found, self.limits, strict=self.strict)
            if not quiet:
                print()
                show_comparison(found)
        tell(checks, quiet=quiet)
        if output is not None:
            if output.suffix.lower() in (".md", ".xml"):
                write_report(output, scored, found, checks)
            else:
                export.write(done, output)
        return all(check.passed for check in checks)


def tell(checks: Sequence[Check], *, quiet: bool = False) -> None:
    """Say of each limit whether it was kept, by how much it was missed, and which traces moved most."""
    for check in checks:
        if check.passed:
            if not quiet:
                remark(f"gate passed: {check.kind} {check.sentence}")
            continue
        complain(f"gate failed: {check.kind} {check.sentence}")
        for m in check.movers:
            remark(f"  {m.trace_id}: {m.differences[check.metric]:+.4f} ({m.before} to {m.after}) {m.query}")


def write_report(output: Path, run: Run | None, found: Comparison | None, checks: Sequence[Check]) -> None:
    """Write the report for CI: Markdown for a pull request, or JUnit XML.

    Raises:
        ConfigError: The file cannot be written.
    """
    from judge_eval.export import text as export
    from judge_eval.export.junit import junit
    from judge_eval.export.pull_request import pull_request_comment

    text = junit(checks) if output.suffix.lower() == ".xml" else pull_request_comment(run, found, checks)
    export.write_text(output, text)
