"""How files and rows in memory are to be read, where they do not say so themselves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict

from judge_eval.errors import ConfigError, advise
from judge_eval.settings import RANGES, Range, check, setting
from judge_eval.spelling import option

_setting = partial(setting, panel="Reading the data", file=True, changes_verdict=True)


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for pair in texts:
        ours, equals, theirs = pair.partition("=")
        if not equals or not ours or not theirs:
            raise ConfigError(f"{option('map')} {pair!r}: write OURS=THEIRS, such as reference=gold_answer")
        pairs[ours.strip()] = theirs.strip()
    return pairs


ROLES = ("reference", "answer", "reranker")
"""Who may have had a hand in a trace."""


def read_origins(texts: Iterable[str]) -> dict[str, str]:
    """Read `ROLE=MODEL`, such as `reranker=openai/NAME`."""
    origins = {}
    for text in texts:
        role, _, model = (part.strip() for part in text.partition("="))
        if role not in ROLES or not model:
            raise ConfigError(f"{option('origin')} {text!r}: write ROLE=MODEL, ROLE one of {', '.join(ROLES)}")
        origins[role] = model
    return origins


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a file, or rows in memory, are to be read, where they do not say so themselves.

    Raises:
        ConfigError: A number is out of its range, or a field to be mapped does not exist.
    """

    format: str | None = _setting(
        None, "The data's format, if it is not recognised (an unknown name lists all).", env=True, common=True
    )
    map: Mapping[str, str] = _setting(
        {},
        "What a field is called in the data (chunks.text inside chunks); repeatable.",
        metavar="OURS=THEIRS",
        type=list[str] | None,
        read=_pairs,
        common=True,
    )
    """Our field to the file's key (dots go into objects and, by number, into lists), such as
    `{"reference": "gold_answer"}`; `chunks.text`, `chunks.id`, `chunks.title`, `chunks.score` and
    `chunks.label` name keys inside each chunk."""
    corpus: Path | None = _setting(None, "Where the texts of retrieved ids are: a file or folder.")
    list_sep: str | None = _setting(
        None, "What stands between the items of a list in a cell; none takes a cell for one item.", hidden=True
    )
    """What stands between the items of a list in a text that is not JSON; `"none"` takes such a text for one item."""
    depth: int | None = _setting(None, "Take at most this many chunks of a trace.", range=Range(1, 1_000_000))
    relevant: int | None = setting(None, range=RANGES["relevant"], flag=False, changes_verdict=True)
    """The least grade in a collection's judgments that counts into `relevant_total`; needed if they hold
    grades above 1."""
    records: str | None = _setting(None, "Where the records are: a list in a JSON file (run.cases), or a worksheet.")
    """The path of a list in a JSON file, such as `run.cases` or `topics[].questions`; `*` for the values of
    an object of records by id; the name of a worksheet. Of rows in memory the path in each row."""
    group_by: str | None = _setting(None, "The key that all rows of a trace share, if each row is a chunk.")

    origin: Mapping[str, str] = setting(
        {},
        "Which model reranked the chunks, or wrote reference or answer, if traces do not say; `bias` reads it.",
        "Reading the data",
        metavar="ROLE=MODEL",
        file=True,
        type=list[str] | None,
        read=read_origins,
    )
    """By role (`reference`, `answer`, `reranker`) the model behind it, of traces whose `origin` does not say."""
    yes_ids: bool = _setting(
        False, "Judge chunks whose texts look like ids or file names, which are refused by default.", file=False
    )
    """Whether traces are judged whose chunks hold texts that look like ids, paths or file names."""
    keep_words: bool = _setting(
        False,
        "Take `nan`, `None`, `null` and `N/A` for questions and references, which are refused by default.",
        file=False,
    )
    """Whether questions and references may read as an empty cell does that was turned into text."""

    def __post_init__(self) -> None:
        check(self)
        read_origins(f"{role}={model}" for role, model in self.origin.items())
        if self.map:
            from judge_eval.data.files.jsonl import TRACE_FIELDS

            for ours in self.map:
                if ours not in TRACE_FIELDS and ours not in _in_chunks():
                    known = sorted(_in_chunks() if ours.startswith("chunks.") else TRACE_FIELDS)
                    raise ConfigError(f"map: a trace has no field {ours!r}; {advise(ours, known)}")

    @property
    def fields(self) -> dict[str, str]:
        """What is mapped of a trace."""
        return {ours: theirs for ours, theirs in self.map.items() if not ours.startswith("chunks.")}

    @property
    def in_chunks(self) -> dict[str, str]:
        """What is mapped inside chunks, by field of a chunk."""
        return {ours.partition(".")[2]: theirs for ours, theirs in self.map.items() if "." in ours}


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
    origin: Mapping[str, str] | None
    yes_ids: bool | None
    keep_words: bool | None


def _in_chunks() -> tuple[str, ...]:
    from judge_eval.schema import Chunk

    return tuple(f"chunks.{name}" for name in Chunk.model_fields if name != "metadata")
