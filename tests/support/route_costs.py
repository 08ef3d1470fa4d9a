"""The worked example of docs/cost.md, computed from its formulas and the counted prompts."""

from __future__ import annotations

import json

from benchmarks import tokens
from tests.support.scale_tables import OUTPUT, PRICE_DECISION, PRICE_IN, PRICE_OUT, table

CHUNKS = 5
"""Of the trace whose prompts were counted."""
ESCALATED = 0.39
"""What the simulated cheap judge escalates that is wrong in 12%, under a threshold fitted to 200 traces."""
FITTED = 200
"""Traces that such a threshold is fitted to."""


def counted(ref: str) -> float:
    """Input tokens a verdict, of a trace with a short answer."""
    kept = json.loads(tokens.KEPT.read_text(encoding="utf-8"))
    return float(kept[ref]["short answer"]["o200k_base"]) / CHUNKS


def chat(ref: str = "support/binary@2") -> float:
    """US dollars a million verdicts."""
    return counted(ref) * PRICE_IN + OUTPUT * PRICE_OUT


def decisions() -> float:
    """US dollars a million verdicts."""
    return counted("support/decision@1") * PRICE_DECISION


def cascade(share: float = ESCALATED) -> float:
    """US dollars a million verdicts."""
    return decisions() + share * chat()


def dearest() -> float:
    """The share of escalated verdicts from which a cascade costs as much as its strong judge alone."""
    return 1 - decisions() / chat()


def fit(traces: int = FITTED) -> float:
    """US dollars for the calibration: all chunks of each trace by the cheap judge, one by the strong one."""
    return traces * (CHUNKS * decisions() + chat()) / 1e6


def routes() -> str:
    """Tokens and cost of a million verdicts, by route."""
    rows = [
        ["chat, one by one", f"{counted('support/binary@2'):,.0f}M", f"{OUTPUT}M", f"${chat():,.0f}"],
        [
            "chat, a trace at a time",
            f"{counted('listwise/support/binary@2'):,.0f}M",
            f"{OUTPUT}M",
            f"${chat('listwise/support/binary@2'):,.0f}",
        ],
        ["decisions", f"{counted('support/decision@1'):,.0f}M", "0", f"${decisions():,.0f}"],
        [
            f"cascade, {ESCALATED:.0%} escalated",
            f"{counted('support/decision@1') + ESCALATED * counted('support/binary@2'):,.0f}M",
            f"{ESCALATED * OUTPUT:.0f}M",
            f"${cascade():,.0f}",
        ],
    ]
    return table(["route", "input tokens", "output tokens", "cost"], rows)
