"""How the lists of a what-if are made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Literal, TypedDict, cast

from judge_eval.errors import ConfigError
from judge_eval.settings import check_ranges, setting
from judge_eval.spelling import option

_setting = partial(setting, panel="The new lists")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a list is made, in this order: threshold, fusion or interleaving, dedup, rerank, cut."""

    fuse: str | None = _setting(
        None, "Fuse the runs: rrf (or rrf:k=60), combsum, combmnz or weighted:a=.3.", metavar="HOW"
    )
    """See `Fusion`."""
    interleave: bool = _setting(False, "Take the next chunk of each run in turn.")
    threshold: str | None = _setting(
        None, "Keep chunks whose retriever's score is high enough; `fit` finds how high.", metavar="score>=X"
    )
    """`score>=x` or `score<=x`, by the retrievers' scores."""
    dedup: bool = _setting(
        False,
        "Drop chunks whose text is that of an earlier one.",
        flags=("--dedup",),
        type=Literal["text"] | None,
        read=bool,
    )
    rerank: str | None = _setting(None, "Rerank for diversity (similarity: shared words).", metavar="mmr:lambda=.7")
    """`mmr:lambda=.7`; relevance is the list's score from 0 to 1 (its rank without scores), similarity the cosine of
    word counts."""
    cut: int | None = _setting(None, "Keep the first so many chunks.")

    def keywords(self) -> Recipes:
        """Return the fields as keywords."""
        return cast("Recipes", {field.name: getattr(self, field.name) for field in fields(self)})

    def __str__(self) -> str:
        named = [self.threshold, self.fuse, "interleave" if self.interleave else None]
        named += ["dedup" if self.dedup else None, self.rerank, None if self.cut is None else f"cut {self.cut}"]
        return ", ".join(each for each in named if each)

    def check(self, runs: int) -> None:
        """Check that the settings can be read and fit so many runs."""
        joins = (self.fuse is not None) + self.interleave
        if joins > 1 or (joins == 1) != (runs > 1):
            if runs == 1:
                raise ConfigError("one run is neither fused nor interleaved; name another run beside it")
            ways = f"{option('fuse', 'rrf')} or {option('interleave', True)}"
            raise ConfigError(f"{runs} runs make one list by {ways}, one of the two")
        if not str(self):
            raise ConfigError(f"say what to try, such as {option('cut', 5)} or {option('dedup', 'text')}")
        check_ranges({"cut": self.cut})


class Recipes(TypedDict, total=False):
    """The fields of `Recipe` as keywords."""

    fuse: str | None
    interleave: bool
    threshold: str | None
    dedup: bool
    rerank: str | None
    cut: int | None
