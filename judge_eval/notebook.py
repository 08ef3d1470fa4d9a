"""What a notebook shows: runs, traces and comparisons as HTML, and the progress of a run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import StringIO
from time import monotonic
from typing import TYPE_CHECKING, Any

from judge_eval.errors import ConfigError
from judge_eval.record import Shown
from judge_eval.views.progress import progress_line

if TYPE_CHECKING:
    from judge_eval.runs.scoring.counting import Progress


def as_html(thing: object) -> str:
    """Write a run, a trace's result, a comparison or the checks of a gate as HTML."""
    from judge_eval.views import comparison, html, run, trace  # noqa: F401  each registers its view
    from judge_eval.views.blocks import view_of

    return html.html_of(view_of(thing))


def as_text(thing: object) -> str:
    """Write the same as the terminal shows it, without colours."""
    from rich.console import Console

    from judge_eval.views import comparison, run, trace  # noqa: F401  each registers its view
    from judge_eval.views.blocks import view_of
    from judge_eval.views.terminal import for_terminal

    file = StringIO()
    console = Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True, width=200)
    for line in for_terminal(view_of(thing)):
        console.print(line)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


Shown.write, Shown.print_ = as_html, as_text


def shown_by_default() -> NotebookProgress | None:
    """Return what shows the progress in the cell of a notebook; None outside of one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return NotebookProgress() if hasattr(shell, "kernel") else None


class NotebookProgress:
    """Shows how far an evaluation is, in place, under the cell that makes this object.

    In a notebook every evaluation without `watch` has one; `watch=lambda progress: None` shows nothing.

    Args:
        every: The least seconds between two updates, >= 0.

    Raises:
        ConfigError: IPython is not there.
    """

    def __init__(self, every: float = 0.2) -> None:
        try:
            from IPython.display import display
        except ImportError:
            raise ConfigError(
                "NotebookProgress needs IPython; outside a notebook give `watch` a function of your own"
            ) from None
        self._every, self._last = every, float("-inf")
        self._shown, self._line = _Shown("starting"), "nothing was judged"
        self._folder: str | None = None
        self._handle: Any = display(self._shown, display_id=True)  # type: ignore[no-untyped-call]

    def __call__(self, progress: Progress) -> None:
        """Show the progress; the last update of a run is always shown."""
        self._line, self._folder = progress_line(progress), progress.folder
        now, ended = monotonic(), progress.traces == progress.total
        if self._handle is None or (now - self._last < self._every and not ended):
            return
        self._last = now
        line = self._line
        if progress.total and progress.traces and not ended:
            left = (progress.total - progress.traces) * progress.seconds / progress.traces
            line += f", about {left:,.0f} s left" if left < 120 else f", about {left / 60:,.0f} min left"
        self._handle.update(_Shown(line, progress.traces, progress.total))

    @contextmanager
    def until_interrupted(self) -> Iterator[None]:
        """Show where the verdicts are, and how the evaluation goes on, if the block is interrupted."""
        try:
            yield
        except (asyncio.CancelledError, KeyboardInterrupt) as interrupt:
            name = type(interrupt).__name__
            interrupt._render_traceback_ = lambda: [name]  # type: ignore[union-attr]
            place = f"; the run is kept in {self._folder}, `resume=True` continues it" if self._folder else ""
            if self._handle is not None:
                self._handle.update(_Shown(f"interrupted: {self._line}{place}"))
            raise


class _Shown:
    """A line of text, with a bar where HTML can be shown."""

    def __init__(self, line: str, done: int = 0, total: int | None = None) -> None:
        self._line, self._done, self._total = line, done, total

    def __repr__(self) -> str:
        return self._line

    def _repr_html_(self) -> str:
        bar = f"<progress value='{self._done}' max='{self._total}'></progress> " if self._total else ""
        return f"<div>{bar}{escape(self._line)}</div>"
