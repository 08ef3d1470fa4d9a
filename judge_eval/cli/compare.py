"""`compare`: runs against a baseline, trace by trace; files of data are judged first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.exit_codes import GATE, INCOMPLETE, OK, close, verb
from judge_eval.cli.flags.common import Json, NumbersFlags, Runs, runs_argument
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import CallingFlags, HowCalled, JudgingFlags, RunningFlags, WhoJudges
from judge_eval.cli.printing.gates import exit_code_of_gate, show_failed, show_passed, write_ci_report
from judge_eval.cli.printing.output import give_json, remark, show_comparison, tell, watching
from judge_eval.compare.options import Gates
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError
from judge_eval.runs.options import Selection
from judge_eval.safe_text import counted
from judge_eval.settings import setting

if TYPE_CHECKING:
    from judge_eval.eval_run import EvalRun

FORMATS = (".json", ".md", ".xml")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparingFlags:
    """How runs are compared."""

    cluster: str | None = setting(None, "The key of metadata that groups traces.", metavar="KEY")
    judge_again: int = setting(
        0,
        "Ask the candidate's judge, named as for `run`, about at most N chunks of the baseline that it never "
        "saw: the split of the first metric becomes narrower.",
        metavar="N",
    )


@verb
def compare(
    runs: Annotated[
        list[str],
        runs_argument(
            "The baseline, then its candidates: a run's folder, its id or the start of it, label:NAME or latest; "
            "or a file of data, which is judged first."
        ),
    ],
    numbers: Annotated[NumbersFlags, only("metrics", "by")],
    keeping: Runs,
    gates: Annotated[Gates, only("fail_under", "max_drop", "non_inferior", "undecided"), without("baseline")],
    judging: WhoJudges,
    calling: HowCalled,
    reading: Annotated[ReadOptions, only("format", "map")],
    running: Annotated[RunningFlags, only()],
    comparing: ComparingFlags,
    output: list[Path] | None = setting(
        None, "Write the comparison here: .json, .md (pull request), .xml. Repeatable."
    ),
    json_: Json = False,
) -> int:
    """Compare runs on the traces they have in common. Files of data are judged first, by the same judge.

    The run of a file is kept under the file's name. Runs are compared without a call, except with --judge-again.

    Examples:
    judge-eval compare before.jsonl after.jsonl --model openai/NAME
    judge-eval compare label:main latest --max-drop AP@5=0.03 -o report.md
    judge-eval compare label:main latest --judge-again 200 --model openai/NAME
    """
    from judge_eval.compare.compare import compare as compare_runs
    from judge_eval.compare.gate import check_gates, gated_metrics
    from judge_eval.data.collection import SUFFIXES
    from judge_eval.evaluator import DEFAULT_METRICS
    from judge_eval.export import text as export
    from judge_eval.runs.folder.records import Tally
    from judge_eval.trials.drift import ask_again
    from judge_eval.views.comparison import comparison_json

    export.prepare(output or (), FORMATS)
    if len(runs) < 2:
        raise typer.BadParameter("name two runs or more; the first is the baseline")
    files = [name for name in runs if Path(name).is_file()]
    if absent := [name for name in runs if Path(name).suffix in SUFFIXES and not Path(name).exists()]:
        raise ConfigError(f"{absent[0]}: no such file")
    loaded = {name: keeping.load(name) for name in runs if name not in files}
    if files:
        first = loaded.get(runs[0])
        metrics = gated_metrics(numbers.names or (DEFAULT_METRICS if first is None else first.manifest.metrics), gates)
        reader = replace(reading, relevant=numbers.relevant)
        loaded |= _judged(runs, loaded, metrics, numbers, keeping, judging, calling, reader, quiet=json_)
    baseline, *candidates = (loaded[name] for name in runs)
    wanted = gated_metrics(numbers.names or baseline.manifest.metrics, gates)
    again = None
    if comparing.judge_again:
        with judging.evaluator(calling, numbers, ["P@5"]) as evaluator, watching(json_) as evaluator.watch:
            again = ask_again(evaluator, baseline, candidates[0], wanted[0], comparing.judge_again)
        asked = again.manifest.tally if again is not None else Tally()
        chunks = counted(asked.verdicts + asked.failed_verdicts, "chunk")
        failed = f", {asked.failed_verdicts:,} without a verdict" if asked.failed_verdicts else ""
        remark(f"asked the candidate's judge about {chunks} of the baseline{failed}")
    comparison = compare_runs(
        baseline, *candidates, metrics=wanted, cluster=comparing.cluster, again=again, by=numbers.by, gates=gates
    )
    checks = check_gates(candidates, gates, comparison)
    comparison = comparison.model_copy(update={"checks": tuple(checks)})
    fault = running.show_fault(*(loaded[name] for name in files))
    show_failed(checks)
    if json_:
        give_json(comparison_json(comparison))
    else:
        show_comparison(comparison)
    show_passed(checks, quiet=json_)
    for path in output or ():
        with exit_code_of_gate(checks):
            if path.suffix.lower() == ".json":
                export.write_text(path, comparison_json(comparison) + "\n")
            else:
                write_ci_report(path, None, comparison, checks, fault)
    if not all(check.passed for check in checks):
        return GATE
    return OK if fault is None else INCOMPLETE


def _judged(
    runs: Sequence[str],
    known: dict[str, EvalRun],
    metrics: Sequence[str],
    numbers: NumbersFlags,
    keeping: Runs,
    judging: JudgingFlags,
    calling: CallingFlags,
    reader: ReadOptions,
    *,
    quiet: bool,
) -> dict[str, EvalRun]:
    """Judge files of data, each as a run labelled by its name, after all of them were read."""
    from judge_eval.views.run_remarks import took

    files = [name for name in dict.fromkeys(runs) if name not in known]
    if not judging.is_named:
        raise ConfigError(f"{files[0]} is a file of data, not a run; name who judges it, such as --model openai/NAME")
    stems = [Path(name).stem for name in files]
    made: dict[str, EvalRun] = {}
    with judging.evaluator(calling, numbers, metrics) as evaluator:
        selected = {name: Selection(name=name, reader=reader) for name in files}
        questions = {name: {result.trace.query for result in run.results} for name, run in known.items()}
        for name, selection in selected.items():
            source = evaluator.source(Path(name), selection)
            assert source is not None
            source.survey()
            questions[name] = {trace.query for _, trace in source.numbered()}
        for name in runs[1:]:
            if questions[name].isdisjoint(questions[runs[0]]):
                raise ConfigError(f"{runs[0]} and {name} have no question in common; nothing was judged")
        for name, stem in zip(files, stems, strict=True):
            label = stem if stems.count(stem) == 1 else name
            with keeping.written(), watching(quiet) as watch:
                done = evaluator.evaluate(
                    Path(name), watch=watch, out=keeping.out, label=label, **selected[name].keywords()
                )
            made[name] = done
            if not quiet:
                tell(f"{name}: {took(done.manifest.tally)}, in {done.folder}")
        close(evaluator)
    return made
