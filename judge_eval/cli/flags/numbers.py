"""The flags on the numbers: which metrics, from which grade, with which intervals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.groups import SET

if TYPE_CHECKING:
    from judge_eval.runs.folder.records import Intervals

PANEL = "Numbers"
JUDGING = "Judging"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersFlags:
    """What is computed from the verdicts."""

    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics",
            "-k",
            help="Metrics, with commas between or repeated: AP@5,MRR,NDCG@5.",
            autocompletion=completion.metrics,
            rich_help_panel=JUDGING,
        ),
        SET,
    ] = None
    relevant: Annotated[
        int | None,
        typer.Option(
            help="The least grade that counts as relevant, in place of the prompt's.", rich_help_panel=JUDGING
        ),
        SET,
    ] = None
    interval: Annotated[
        Literal["auto", "t", "bca"],
        typer.Option(
            help="The intervals of means: what suits the values, or always Student's t or the BCa bootstrap.",
            rich_help_panel=PANEL,
        ),
        SET,
    ] = "auto"
    cluster: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            help="The key of a trace's metadata that says which traces belong together.",
            rich_help_panel=PANEL,
        ),
        SET,
    ] = "cluster"

    @property
    def names(self) -> list[str]:
        """The metrics by name: `AP@5,NDCG(gain=exp)@10` split at what stands outside parentheses."""
        parts = (part for text in self.metrics or () for part in re.split(r"[,\s]+(?![^()]*\))", text))
        return [part for part in parts if part]

    @property
    def intervals(self) -> Intervals:
        """How intervals are made."""
        from judge_eval.runs.folder.records import Intervals

        return Intervals(method=self.interval, cluster=self.cluster)
