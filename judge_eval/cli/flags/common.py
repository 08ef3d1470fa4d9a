"""The flags that belong to no group of verbs: labels by people, a seed, how much is printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

Seed: TypeAlias = Annotated[int, typer.Option("--seed", help="The seed of whatever is drawn at random.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]
SafeCells: TypeAlias = Annotated[
    bool,
    typer.Option("--safe-cells", help="In CSV: a ' before what a spreadsheet would take for a formula."),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def output_flag(help: str) -> Any:
    """Make the flag `--output`, `-o` of a verb.

    Args:
        help: What is written there.
    """
    return typer.Option("--output", "-o", help=help)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabellingFlags:
    """The labels people gave."""

    labels: Annotated[
        Path | None,
        typer.Option(
            help="Human labels: JSON Lines, a spreadsheet (CSV, .xlsx) or TREC qrels; else those of the "
            "dataset."
        ),
    ] = None
    label_relevant: Annotated[int | None, typer.Option(help="The least label that counts as relevant.")] = (
        None
    )
