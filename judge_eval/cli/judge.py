"""`judge`: one trace from the command line, its verdicts shown."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from judge_eval.cli.exit_codes import INCOMPLETE, OK, verb
from judge_eval.cli.flags.common import Json, NumbersFlags
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import CallingFlags, JudgingFlags
from judge_eval.cli.printing.output import print_record
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError, DataError
from judge_eval.files import read_named
from judge_eval.settings import setting


@verb
def judge(
    judging: Annotated[
        JudgingFlags,
        only(
            *("model", "prompt", "mode", "member", "repeat", "vote", "judge"),
            *("cascade", "strong_model", "cascade_threshold"),
        ),
    ],
    numbers: Annotated[NumbersFlags, only("metrics", "relevant")],
    calling: Annotated[CallingFlags, only("cache", "offline", "fleet", "params", "unsupported", "timeout")],
    file: Annotated[
        str | None, typer.Argument(help="A JSON file with one trace; - reads it from standard input.", metavar="FILE")
    ] = None,
    query: str | None = setting(None, "The question."),
    reference: str | None = setting(None, "The reference answer."),
    answer: str | None = setting(None, "The generated answer."),
    chunk: list[str] | None = setting(None, "A retrieved chunk; repeat in rank order.", flags=("--chunk", "-c")),
    json_: Json = False,
) -> int:
    """Judge one trace and show every verdict, the quoted evidence marked.

    Examples:
    judge-eval judge trace.json --model openai/NAME
    head -1 traces.jsonl | judge-eval judge - --model openai/NAME
    judge-eval judge --model fake/overlap --query "Which tomatoes?" --reference "San Marzano tomatoes."
    -c "The oven is hot." -c "The sauce is made of San Marzano tomatoes."
    """
    from judge_eval.schema import Trace
    from judge_eval.views.trace import trace_view

    parts = (query, reference, answer, chunk)
    if file is not None:
        if any(part is not None for part in parts):
            raise ConfigError("give the trace once: a FILE, or --query with --reference and --chunk")
        name = "standard input" if file == "-" else file
        parsed = Trace.parse(_read(file, name), file=name)
    elif query is None:
        raise typer.BadParameter("give a FILE with a trace (- reads standard input), or --query with --chunk")
    elif not chunk:
        raise typer.BadParameter("--query needs --chunk: a retrieved text, once for each")
    else:
        parsed = Trace.parse({"query": query, "reference": reference, "answer": answer, "chunks": chunk})
    with judging.evaluator(calling, numbers) as evaluator:
        done = evaluator.evaluate(parsed, reader=ReadOptions(yes_ids=True))
    (result,) = done.results
    print_record(result, json_, trace_view)
    return INCOMPLETE if result.judgment.open else OK


def _read(source: str, name: str) -> Any:
    from judge_eval.foreign import RepeatedKeyError, single_keys
    from judge_eval.record import TOO_DEEP

    try:
        text = (sys.stdin.buffer.read() if source == "-" else read_named(Path(source))).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=name) from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason} at byte {error.start}", file=name) from None
    if not text.strip():
        raise DataError("it is empty; one trace is a JSON object with `query` and `chunks`", file=name)
    try:
        read = json.loads(text, object_pairs_hook=single_keys)
    except RecursionError:
        raise DataError(TOO_DEEP, file=name) from None
    except RepeatedKeyError as error:
        raise DataError(str(error), file=name) from None
    except ValueError as error:
        if str(error).startswith("Extra data"):
            raise _several(name) from None
        raise DataError(f"not JSON: {error}", file=name) from None
    if isinstance(read, list):
        if len(read) != 1:
            raise _several(name)
        return read[0]
    return read


def _several(name: str) -> Exception:

    return DataError("it holds more than one trace; `judge-eval run` judges them all", file=name)
