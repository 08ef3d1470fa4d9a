"""Where a run is kept, what people call it, and which run it continues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypedDict, cast

from judge_eval.ranges import RANGES
from judge_eval.settings import Setting, check
from judge_eval.user_text import check_text

PANEL = "The run"
_setting = partial(Setting, panel=PANEL)


def _resumed(text: str) -> str | Literal[True]:
    """Read the run to resume; the command line writes `newest` if none is named."""
    return True if text == "newest" else text


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """Where a run is kept, what people call it, and which run it continues."""

    out: str | Path | None = None
    """The folder of runs, or its URL; None keeps the run in memory."""
    label: Annotated[str | None, _setting("What people call the run.", env=True, file=True, common=True)] = None
    href: Annotated[str | None, _setting("The address of its pull request or job.", env=True, file=True)] = None
    tags: Annotated[
        Sequence[str],
        _setting(
            "A word to filter by; repeatable.", flags=("--tag",), type=list[str] | None, read=tuple, env=True, file=True
        ),
    ] = ()
    baseline: str | None = None
    """The id of the run that reports and pages compare this one with."""
    resume: Annotated[
        str | Path | bool,
        _setting(
            "Continue a run; without a value, the newest unfinished run of the same data.",
            metavar="[RUN]",
            type=str | None,
            read=_resumed,
            common=True,
        ),
    ] = False
    """A run's folder; True continues the newest unfinished run of the same data in `out`."""
    new_if_done: Annotated[
        bool, _setting("With --resume alone: start a new run if the newest of the same data is done.")
    ] = False
    push_every: Annotated[
        float,
        _setting(
            "If --out is a URL: seconds between uploads of new verdicts; 0 uploads only at the end.",
            range=RANGES["push_every"],
            env=True,
            file=True,
        ),
    ] = 20.0
    push_grace: Annotated[
        float,
        _setting(
            "If --out is a URL: seconds that the last upload may take after SIGTERM or Ctrl-C.",
            range=RANGES["push_grace"],
            env=True,
            file=True,
        ),
    ] = 20.0

    def __post_init__(self) -> None:
        check(self)
        tags = (self.tags,) if isinstance(self.tags, str) else tuple(self.tags)
        object.__setattr__(self, "tags", tags)
        for name in ("label", "href", "baseline"):
            check_text(name, getattr(self, name))
        check_text("tags", *tags)

    def keywords(self) -> KeepingKeywords:
        """Return the fields as the keywords of `Evaluator.evaluate`."""
        return cast(KeepingKeywords, {field.name: getattr(self, field.name) for field in fields(Keeping)})


class KeepingKeywords(TypedDict, total=False):
    """The fields of `Keeping` as keywords."""

    out: str | Path | None
    label: str | None
    href: str | None
    tags: Sequence[str]
    baseline: str | None
    resume: str | Path | bool
    new_if_done: bool
    push_every: float
    push_grace: float
