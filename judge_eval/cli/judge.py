"""`judge`: one trace from the command line, its verdicts shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.common import Json
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import JudgingFlags
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import give_json
from judge_eval.cli.printing.errors import INCOMPLETE, verb


@verb
def judge(
    judging: Annotated[JudgingFlags, only("model", "prompt", "mode", "judge")],
    numbers: Annotated[NumbersFlags, only("metrics", "relevant")],
    calling: Annotated[CallingFlags, only("cache", "no_cache", "offline", "base_url", "param", "timeout")],
    query: Annotated[str | None, typer.Option("--query", help="The question.")] = None,
    reference: Annotated[str | None, typer.Option(help="The reference answer.")] = None,
    answer: Annotated[str | None, typer.Option(help="The generated answer.")] = None,
    chunk: Annotated[
        list[str] | None, typer.Option("--chunk", "-c", help="A retrieved chunk; repeat in rank order.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="A JSON file with one trace, instead of the above.")
    ] = None,
    json_: Json = False,
) -> None:
    """Judge one trace and show every verdict, the quoted evidence marked.

    Example:
    judge-eval judge --model fake/overlap --query "Which tomatoes?" --reference "San Marzano tomatoes."
    -c "The oven is hot." -c "The sauce is made of San Marzano tomatoes."
    """
    from judge_eval.cli.printing.output import trace_card
    from judge_eval.schema import Trace

    if trace is not None:
        given = Trace.parse(_read(trace), file=str(trace))
    elif query is None:
        raise typer.BadParameter("give --query with --chunk, or --trace FILE")
    else:
        given = Trace.parse({"query": query, "reference": reference, "answer": answer, "chunks": chunk or []})
    with judging.evaluator(calling, numbers) as evaluator:
        done = evaluator.evaluate(given)
    (result,) = done.results
    if json_:
        give_json(result.model_dump_json(indent=2))
    else:
        trace_card(result)
    if result.failed:
        raise typer.Exit(INCOMPLETE)


def _read(path: Path) -> Any:
    from judge_eval.errors import DataError
    from judge_eval.record import TOO_DEEP

    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
    except RecursionError:
        raise DataError(TOO_DEEP, file=str(path)) from None
    except ValueError as error:
        raise DataError(f"not JSON: {error}", file=str(path)) from None
