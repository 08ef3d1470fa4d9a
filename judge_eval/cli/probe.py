"""`probe`: a judge put to the test with altered chunks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import GATE, complain, remark, verb
from judge_eval.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from judge_eval.probes.findings import ProbeReport


@verb
def probe(
    data: Annotated[Path, typer.Argument(help="Traces as JSON Lines; probes are built from them.")],
    model: o.Model = None,
    prompt: o.Prompt = "support/binary",
    mode: o.ModeOption = o.Mode.pointwise,
    relevant: o.Relevant = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Probe by this alone; repeatable, or with commas.")
    ] = None,
    limit: Annotated[int, typer.Option(min=2, help="Probe with a random choice of so many traces.")] = 50,
    seed: o.Seed = 0,
    fail_over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROBE=RATE", help="Fail where the judge is fooled more often than this; repeatable."
        ),
    ] = None,
    cache: o.Cache = None,
    no_cache: o.NoCache = False,
    offline: o.Offline = False,
    base_url: o.BaseUrl = None,
    param: o.Param = None,
    concurrency: o.Concurrency = 256,
    timeout: o.Timeout = 120.0,
    rpm: o.Rpm = None,
    tpm: o.Tpm = None,
    max_calls: o.MaxCalls = None,
    max_tokens: o.MaxTokens = None,
    max_cost: o.MaxCost = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the report here too: .json.")
    ] = None,
    json_: o.Json = False,
) -> None:
    """Probe a judge: is it fooled by words, by instructions in chunks, by order, by padding?

    Exits with 1 where a limit of --fail-over is exceeded, or where gold chunks are not graded above random
    ones (the prompt may be the wrong way round).

    Example:
    judge-eval probe traces.jsonl --model openai/NAME --fail-over injection=0.05
    """
    from judge_eval.cli.flags.session import evaluator, make_options
    from judge_eval.export import text as export
    from judge_eval.probes import PROBES, Prober

    if output is not None:
        export.check_suffix(output, (".json",))
    names = [name for text in only or () for name in text.replace(",", " ").split()]
    limits = _limits(fail_over or (), names or list(PROBES))
    options = make_options(
        base_url=base_url,
        param=param,
        timeout=timeout,
        concurrency=concurrency,
        rpm=rpm,
        tpm=tpm,
        max_calls=max_calls,
        max_tokens=max_tokens,
        max_cost=max_cost,
        offline=offline,
    )
    with evaluator(model, prompt, mode, ["RR"], relevant, cache, no_cache, options) as made:
        report = Prober(made, names, seed).probe(data, limit=limit)
    if json_:
        print(report.model_dump_json(indent=2))
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
        found = next((r for r in report.results if r.probe == name), None)
        rate = found.rate.value if found is not None else None
        if found is None or rate is None:
            complain(f"gate failed: {name} brought no verdict, so nothing shows that it is within {limit:g}")
            passed = False
        elif rate > limit:
            complain(
                f"gate failed: {name} fooled the judge in {rate:.4f} of {found.n} traces, over {limit:g}"
            )
            passed = False
        else:
            remark(
                f"gate passed: {name} fooled the judge in {rate:.4f} of {found.n} traces, within {limit:g}"
            )
    if report.separates is False:
        complain("gate failed: the polarity canary: gold chunks are not graded above random ones")
        passed = False
    return passed


def _show(report: ProbeReport) -> None:
    from rich.text import Text

    from judge_eval.cli.printing.figures import figure
    from judge_eval.cli.printing.output import console, table
    from judge_eval.runs.folder.wording import printable

    out = console()
    out.print(Text(printable(f"{report.judge}: probed with {report.traces} traces, {report.calls} calls")))
    out.print()
    rows = []
    for r in report.results:
        flips = "" if r.flip_rate is None else figure(r.flip_rate)
        rows.append([r.probe, f"{r.fooled} of {r.n}", figure(r.rate), flips, r.text])
    out.print(table(["probe", "fooled", "rate [95% interval]", "flips", "what was put to the judge"], rows))
    out.print()
    if report.separation is not None and report.gold_rate is not None and report.random_rate is not None:
        out.print(
            f"gold chunks relevant: {figure(report.gold_rate)}; random chunks: {figure(report.random_rate)}; "
            f"separation {figure(report.separation)}"
        )
    for r in report.results:
        if r.variants:
            told = ", ".join(f"{name} {fooled} of {n}" for name, (fooled, n) in r.variants.items())
            seen = "" if r.noticed is None else f"; noticed in {r.noticed} of {r.n}"
            out.print(f"{r.probe}: {told}{seen}")
        for example in r.examples:
            head = f"  {r.probe} {example.variant} {example.trace_id}: {example.text[:120]}"
            out.print(Text(printable(head), style="dim"))
    for warning in report.warnings:
        out.print(Text(printable(f"warning: {warning}"), style="bold red"))
