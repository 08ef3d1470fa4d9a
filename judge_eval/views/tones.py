"""How a text is set off, and the styles of a terminal: without the blocks, as every command loads it."""

from typing import Final, Literal

Tone = Literal["plain", "strong", "quiet", "good", "doubtful", "bad", "evidence"]
"""How a text is set off; each writer has its own means. `evidence` is quoted by the judge."""
GOOD, DOUBTFUL, BAD = "green", "yellow", "bold red"
STYLES: Final[dict[Tone, str]] = {
    "plain": "",
    "strong": "bold",
    "quiet": "dim",
    "good": GOOD,
    "doubtful": DOUBTFUL,
    "bad": BAD,
    "evidence": "bold",
}
"""How a terminal shows each tone, in the words of `rich`."""
