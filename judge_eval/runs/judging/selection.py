"""Which traces of the data a run judges, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, cast

from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError
from judge_eval.ranges import RANGES, Range
from judge_eval.settings import Setting, check
from judge_eval.spelling import option

if TYPE_CHECKING:
    from judge_eval.data.claimfiles import ClaimsFile
else:  # what the command line reads of this record starts without pydantic
    ClaimsFile = Any

OnInvalid = Literal["error", "skip"]
_SHARD = Range(1, 1_000_000)
_setting = partial(Setting, panel="Selecting traces", changes_verdict=True)


def _shard(text: str) -> tuple[int, int]:
    """Read `2/8`, the second of eight parts."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise ConfigError(f"{option('shard')} {text!r}: write I/N with I from 1 to N, such as 2/8")
    return int(index), int(count)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which traces are judged."""

    limit: Annotated[int | None, _setting("Judge at most this many traces.", range=RANGES["limit"], common=True)] = None
    seed: Annotated[
        int | None, _setting("With --limit: draw a random sample instead of the first traces.", range=RANGES["seed"])
    ] = None
    """With `limit`, takes a random sample, in the dataset's order, instead of the first traces."""
    shard: Annotated[
        tuple[int, int] | None,
        _setting(
            "Judge part I of N, by trace id; `runs merge` joins the runs.", metavar="I/N", type=str | None, read=_shard
        ),
    ] = None
    """`(i, n)` judges part i of n, i from 1."""
    on_invalid: Annotated[OnInvalid, _setting("What to do with an invalid record.", env=True, file=True)] = "error"
    """Whether an invalid record ends the evaluation before it starts, or is skipped."""
    name: str | None = None
    """What to call the data in messages and in the run; a file's path by default."""
    reader: ReadOptions | None = None
    """How files and rows are to be read, where they do not say so themselves."""
    claims: Annotated[
        str | Path | ClaimsFile | None,
        _setting(
            "With --mode claims: a file with the claims of the references (`judge-eval claims` writes one); "
            "otherwise the judge splits them.",
            file=True,
            type=Path | None,
        ),
    ] = None
    """A file with the claims of the references, see `judge-eval claims`; all traces must be in it."""

    def __post_init__(self) -> None:
        check(self)
        if self.shard is not None:
            _SHARD.check(self.shard[1], "shard")

    def keywords(self) -> Selecting:
        """Return the fields as the keywords of `Evaluator.evaluate`."""
        return cast(Selecting, {field.name: getattr(self, field.name) for field in fields(self)})

    def check_stream(self, newest: bool) -> None:
        """Check that nothing asked for (such as the `newest` run) takes data that can be read twice."""
        if newest or not (self.limit is None and self.shard is None and self.claims is None):
            raise ConfigError(
                "a stream can be read only once; `limit`, `shard`, `claims` and `resume=True` need a list or a file"
            )


EVERY_TRACE = Selection()


class Selecting(TypedDict, total=False):
    """The fields of `Selection` as the keywords that `Evaluator.evaluate` and its siblings take."""

    limit: int | None
    seed: int | None
    shard: tuple[int, int] | None
    on_invalid: OnInvalid
    name: str | None
    reader: ReadOptions | None
    claims: str | Path | ClaimsFile | None
