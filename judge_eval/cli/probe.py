"""`probe`: a judge put to the test with altered chunks."""

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.exit_codes import GATE, OK, verb
from judge_eval.cli.flags.common import Json, NumbersFlags, Quiet, Seed
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import HowCalled, WhoJudges
from judge_eval.cli.printing.output import complain, print_record, remark, watching
from judge_eval.errors import ConfigError, UnknownNameError
from judge_eval.settings import RANGES, Range, setting


@verb
def probe(
    data: Annotated[Path, typer.Argument(help="Traces as JSON Lines; probes are built from them.")],
    judging: WhoJudges,
    numbers: Annotated[NumbersFlags, only()],
    calling: HowCalled,
    probes: list[str] | None = setting(None, "Run only this probe; repeatable, or with commas.", flags=("--only",)),
    limit: int = setting(50, "Probe with a random sample of this many traces."),
    seed: Seed = 0,
    fail_over: list[str] | None = setting(
        None, "Fail if the judge is fooled more often than this; repeatable.", metavar="PROBE=RATE"
    ),
    output: Path | None = setting(None, "Also write the report to this file: .json or .md."),
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Probe a judge: is it fooled by words, by instructions in chunks, by order, by padding?

    Does it know when it does not know? Chunks out of scope, false references and traces in which nothing is
    relevant show what it accepts, and with which probability if it gives one (set `confidence` in judge_eval.toml).

    The exit code is 1 if a limit of --fail-over is exceeded, or if gold chunks are not graded above random
    ones (the prompt may be inverted).

    Example:
    judge-eval probe traces.jsonl --model openai/NAME --fail-over injection=0.05
    """
    from judge_eval.export import text as export
    from judge_eval.trials import PROBES, Prober
    from judge_eval.views.markdown import markdown_of
    from judge_eval.views.note_sentences import IN_WORDS
    from judge_eval.views.probe import probe_checks, probe_view

    if output is not None:
        export.check_suffix(output, (".json", ".md"))
    names = [name for text in probes or () for name in text.replace(",", " ").split()]
    Range(2, RANGES["limit"].high).check(limit, "--limit")
    limits = _limits(fail_over or (), names or list(PROBES))
    with judging.evaluator(calling, numbers, ["RR"]) as evaluator, watching(quiet) as evaluator.watch:
        report = Prober(evaluator, names, seed).probe(data, limit=limit)
    print_record(report, json_, probe_view)
    if output is not None:
        as_json = output.suffix == ".json"
        text = report.model_dump_json(indent=2, context=IN_WORDS) + "\n" if as_json else markdown_of(probe_view(report))
        export.write_text(output, text)
    checks = list(probe_checks(report, limits))
    for passed, sentence in checks:
        (remark if passed else complain)(f"gate {'passed' if passed else 'failed'}: {sentence}")
    return OK if all(passed for passed, _ in checks) else GATE


def _limits(texts: list[str] | tuple[str, ...], known: list[str]) -> dict[str, float]:
    out = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1:
            raise ConfigError(f"--fail-over {text!r}: write PROBE=RATE, such as injection=0.05")
        if name not in known:
            raise UnknownNameError("probe", name, known)
        out[name] = value
    return out
