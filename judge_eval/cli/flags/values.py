"""What becomes of the text of flags: names, pairs, lists, told of clearly where they are wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judge_eval.errors import ConfigError

if TYPE_CHECKING:
    from judge_eval.data.reading import ReadOptions


def prompt_name(given: str) -> str | Path:
    """Tell a prompt's id from a file: `file:PATH` is a file, everything else an id."""
    return Path(given[5:]) if given.startswith("file:") else given


def split_metrics(given: Sequence[str] | None) -> list[str]:
    """Split `AP@5,NDCG(gain=exp)@10` at the commas and spaces outside parentheses."""
    parts = (part for text in given or () for part in re.split(r"[,\s]+(?![^()]*\))", text))
    return [part for part in parts if part]


def split_params(given: Sequence[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE pairs; a value is JSON where it reads as JSON, else text.

    Raises:
        ConfigError: A pair has no `=`.
    """
    out: dict[str, Any] = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--param {pair!r}: write NAME=VALUE, such as temperature=0")
        try:
            out[name.strip()] = json.loads(value)
        except ValueError:
            out[name.strip()] = value
    return out


def split_shard(given: str | None) -> tuple[int, int] | None:
    """Read `2/8` as the second of eight parts.

    Raises:
        ConfigError: It is not two whole numbers, the first from 1 to the second.
    """
    if given is None:
        return None
    index, slash, count = given.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise ConfigError(f"--shard {given!r}: write I/N with I from 1 to N, such as 2/8")
    return int(index), int(count)


def read_options(
    format: str | None,
    map: Sequence[str] | None,
    corpus: Path | None,
    list_sep: str | None,
    depth: int | None = None,
    relevant: int | None = None,
) -> ReadOptions:
    """Gather the flags on how the data are read.

    Raises:
        ConfigError: A pair has no `=`.
    """
    from judge_eval.data.reading import ReadOptions

    pairs = {}
    for pair in map or ():
        ours, equals, theirs = pair.partition("=")
        if not equals or not ours or not theirs:
            raise ConfigError(f"--map {pair!r}: write OURS=THEIRS, such as reference=gold_answer")
        pairs[ours.strip()] = theirs.strip()
    return ReadOptions(format, pairs, corpus, list_sep, depth, relevant)


def need_model(model: str | None) -> str:
    """Return the model, or say how to name one.

    Raises:
        ConfigError: None was named.
    """
    if not model:
        raise ConfigError(
            "no model was named; give --model openai/NAME (or fake/overlap to try it offline), "
            "set JUDGE_EVAL_MODEL, or write `model = ...` under [tool.judge_eval] in pyproject.toml"
        )
    return model
