"""`probe`: a judge put to the test with altered chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.cascades import CASCADE_FIELDS
from judge_eval.cli.flags.common import Json, Seed, output_flag
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import JudgingFlags
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import BAD, GOOD, complain, give_json, remark
from judge_eval.cli.printing.errors import GATE, verb
from judge_eval.errors import ConfigError, UnknownNameError
from judge_eval.ranges import RANGES, Range

if TYPE_CHECKING:
    from judge_eval.probes.findings import ProbeReport, ProbeResult


@verb
def probe(
    data: Annotated[Path, typer.Argument(help="Traces as JSON Lines; probes are built from them.")],
    judging: Annotated[
        JudgingFlags, only("model", "prompt", "mode", "evidence", "confidence", *CASCADE_FIELDS)
    ],
    numbers: Annotated[NumbersFlags, only("relevant")],
    calling: Annotated[
        CallingFlags, without("base_urls", "attempts", "record", "replay", "lead", "hedge", "otel")
    ],
    probes: Annotated[
        list[str] | None, typer.Option("--only", help="Probe by this alone; repeatable, or with commas.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Probe with a random choice of this many traces.")] = 50,
    seed: Seed = 0,
    fail_over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROBE=RATE", help="Fail where the judge is fooled more often than this; repeatable."
        ),
    ] = None,
    output: Annotated[Path | None, output_flag("Write the report here too: .json.")] = None,
    json_: Json = False,
) -> None:
    """Probe a judge: is it fooled by words, by instructions in chunks, by order, by padding?

    Does it know when it does not know? Chunks out of scope, false references and traces in which nothing is
    relevant tell what it accepts, and at what probability where it gives one (--confidence asks for them).

    Exits with 1 where a limit of --fail-over is exceeded, or where gold chunks are not graded above random
    ones (the prompt may be the wrong way round).

    Example:
    judge-eval probe traces.jsonl --model openai/NAME --fail-over injection=0.05
    """
    from judge_eval.export import text as export
    from judge_eval.probes import PROBES, Prober

    if output is not None:
        export.check_suffix(output, (".json",))
    names = [name for text in probes or () for name in text.replace(",", " ").split()]
    Range(2, RANGES["limit"].high).check(limit, "--limit")
    limits = _limits(fail_over or (), names or list(PROBES))
    with judging.evaluator(calling, numbers, ["RR"]) as evaluator:
        report = Prober(evaluator, names, seed).probe(data, limit=limit)
    if json_:
        give_json(report.model_dump_json(indent=2))
    else:
        _show(report)
    if output is not None:
        export.write_text(output, report.model_dump_json(indent=2) + "\n")
    if not _gate(report, limits):
        raise typer.Exit(GATE)


def _limits(given: list[str] | tuple[str, ...], known: list[str]) -> dict[str, float]:
    out = {}
    for text in given:
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


def _gate(report: ProbeReport, limits: dict[str, float]) -> bool:
    passed = True
    for name, limit in limits.items():
        result = next((r for r in report.results if r.probe == name), None)
        rate = result.rate.value if result is not None else None
        if result is None or rate is None:
            complain(f"gate failed: {name} brought no verdict, so nothing shows that it is within {limit:g}")
            passed = False
            continue
        sentence = f"{name} fooled the judge in {rate:.4f} of {result.n} traces"
        if rate > limit:
            complain(f"gate failed: {sentence}, over {limit:g}")
            passed = False
        else:
            remark(f"gate passed: {sentence}, within {limit:g}")
    if report.separates is False:
        complain("gate failed: the polarity canary: gold chunks are not graded above random ones")
        passed = False
    return passed


def _show(report: ProbeReport) -> None:
    from rich.text import Text

    from judge_eval.cli.printing.output import figure, say, say_table

    say(f"{report.judge}: probed with {report.traces} traces, {report.calls} calls")
    say()
    rows: list[list[str | Text]] = []
    for r in report.results:
        flips = "" if r.flip_rate is None else figure(r.flip_rate)
        fooled = Text(f"{r.fooled} of {r.n}", style=BAD if r.fooled else GOOD if r.n else "")
        rows.append([r.probe, fooled, figure(r.rate), flips, r.text])
    say_table(["probe", "fooled", "rate [95% interval]", "flips", "what was put to the judge"], rows)
    say()
    if report.separation is not None and report.gold_rate is not None and report.random_rate is not None:
        say(
            f"gold chunks relevant: {figure(report.gold_rate)}; random chunks: {figure(report.random_rate)}; "
            f"separation {figure(report.separation)}"
        )
    for r in report.results:
        if r.variants:
            counts = ", ".join(f"{name} {fooled} of {n}" for name, (fooled, n) in r.variants.items())
            say(f"{r.probe}: {counts}{_noticed(r)}")
        for line in _sureness(r):
            say(f"{r.probe}: {line}")
        for example in r.examples:
            head = f"  {r.probe} {example.variant} {example.trace_id}: {example.text[:120]}"
            say(head, "dim")
    irrelevant = [r for r in report.results if r.chunks and r.probe != "empty"]  # nobody is asked of a blank
    if irrelevant and not any(r.assurance for r in irrelevant):
        say("the judge told no probabilities: how sure it was of what it accepted is not known")
    for warning in report.warnings:
        say(f"warning: {warning}", BAD)


def _noticed(result: ProbeResult) -> str:
    """Say of injections in how many cases the judge reported one, or that it cannot."""
    if result.noticed is not None:
        return f"; noticed in {result.noticed} of {result.noticing}"
    return "" if result.noticing is None else "; whether one was noticed cannot be told: decision model"


def _sureness(result: ProbeResult) -> Iterator[str]:
    """Yield what is said of accepted chunks, then of probabilities: a line each."""
    from judge_eval.cli.printing.output import figure

    if result.chunks is not None and result.chunks > result.n:
        yield f"{result.false_positives} of {result.chunks} chunks accepted"
    if result.rejected_before:
        yield f"{result.rejected_before} chunks rejected under the true reference show nothing"
    if (sure := result.assurance) is not None:
        told = f" ({sure.untold} without one)" if sure.untold else ""
        accepted = "" if sure.accepted_mean is None else f" at {sure.accepted_mean:.4f} on average"
        yield (
            f"probability of being relevant {figure(sure.mean)} on average of {sure.n} chunks{told}, 90% of "
            f"them at {sure.p90:.4f} or less, highest {sure.highest:.4f}; accepted {sure.accepted}"
            f"{accepted}, {sure.accepted_sure} of them at 0.9 or more"
        )
    if result.shift is not None:
        yield f"the probability moves by {figure(result.shift)} on average of {result.shift.n} chunks"
