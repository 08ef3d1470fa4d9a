"""What people read on the terminal: views, and verdicts with their evidence marked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from judge_eval.cli.printing.safe_output import coloured, give_json, remark
from judge_eval.safe_text import printable
from judge_eval.views.blocks import Remark, View
from judge_eval.views.note_sentences import IN_WORDS
from judge_eval.views.run import terminal_view
from judge_eval.views.terminal import for_terminal, section_lines

if TYPE_CHECKING:
    from judge_eval.compare.comparison import Comparison
    from judge_eval.runs.folder.run import Run
    from judge_eval.views.blocks import Section

AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


def console() -> Console:
    """Return a console on stdout that adds no markup of its own; wide and without colours off a terminal."""
    watched = sys.stdout.isatty()
    shown = coloured(sys.stdout)
    return Console(
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
        width=None if watched else 200,
        force_terminal=shown,  # FORCE_COLOR asks for what the door would spell out
        color_system="auto" if shown else None,
    )


def say(text: str = "", style: str = "") -> None:
    """Print a line; text is shown as it is, without markup and without what would steer a terminal."""
    console().print(Text(printable(text), style=style))


def show(view: View) -> None:
    """Print a view."""
    out = console()
    for printed in for_terminal(view):
        out.print(printed)


def print_record(record: AnyRecord, json_: bool, view: Callable[[AnyRecord], View]) -> None:
    """Print a record as JSON, or its view."""
    if json_:
        give_json(record.model_dump_json(indent=2, context=IN_WORDS))
    else:
        show(view(record))


def show_apart(view: View) -> None:
    """Print a view; its remarks go to standard error."""
    for section in view.sections:
        blocks = tuple(block for block in section.blocks if not isinstance(block, Remark))
        if blocks:
            show(View(view.kind, (replace(section, blocks=blocks),)))
    for each in view.remarks:
        remark(each.sentence)


def show_more(sections: Iterable[Section]) -> None:
    """Print sections below what was printed before, each set off by an empty line."""
    out = console()
    for section in sections:
        say()
        for printed in section_lines(section):
            out.print(printed)


def summary(run: Run, json_: bool = False, page: str | None = None) -> None:
    """Print the summary of a run with the address of its page, or its manifest as JSON."""
    if json_:
        from judge_eval.export.text import json_head

        give_json(json.dumps(json_head(run), indent=2, ensure_ascii=False))
    else:
        show(terminal_view(run, page))


def show_comparison(comparison: Comparison) -> None:
    """Print what is shown, the differences, what makes them doubtful, and the traces that moved most."""
    from judge_eval.views.comparison import TERMINAL_TRACES, comparison_view

    show(comparison_view(comparison, traces=TERMINAL_TRACES, claims=TERMINAL_TRACES))
