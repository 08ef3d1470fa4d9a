"""What is refused, and what fails today: the cells of the matrix that are not plain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """A combination that does not exist."""

    message: str
    """A part of what the refusal says."""
    documented: tuple[str, ...]
    """Words that stand together in a paragraph of the documentation, which says so."""


NO_QUOTES = Refusal("a decision model quotes nothing", ("evidence", "require", "decision model", "in a panel"))
NO_BATCHES = Refusal("decision models do not support batches", ("Batch API", "decisions"))
NO_CASCADES = Refusal("a batch takes one model, not a cascade", ("cascades", "unsupported", "batch"))
NO_PANELS = Refusal("a batch takes one model, not a panel", ("panels", "unsupported", "batch"))
FOLLOWS = Refusal("(`--confidence`) is not for judging by claims", ("`--confidence`", "unsupported", "claims"))
REFUSED: dict[tuple[str, str], Refusal] = {
    ("decision", "evidence-required"): NO_QUOTES,
    ("claims-decision", "evidence-required"): NO_QUOTES,
    ("mixed-panel", "evidence-required"): NO_QUOTES,
    ("cascade", "evidence-required"): Refusal(
        "relevant verdicts of the cheap judge would have no quote",
        ("cascade", "--evidence required", "relevant verdict", "explain_positives"),
    ),
    ("claims", "confidence"): FOLLOWS,
    ("claims-list", "confidence"): FOLLOWS,
    ("claims-decision", "confidence"): FOLLOWS,
    ("decision", "batch"): NO_BATCHES,
    ("claims-decision", "batch"): NO_BATCHES,
    ("panel", "batch"): NO_PANELS,
    ("mixed-panel", "batch"): NO_PANELS,
    ("cascade", "batch"): NO_CASCADES,
    ("listwise-cascade", "batch"): NO_CASCADES,
    ("explained-cascade", "batch"): NO_CASCADES,
}
"""By kind and feature; each is refused by name, and the documentation says so."""

KNOWN: dict[tuple[str, str], str] = {}
"""By kind and feature: why the cell fails today. A strict list: a cell that is mended leaves it."""
