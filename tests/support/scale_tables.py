"""The tables of docs/scale.md, computed from the formulas that stand there."""

from __future__ import annotations

SIZES = (10**6, 10**8)
INPUT, OUTPUT = 500, 60
"""Tokens of one pointwise verdict."""
CHUNKS = 10
LIST_INPUT, LIST_OUTPUT = 1500, 600
"""Tokens of one listwise call over ten chunks."""
PRICE_IN, PRICE_OUT = 0.40, 1.60
"""US dollars for a million tokens."""
PRICE_DECISION = 0.10
"""US dollars for a million input tokens of a decision model; it writes none."""
QUOTAS = ((500, 200_000), (10_000, 10_000_000), (30_000, 150_000_000))
"""Requests and tokens a minute."""
ENGINE = 1000
"""Requests a second that one process drives."""


def seconds_online(verdicts: int, rpm: int, tpm: int, *, listwise: bool = False) -> float:
    """The slowest of the request quota, the token quota and the process."""
    calls = verdicts / CHUNKS if listwise else verdicts
    tokens = LIST_INPUT + LIST_OUTPUT if listwise else INPUT + OUTPUT
    return max(calls / rpm * 60, calls * tokens / tpm * 60, calls / ENGINE)


def cost(verdicts: int, *, listwise: bool = False) -> float:
    """US dollars."""
    calls = verdicts / CHUNKS if listwise else verdicts
    result, answers = (LIST_INPUT, LIST_OUTPUT) if listwise else (INPUT, OUTPUT)
    return calls * (result * PRICE_IN + answers * PRICE_OUT) / 1e6


def span(seconds: float) -> str:
    """Write a time in its natural unit, with two digits."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length or unit == "min":
            return f"{float(f'{seconds / length:.2g}'):,g} {unit}"
    raise AssertionError


def dollars(amount: float) -> str:
    """Write an amount with three digits."""
    return f"${float(f'{amount:.3g}'):,.0f}"


def power(verdicts: int) -> str:
    """Write a power of ten."""
    return f"10^{len(str(verdicts)) - 1}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Write a table in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines).replace("| --- ", "|---").replace("--- |", "---|") + "\n"


def online() -> str:
    """Time by quota, pointwise and listwise, and cost."""
    head = ["verdicts", *(f"{rpm:,} RPM, {tpm / 1e6:g}M TPM" for rpm, tpm in QUOTAS), "cost"]
    rows = []
    for listwise in (False, True):
        for size in SIZES:
            times = [span(seconds_online(size, *quota, listwise=listwise)) for quota in QUOTAS]
            name = power(size) + (" listwise" if listwise else "")
            rows.append([name, *times, dollars(cost(size, listwise=listwise))])
    return table(head, rows)
