"""The flags on the numbers: which metrics, from which grade, with which intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from judge_eval.errors import ConfigError
from judge_eval.settings import Setting
from judge_eval.spelling import option
from judge_eval.user_text import listed_names

if TYPE_CHECKING:
    from judge_eval.runs.folder.records import Intervals, SliceBy
else:  # flags start without NumPy
    SliceBy = str

PANEL = "Numbers"
JUDGING = "Judging"
_setting = partial(Setting, env=True, file=True, panel=PANEL)


def _slices(texts: list[str]) -> tuple[str, ...]:
    known = ("tag", "language", "length", "source")
    for text in texts:
        if text not in known:
            raise ConfigError(f"{option('by')} {text!r}: write {', '.join(known[:-1])} or {known[-1]}")
    return tuple(texts)


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

    by: Annotated[
        tuple[SliceBy, ...],
        Setting(
            "Also show every figure by tag, language, length or source of the traces; repeatable.",
            PANEL,
            metavar="tag|language|length|source",
            type=list[str] | None,
            read=_slices,
        ),
    ] = ()

    @property
    def names(self) -> list[str]:
        """The metrics by name: `AP@5,NDCG(gain=exp)@10` split at what stands outside parentheses."""
        return [name for text in self.metrics or () for name in listed_names(text)]

    @property
    def intervals(self) -> Intervals:
        """How intervals are made."""
        from judge_eval.runs.folder.records import Intervals

        return Intervals(method=self.interval, cluster=self.cluster, by=self.by)
