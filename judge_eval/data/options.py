"""How files and rows in memory are to be read, where they do not say so themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from judge_eval.data.files.jsonl import TRACE_FIELDS
from judge_eval.errors import ConfigError, advise
from judge_eval.ranges import check_ranges
from judge_eval.schema import Chunk

Verb = TypeVar("Verb", bound=Callable[..., Any])

IN_CHUNKS = tuple(f"chunks.{name}" for name in Chunk.model_fields if name != "metadata")
"""What `map` reaches inside chunks."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a file, or rows in memory, are to be read, where they do not say so themselves.

    Args:
        format: The shape's name, in place of looking at the keys.
        map: Our field to the file's key (dots go into objects and, by number, into lists), such as
            `{"reference": "gold_answer"}`; `chunks.text`, `chunks.id`, `chunks.title`, `chunks.score` and
            `chunks.label` name keys inside each chunk.
        corpus: Where the texts of retrieved ids are: a file or a folder.
        list_sep: What stands between the items of a list in a text that is no JSON; `"none"` takes such a
            text for one item.
        depth: The most chunks of a trace to take, from the top; None takes all.
        relevant: The least grade in a collection's judgments that counts into `relevant_total`; needed where
            they hold grades above 1.
        records: Where the records stand, where that is not plain: the path of a list in a JSON file, such as
            `run.cases` or `topics[].questions`, or a worksheet's name; of rows in memory the path
            in each row.
        group_by: The key whose value is the same in all rows of a trace, where a row is a chunk.

    Raises:
        ConfigError: A number is out of its range, or a field to be mapped does not exist.
    """

    format: str | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    corpus: Path | None = None
    list_sep: str | None = None
    depth: int | None = None
    relevant: int | None = None
    records: str | None = None
    group_by: str | None = None

    def __post_init__(self) -> None:
        check_ranges({"depth": self.depth, "relevant": self.relevant})
        for ours in self.map:
            if ours not in TRACE_FIELDS and ours not in IN_CHUNKS:
                known = sorted(IN_CHUNKS if ours.startswith("chunks.") else TRACE_FIELDS)
                raise ConfigError(f"map: a trace has no field {ours!r}; {advise(ours, known)}")

    @property
    def fields(self) -> dict[str, str]:
        """What is mapped of a trace."""
        return {ours: theirs for ours, theirs in self.map.items() if ours in TRACE_FIELDS}

    @property
    def in_chunks(self) -> dict[str, str]:
        """What is mapped inside chunks, by field of a chunk."""
        known = {ours.partition(".")[2]: theirs for ours, theirs in self.map.items()}
        return {ours: theirs for ours, theirs in known.items() if ours}


class ReadKeywords(TypedDict, total=False):
    """The fields of `ReadOptions` as the keywords that `open_dataset` takes."""

    format: str | None
    map: Mapping[str, str] | None
    corpus: Path | str | None
    list_sep: str | None
    depth: int | None
    relevant: int | None
    records: str | None
    group_by: str | None


def read_options(given: ReadKeywords) -> ReadOptions:
    """Make options of keywords, of which None stands for what is not given.

    Raises:
        ConfigError: See `ReadOptions`; or there is no such option.
    """
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    known = [one.name for one in fields(ReadOptions)]
    for name in values:
        if name not in known:
            raise ConfigError(f"no option {name!r} for reading; {advise(name, known)}")
    if "corpus" in values:
        values["corpus"] = Path(values["corpus"])
    return ReadOptions(**values)


def reading(verb: Verb) -> Verb:
    """Have `help()` and editors show the keywords of `ReadKeywords` one by one in a function's signature."""
    shown = inspect.signature(verb)
    named = [one for one in shown.parameters.values() if one.kind is not one.VAR_KEYWORD]
    each = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=one.type)
        for one in fields(ReadOptions)
    ]
    verb.__signature__ = shown.replace(parameters=[*named, *each])  # type: ignore[attr-defined]
    return verb
