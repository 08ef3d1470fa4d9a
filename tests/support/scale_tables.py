"""The tables of docs/scale.md, computed from the formulas that stand there."""

from __future__ import annotations

SIZES = (10**6, 10**7, 10**8, 10**9)
INPUT, OUTPUT = 500, 60
"""Tokens of one pointwise verdict."""
CHUNKS = 10
LIST_INPUT, LIST_OUTPUT = 1500, 600
"""Tokens of one listwise call over ten chunks."""
PRICE_IN, PRICE_OUT = 0.40, 1.60
"""US dollars for a million tokens."""
DECISION_INPUT = 2000
"""Tokens of one request to a decision model, with a question for each of ten chunks; it writes none."""
PRICE_DECISION = 0.10
"""US dollars for a million of them."""
ESCALATED = (0.2, 0.4, 0.6)
"""Shares of verdicts that a cascade hands to its strong judge."""
QUOTAS = ((500, 200_000), (10_000, 10_000_000), (30_000, 150_000_000))
"""Requests and tokens a minute."""
ENGINE = 1000
"""Requests a second that one process drives."""
QUEUES = (200_000_000, 5_000_000_000)
"""Input tokens that may be enqueued for batches at once."""
FLEET = 40
"""Requests a second that one server of one's own answers."""


def seconds_online(verdicts: int, rpm: int, tpm: int, *, listwise: bool = False) -> float:
    """The slowest of the request quota, the token quota and the process."""
    calls = verdicts / CHUNKS if listwise else verdicts
    tokens = LIST_INPUT + LIST_OUTPUT if listwise else INPUT + OUTPUT
    return max(calls / rpm * 60, calls * tokens / tpm * 60, calls / ENGINE)


def cost(verdicts: int, *, listwise: bool = False, batch: bool = False) -> float:
    """US dollars."""
    calls = verdicts / CHUNKS if listwise else verdicts
    result, answers = (LIST_INPUT, LIST_OUTPUT) if listwise else (INPUT, OUTPUT)
    return calls * (result * PRICE_IN + answers * PRICE_OUT) / 1e6 * (0.5 if batch else 1)


def seconds_decisions(verdicts: int, rpm: int, tpm: int) -> float:
    """As online, with a request for ten chunks."""
    calls = verdicts / CHUNKS
    return max(calls / rpm * 60, calls * DECISION_INPUT / tpm * 60, calls / ENGINE)


def cost_decisions(verdicts: int) -> float:
    """US dollars."""
    return verdicts / CHUNKS * DECISION_INPUT * PRICE_DECISION / 1e6


def seconds_cascade(verdicts: int, share: float, rpm: int, tpm: int) -> float:
    """The slowest of both judges, each under a quota of its own, and the process that drives both."""
    strong = verdicts * share
    both = seconds_decisions(verdicts, rpm, tpm), seconds_online(round(strong), rpm, tpm)
    return max(*both, (verdicts / CHUNKS + strong) / ENGINE)


def cost_cascade(verdicts: int, share: float) -> float:
    """US dollars."""
    return cost_decisions(verdicts) + cost(verdicts) * share


def seconds_batch(verdicts: int, queue: int) -> float:
    """A full queue a day, and a day at least."""
    return max(1.0, verdicts * INPUT / queue) * 86400


def seconds_fleet(verdicts: int, servers: int) -> float:
    """The slower of the servers and the process that feeds them."""
    return max(verdicts / (servers * FLEET), verdicts / ENGINE)


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


def batch() -> str:
    """Time by queue, files, and cost."""
    head = ["verdicts", *(f"{queue / 1e6:,.0f}M tokens enqueued" for queue in QUEUES), "files", "cost"]
    rows = [
        [
            power(size),
            *(span(seconds_batch(size, queue)) for queue in QUEUES),
            f"{-(-size // 50_000):,}",
            dollars(cost(size, batch=True)),
        ]
        for size in SIZES
    ]
    return table(head, rows)


def fleet() -> str:
    """Time by number of servers."""
    counts = (1, 8, 25)
    head = ["verdicts", *(f"{count} server{'s' if count > 1 else ''}" for count in counts)]
    rows = [[power(size), *(span(seconds_fleet(size, count)) for count in counts)] for size in SIZES]
    return table(head, rows)


def routes() -> str:
    """Requests, tokens, time under the middle quota and cost of a million verdicts, by route."""
    size, quota = 10**6, QUOTAS[1]

    def row(name: str, calls: float, told: float, said: float, seconds: float, paid: float) -> list[str]:
        return [name, f"{calls:,.0f}", f"{told / 1e6:,.0f}M", f"{said / 1e6:,.0f}M", span(seconds), dollars(paid)]

    lists = size / CHUNKS
    rows = [
        row("chat, one by one", size, size * INPUT, size * OUTPUT, seconds_online(size, *quota), cost(size)),
        row(
            f"chat, {CHUNKS} at a time",
            lists,
            lists * LIST_INPUT,
            lists * LIST_OUTPUT,
            seconds_online(size, *quota, listwise=True),
            cost(size, listwise=True),
        ),
        row("decisions", lists, lists * DECISION_INPUT, 0, seconds_decisions(size, *quota), cost_decisions(size)),
    ]
    for share in ESCALATED:
        result = lists * DECISION_INPUT + share * size * INPUT
        seconds, paid = seconds_cascade(size, share, *quota), cost_cascade(size, share)
        rows.append(
            row(f"cascade, {share:.0%} escalated", lists + share * size, result, share * size * OUTPUT, seconds, paid)
        )
    return table(["route", "requests", "input tokens", "output tokens", "time", "cost"], rows)
