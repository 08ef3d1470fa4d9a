"""`judge`: one trace from the command line, its verdicts shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from judge_eval.cli.flags import options as o
from judge_eval.cli.printing.errors import INCOMPLETE, verb


@verb
def judge(
    query: Annotated[str | None, typer.Option("--query", help="The question.")] = None,
    reference: Annotated[str | None, typer.Option(help="The reference answer.")] = None,
    answer: Annotated[str | None, typer.Option(help="The generated answer.")] = None,
    chunk: Annotated[
        list[str] | None, typer.Option("--chunk", "-c", help="A retrieved chunk; repeat in rank order.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="A JSON file with one trace, instead of the above.")
    ] = None,
    model: o.Model = None,
    prompt: o.Prompt = "support/binary",
    mode: o.ModeOption = o.Mode.pointwise,
    judge_name: o.JudgeOption = None,
    metrics: o.Metrics = None,
    relevant: o.Relevant = None,
    cache: o.Cache = None,
    no_cache: o.NoCache = False,
    offline: o.Offline = False,
    base_url: o.BaseUrl = None,
    param: o.Param = None,
    timeout: o.Timeout = 120.0,
    json_: o.Json = False,
) -> None:
    """Judge one trace and show every verdict, the quoted evidence marked.

    Example:
    judge-eval judge --model fake/overlap --query "Which tomatoes?" --reference "San Marzano tomatoes."
    -c "The oven is hot." -c "The sauce is made of San Marzano tomatoes."
    """
    from judge_eval.cli.flags.session import evaluator, make_options
    from judge_eval.cli.printing.output import trace_card
    from judge_eval.schema import Trace

    data: dict[str, Any]
    if trace is not None:
        given = Trace.parse(_read(trace), file=str(trace))
    else:
        data = {"query": query, "reference": reference, "answer": answer, "chunks": chunk or []}
        if query is None:
            raise typer.BadParameter("give --query with --chunk, or --trace FILE")
        given = Trace.parse(data)
    options = make_options(base_url=base_url, param=param, timeout=timeout, offline=offline)
    with evaluator(
        model, prompt, mode, metrics, relevant, cache, no_cache, options, judge_name=judge_name
    ) as made:
        done = made.evaluate(given)
    (result,) = done.results
    if json_:
        print(result.model_dump_json(indent=2))
    else:
        trace_card(result)
    if result.failed:
        raise typer.Exit(INCOMPLETE)


def _read(path: Path) -> Any:
    from judge_eval.errors import DataError

    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
    except ValueError as error:
        raise DataError(f"not JSON: {error}", file=str(path)) from None
