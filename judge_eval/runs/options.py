"""The options of a run: `Selection` says which traces it judges, `Keeping` where it is kept and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError
from judge_eval.safe_text import check_text
from judge_eval.settings import RANGES, Range, check, setting
from judge_eval.spelling import option

if TYPE_CHECKING:
    from judge_eval.data.claimfiles import ClaimsFile
else:  # what the command line reads of these records starts without pydantic
    ClaimsFile = Any

OnInvalid = Literal["error", "skip"]
_SHARD = Range(1, 1_000_000)
_choice = partial(setting, panel="Selecting traces", changes_verdict=True)


def _shard(text: str) -> tuple[int, int]:
    """Read `2/8`, the second of eight parts."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise ConfigError(f"{option('shard')} {text!r}: write I/N with I from 1 to N, such as 2/8")
    return int(index), int(count)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which traces are judged."""

    limit: int | None = _choice(None, "Judge at most this many traces.", range=RANGES["limit"], common=True)
    seed: int | None = _choice(
        None, "With --limit: draw a random sample instead of the first traces.", range=RANGES["seed"]
    )
    """With `limit`, takes a random sample, in the dataset's order, instead of the first traces."""
    shard: tuple[int, int] | None = _choice(
        None,
        "Judge part I of N, by trace id; `runs merge` joins the runs.",
        metavar="I/N",
        type=str | None,
        read=_shard,
    )
    """`(i, n)` judges part i of n, i from 1."""
    on_invalid: OnInvalid = _choice("error", "What to do with an invalid record.", env=True, file=True)
    """Whether an invalid record ends the evaluation before it starts, or is skipped."""
    name: str | None = None
    """What to call the data in messages and in the run; a file's path by default."""
    reader: ReadOptions | None = None
    """How files and rows are to be read, where they do not say so themselves."""
    claims: str | Path | ClaimsFile | None = _choice(
        None,
        "With --mode claims: a file with the claims of the references (`judge-eval claims` writes one); "
        "otherwise the judge splits them.",
        file=True,
        type=Path | None,
    )
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


PANEL = "The run"
_setting = partial(setting, panel=PANEL)


def _resumed(text: str) -> str | Literal[True]:
    """Read the run to resume; the command line writes `newest` if none is named."""
    return True if text == "newest" else text


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """Where a run is kept, what people call it, and which run it continues."""

    out: str | Path | None = None
    """The folder of runs, or its URL; None keeps the run in memory."""
    label: str | None = _setting(None, "What people call the run.", env=True, file=True, common=True)
    href: str | None = _setting(None, "The address of its pull request or job.", env=True, file=True)
    tags: Sequence[str] = _setting(
        (), "A word to filter by; repeatable.", flags=("--tag",), type=list[str] | None, read=tuple, env=True, file=True
    )
    baseline: str | None = None
    """The id of the run that reports and pages compare this one with."""
    resume: str | Path | bool = _setting(
        False,
        "Continue a run; without a value, the newest unfinished run of the same data.",
        metavar="[RUN]",
        type=str | None,
        read=_resumed,
        common=True,
    )
    """A run's folder; True continues the newest unfinished run of the same data in `out`."""
    new_if_done: bool = _setting(False, "With --resume alone: start a new run if the newest of the same data is done.")
    push_every: float = _setting(
        20.0,
        "If --out is a URL: seconds between uploads of new verdicts; 0 uploads only at the end.",
        range=RANGES["push_every"],
        env=True,
        file=True,
    )
    push_grace: float = _setting(
        20.0,
        "If --out is a URL: seconds that the last upload may take after SIGTERM or Ctrl-C.",
        range=RANGES["push_grace"],
        env=True,
        file=True,
    )

    def __post_init__(self) -> None:
        check(self)
        tags = (self.tags,) if isinstance(self.tags, str) else tuple(self.tags)
        object.__setattr__(self, "tags", tags)
        for name in ("label", "href", "baseline"):
            check_text(name, getattr(self, name))
        check_text("tags", *tags)

    def keywords(self) -> KeepingKeywords:
        """Return the fields as the keywords of `Evaluator.evaluate`."""
        return cast(KeepingKeywords, {field.name: getattr(self, field.name) for field in fields(Keeping)})


class KeepingKeywords(TypedDict, total=False):
    """The fields of `Keeping` as keywords."""

    out: str | Path | None
    label: str | None
    href: str | None
    tags: Sequence[str]
    baseline: str | None
    resume: str | Path | bool
    new_if_done: bool
    push_every: float
    push_grace: float
