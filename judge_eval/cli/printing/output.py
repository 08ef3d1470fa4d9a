"""What people read on the terminal: lines, views, the plan and the progress of a run."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from judge_eval.cli.printing.safe_output import SafeOutput, redirect
from judge_eval.safe_text import counted, one_line, printable, without_passwords
from judge_eval.views.tones import BAD, DOUBTFUL, GOOD

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

    from judge_eval.compare.comparison import Comparison
    from judge_eval.evaluator import Evaluator
    from judge_eval.runs.folder.run import Run
    from judge_eval.runs.judging.sources import Traces
    from judge_eval.runs.options import Selecting
    from judge_eval.runs.scoring.counting import Progress
    from judge_eval.trials import PairedPilot, PilotSample
    from judge_eval.views.blocks import Section, View

AnyRecord = TypeVar("AnyRecord", bound="BaseModel")

_ORDER = re.compile(r"#(?=#\w*\[)")
"""What Azure and TeamCity take for a command anywhere in a line."""
_TONES = (
    ("error: ", BAD),
    ("warning: ", DOUBTFUL),
    ("failed: ", BAD),
    ("undecided: ", DOUBTFUL),
    ("passed: ", GOOD),
    ("gate passed", GOOD),
    ("gate undecided", DOUBTFUL),
)
"""The colour of a remark by its first words."""
_CODES = {GOOD: "32", DOUBTFUL: "33", BAD: "1;31"}
_BEYOND_ASCII = re.compile(r"[\x7f-\U0010ffff]")
LINE_EVERY = 30.0
"""Seconds between two lines of progress in a log."""


def coloured(stream: Any) -> bool:
    """Tell whether a stream takes colours: a terminal does, unless NO_COLOR is set or it knows none."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _toned(line: str) -> str:
    for words, tone in _TONES if coloured(sys.stderr) else ():
        if line.startswith(words):
            start = words.rstrip()
            return f"\x1b[{_CODES[tone]}m{start}\x1b[0m{line[len(start) :]}"
    return line


def tell(text: object = "", *, flush: bool = False) -> None:
    """Print a text as one line."""
    print(one_line(str(text)), flush=flush)


def tell_lines(text: str) -> None:
    """Print a text of several lines."""
    print(printable(text))


def give_json(text: str) -> None:
    """Print JSON; control characters, which stand only in strings, become JSON escapes."""
    lines = (line if line.isprintable() else _BEYOND_ASCII.sub(_spell, line) for line in text.split("\n"))
    _pass_on(sys.stdout, _ORDER.sub(r"\\u0023", "\n".join(lines)) + "\n")


def _spell(hit: re.Match[str]) -> str:
    char = hit[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[k : k + 4]}" for k in range(0, len(units), 4))


def _pass_on(stream: Any, text: str) -> None:
    """Write a text that needs no escapes."""
    stream.pass_on(text) if isinstance(stream, SafeOutput) else stream.write(text)


def can_answer() -> bool:
    """Tell whether somebody sees a question and can answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def trusts(host: str, file: str) -> bool:
    """Ask whether a host that only a file names may be called; a yes is kept in the user's configuration."""
    question = f"{file} names the host {host}, which you have not named. Trust it from now on?"
    return typer.confirm(one_line(question), err=True)


def complain(message: str) -> None:
    """Write an error to stderr."""
    remark(f"error: {message}")


def remark(message: str) -> None:
    """Write a warning or a remark to stderr."""
    try:
        print(_toned(one_line(without_passwords(message))), file=sys.stderr, flush=True)
    except OSError:
        redirect(sys.stderr)


def annotation(level: str, title: str, message: str) -> None:
    """Write a command to stderr that lets GitHub show a message beside the job, whatever the texts hold."""

    def escaped(text: str, also: str = "") -> str:
        return "".join(f"%{ord(c):02X}" if c in "%\r\n" + also else c for c in printable(without_passwords(text)))

    _pass_on(sys.stderr, f"::{level} title={escaped(title, ':,')}::{escaped(message)}\n")


def console() -> Console:
    """Return a console on stdout that adds no markup of its own; wide and without colours off a terminal."""
    from rich.console import Console

    shown = coloured(sys.stdout)
    return Console(
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
        width=None if sys.stdout.isatty() else 200,
        force_terminal=shown,  # FORCE_COLOR asks for what the door would spell out
        color_system="auto" if shown else None,
    )


def say(text: str = "", style: str = "") -> None:
    """Print a line; text is shown as it is, without markup and without what would steer a terminal."""
    from rich.text import Text

    console().print(Text(printable(text), style=style))


def show(view: View) -> None:
    """Print a view."""
    from judge_eval.views.terminal import for_terminal

    out = console()
    for printed in for_terminal(view):
        out.print(printed)


def print_record(record: AnyRecord, json_: bool, view: Callable[[AnyRecord], View]) -> None:
    """Print a record as JSON, or its view."""
    if json_:
        from judge_eval.views.note_sentences import IN_WORDS

        give_json(record.model_dump_json(indent=2, context=IN_WORDS))
    else:
        show(view(record))


def show_apart(view: View) -> None:
    """Print a view; its remarks go to standard error."""
    from judge_eval.views.blocks import Remark, View

    for section in view.sections:
        blocks = tuple(block for block in section.blocks if not isinstance(block, Remark))
        if blocks:
            show(View(view.kind, (replace(section, blocks=blocks),)))
    for each in view.remarks:
        remark(each.sentence)


def show_more(sections: Iterable[Section]) -> None:
    """Print sections below what was printed before, each set off by an empty line."""
    from judge_eval.views.terminal import section_lines

    out = console()
    for section in sections:
        say()
        for printed in section_lines(section):
            out.print(printed)


def summary(run: Run, json_: bool = False, page: str | None = None) -> None:
    """Print the summary of a run with the address of its page, or its manifest as JSON."""
    from judge_eval.export.text import json_head
    from judge_eval.views.run import terminal_view

    if json_:
        give_json(json.dumps(json_head(run), indent=2, ensure_ascii=False))
    else:
        show(terminal_view(run, page))


def show_comparison(comparison: Comparison) -> None:
    """Print what is shown, the differences, what makes them doubtful, and the traces that moved most."""
    from judge_eval.views.comparison import TERMINAL_TRACES, comparison_view

    show(comparison_view(comparison, traces=TERMINAL_TRACES, claims=TERMINAL_TRACES))


@contextmanager
def watching(quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show a bar with the progress and the time that is left; if stderr is not a terminal, a line now and then."""
    if quiet:
        yield None
        return
    from judge_eval.views.progress import progress_bar, progress_line

    if not sys.stderr.isatty():
        last, wait = time.monotonic(), 0.0

        def tell_now_and_then(progress: Progress) -> None:
            nonlocal last, wait
            if time.monotonic() - last >= LINE_EVERY or progress.wait > wait:
                last = time.monotonic()
                remark(progress_line(progress))
            wait = progress.wait

        yield tell_now_and_then
        return
    with progress_bar() as watch:
        yield watch


def show_plan(evaluator: Evaluator, path: Traces, selected: Selecting, *, asks: bool = False) -> int:
    """Print what judging the data takes, and return how many traces it is; `asks`: whether they are judged next."""
    from judge_eval.judges.judge import OnRoute, stages_asked
    from judge_eval.views.plan import escalation_lines, plan_lines, stage_lines

    dataset, plan = evaluator.plan(path, **selected)
    stack = evaluator.stack
    lines = [f"{selected['name']}: {counted(plan.traces, 'trace')}, {counted(plan.chunks, 'chunk')}"]
    if dataset.skipped:
        lines.append(f"{counted(dataset.skipped, 'invalid record')} would be skipped")
    first, *later = stages_asked(evaluator.chosen_judge) or (None,)
    lines += plan_lines(stack, plan) if first is None else stage_lines(stack, first.name, plan)
    for stage in later:
        assert stage is not None
        _, most = evaluator.with_judge(OnRoute(stage.judge, stage.route)).plan(path, **selected)
        lines += escalation_lines(stack, stage.name, most, stage.share)
    for each in dataset.remarks:
        remark(each)
    _tell(lines, asks=asks)
    return plan.traces


def show_pilot(pilot: PairedPilot, drawn: PilotSample) -> None:
    """Print what asking both judges about the sample would take."""
    from judge_eval.views.cascade import one_of_clusters
    from judge_eval.views.note_sentences import ties_sentence
    from judge_eval.views.plan import stage_lines

    alone = all(len(trace.chunks) == 1 for trace in drawn.spots)
    lines = [
        f"{drawn.dataset}: {len(drawn.traces)} of {drawn.eligible} traces drawn, "
        f"{one_of_clusters(drawn.clusters, drawn.cluster)}{sum(len(trace.chunks) for trace in drawn.traces)} "
        f"chunks for the cheap judge, {'one of each trace' if alone else 'whole traces'} for the strong one"
    ]
    if pilot.ties:
        lines.append(ties_sentence(pilot.ties))
    for stage, plan in pilot.plans(drawn).items():
        lines += stage_lines(pilot.evaluator.stack, stage, plan)
    _tell(lines)


def _tell(lines: list[str], *, asks: bool = False) -> None:
    for line in lines:
        tell(line)
    if not asks:
        remark("no request was sent")
