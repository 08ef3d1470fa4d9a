"""The flags on the numbers: which metrics, from which grade, with which intervals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from judge_eval.settings import Setting

if TYPE_CHECKING:
    from judge_eval.runs.folder.records import Intervals

PANEL = "Numbers"
JUDGING = "Judging"
_setting = partial(Setting, env=True, file=True, panel=PANEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersFlags:
    """What is computed from the verdicts."""

    metrics: Annotated[
        list[str] | None,
        _setting(
            "Metrics, separated by commas or repeated: AP@5,MRR,NDCG@5.",
            metavar="METRIC",
            panel=JUDGING,
            flags=("--metrics", "-k"),
            completion="metrics",
            common=True,
        ),
    ] = None
    relevant: Annotated[
        int | None,
        _setting(
            "The least grade that counts as relevant, instead of the prompt's.", panel=JUDGING, changes_verdict=True
        ),
    ] = None
    interval: Annotated[
        Literal["auto", "t", "bca"],
        _setting(
            "How intervals of means are computed: as suits the values, or always by Student's t or the BCa bootstrap."
        ),
    ] = "auto"
    cluster: Annotated[
        str, _setting("The key of a trace's metadata that says which traces belong together.", metavar="KEY")
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
