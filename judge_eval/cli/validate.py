"""`validate`: read a dataset and say what is wrong with it."""

from collections import Counter
from dataclasses import replace
from typing import Annotated

from judge_eval.cli.exit_codes import OK, USAGE, verb
from judge_eval.cli.flags.common import NumbersFlags, TracesFile, readable
from judge_eval.cli.flags.groups import is_flagged, only, without
from judge_eval.cli.flags.judging import JudgingFlags
from judge_eval.cli.printing.output import remark, say, tell
from judge_eval.data.options import ReadOptions
from judge_eval.errors import DataError
from judge_eval.runs.options import Selection
from judge_eval.safe_text import counted, one_line, prompt_name
from judge_eval.settings import setting
from judge_eval.views.tones import BAD, GOOD

_ASKS = without("model", "judge", "evidence", "blank", "confidence", "repeat", "vote")
"""Who judges says nothing of the data."""


@verb
def validate(
    data: TracesFile,
    reading: Annotated[ReadOptions, without("depth")],
    judging: Annotated[JudgingFlags, only("prompt", "mode"), _ASKS],
    numbers: Annotated[NumbersFlags, only("metrics", "relevant")],
    most: int = setting(20, "How many errors to print."),
) -> int:
    """Read a dataset without judging it; print file, line and field of every error.

    Every trace must have the fields that a given --prompt or --metrics needs. If none is given, you are
    warned of traces that `run` would refuse with its settings. Misspelt field names are always reported.

    Examples:
    judge-eval validate traces.jsonl
    judge-eval validate traces.csv --metrics map_cut_5 --map reference=gold_answer
    """
    from judge_eval.data.files.jsonl import misspelt
    from judge_eval.evaluator import DEFAULT_METRICS
    from judge_eval.prompts import load_form
    from judge_eval.runs.judging.sources import replayable
    from judge_eval.runs.scoring.scorer import Scorer
    from judge_eval.schema import Trace

    form = load_form(prompt_name(judging.asked))
    scale = form.scale.relevant_from(numbers.relevant)
    scorer = Scorer(numbers.names or DEFAULT_METRICS, scale, by_claims=judging.by_claims)
    strict = {name: is_flagged(name) for name in ("prompt", "metrics")}
    warnings, errors = Counter[str](), 0
    missing: dict[str, tuple[int, str]] = {}

    def lacks(what: str, trace: Trace, fault: DataError) -> None:
        """Raise if the flag was given; else count the traces that a run would refuse."""
        if strict[what]:
            raise fault
        count, first = missing.get(fault.message, (0, trace.id))
        missing[fault.message] = count + 1, first

    def check(trace: Trace) -> None:
        warnings.update(misspelt(trace))
        for need in form.prompt.needs if trace.answerable is not False else ():
            if not (getattr(trace, need) or "").strip():
                fault = f"the prompt {judging.asked} needs the {need}, and this trace has none"
                lacks("prompt", trace, DataError(fault, field=need))
        try:
            scorer.check(trace)
        except DataError as error:
            lacks("metrics", trace, error)

    def show(error: DataError) -> None:
        nonlocal errors
        errors += 1
        if errors <= most:
            say(one_line(str(error)), BAD)

    reader = replace(reading, relevant=numbers.relevant)
    with readable(data) as (path, name):
        source = replayable(path, check, Selection(on_invalid="skip", name=name, reader=reader), scale=scale)
        assert source is not None
        dataset = source.survey(show)
    if errors > most:
        tell(f"... and {errors - most} more")
    for text in dataset.remarks:
        remark(f"note: {text}")
    for text, count in warnings.most_common():
        remark(f"warning: {text} ({counted(count, 'trace')})")
    for message, (count, first) in missing.items():
        traces = "1 trace" if count == 1 else f"{count} traces"
        remark(f"warning: `run` would refuse {traces} (the first is {first!r}): {message}")
    labelled = "" if not dataset.traces else f", digest {dataset.digest[:12]}"
    wrong = errors or not dataset.traces
    text = f"{dataset.traces} valid traces, {dataset.chunks} chunks{labelled}; {errors} invalid"
    say(one_line(text), BAD if wrong else GOOD)
    return USAGE if wrong else OK
