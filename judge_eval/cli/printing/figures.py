"""Figures with their intervals, on the terminal."""

from __future__ import annotations

from judge_eval.alignment.agree import Figure


def figure(found: Figure) -> str:
    """Write a figure with its interval."""
    if found.value is None:
        return "undefined"
    span = "" if found.interval is None else f" [{found.interval[0]:.4f}, {found.interval[1]:.4f}]"
    return f"{found.value:.4f}{span}"
