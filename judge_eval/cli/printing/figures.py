"""Figures with their intervals, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge_eval.alignment.agree import Figure


def figure(given: Figure) -> str:
    """Write a figure with its interval."""
    if given.value is None:
        return "undefined"
    span = "" if given.interval is None else f" [{given.interval[0]:.4f}, {given.interval[1]:.4f}]"
    return f"{given.value:.4f}{span}"
