"""Where answers are kept, for whoever runs the program here for the first time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.backends.storing.places import PROJECT
from judge_eval.cli.printing.output import say
from judge_eval.urls import public_url

if TYPE_CHECKING:
    from judge_eval.cli.flags.calling import CallingFlags


def say_cache(calling: CallingFlags, hits: int = 0) -> None:
    """Say where the cache is, and who shares it: on a clean clone its answers surprise.

    Args:
        calling: The flags of the run.
        hits: How many answers of the run came from there.
    """
    if calling.no_cache or calling.replay is not None:
        return
    place = _shown(calling.location)
    came = "" if not hits else f" ({hits:,} came from there)"
    if calling.cache is None:
        say(f'answers are kept in {place}, which all your projects share{came}; `cache = "{PROJECT}"` in')
        say("judge_eval.toml, or --cache project, keeps this project's in .judge_eval/cache")
    else:
        say(f"answers are kept in {place}{came}")


def _shown(place: str | Path) -> str:
    """Return a place as people write it: `~` for the home folder, relative below this one, no password."""
    if isinstance(place, str):
        return public_url(place)
    absolute = place.expanduser().absolute()
    for top, name in ((Path.cwd(), ""), (Path.home(), "~/")):
        if absolute.is_relative_to(top) and absolute != top:
            return f"{name}{absolute.relative_to(top)}"
    return str(absolute)
