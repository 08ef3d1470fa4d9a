"""Files of claims: what references say, piece by piece, for people to read, edit and keep."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from judge_eval import limits
from judge_eval.conversation import PlainTurn, transcript, turns_of
from judge_eval.data.files.jsonl import json_of_line
from judge_eval.data.files.opening import reading_file, steady
from judge_eval.digest import digest_json
from judge_eval.errors import DataError
from judge_eval.objects import number_text
from judge_eval.quotes import stands_in, uncovered
from judge_eval.safe_text import shortened
from judge_eval.schema import NO_CONVERSATION, Claim, Trace, Turn

_Key: TypeAlias = tuple[str, str | None, str]
_IMPORTANCE = {"vital": True, "okay": False, "ok": False}


@dataclass(frozen=True, slots=True)
class ClaimsEntry:
    """The claims of one reference, or of all references to a question."""

    query: str | None
    """The question; None where the entry goes by `qid` alone."""
    reference: str | None
    """The reference; None where the claims are those of every reference to the question."""
    claims: tuple[Claim, ...]
    history: tuple[PlainTurn, ...] = ()
    """The conversation before the question."""
    qid: str | None = None
    """The id of the trace, where the entry names one and no reference."""
    line: int = 0
    """The line number, from 1."""


class ClaimsFile:
    """Claims by question (with the conversation before it) and reference, as one JSON object a line.

    A line holds `query`, `reference` and `claims`, each with `text` and perhaps `id`, `vital` and
    `quote`; or, as AutoNuggetizer writes them, `qid`, `query` and `nuggets`, each with `text` and
    `importance` (`vital` or `okay`). A line without a reference is of every reference to its question.
    """

    def __init__(self, entries: Iterable[ClaimsEntry], name: str = "claims") -> None:
        self.name = name
        self.entries = tuple(entries)
        self._by_question: dict[_Key, ClaimsEntry] = {}
        self._by_id: dict[str, ClaimsEntry] = {}
        for entry in self.entries:
            first = entry
            if entry.query is not None:
                key = (entry.query, entry.reference, transcript(entry.history))
                first = self._by_question.setdefault(key, entry)
            if entry.qid is not None and first is entry:
                first = self._by_id.setdefault(entry.qid, entry)
            if first is not entry:
                fault = f"line {first.line} has claims of the same question and reference"
                raise DataError(fault, file=name, line=entry.line)

    @property
    def digest(self) -> str:
        """64 hexadecimal digits over the claims; order, spacing and quotes do not change it."""
        rows = [
            [entry.query, entry.reference, entry.qid, [[c.id, c.text, c.vital] for c in entry.claims], *entry.history]
            for entry in self.entries
        ]
        return digest_json(sorted(rows, key=str))

    def find(self, trace: Trace) -> tuple[Claim, ...] | None:
        """Return the claims of a trace: by question and reference, else by the question, else by its id."""
        keys = ((trace.query, reference, trace.conversation) for reference in (trace.reference, None))
        entry = next((entry for key in keys if (entry := self._by_question.get(key))), None)
        entry = entry or self._by_id.get(trace.id)
        if entry is not None and entry.query is not None and entry.query.split() != trace.query.split():
            raise DataError(
                f"qid {trace.id!r} is a trace that asks {shortened(trace.query, 100)!r}, and the claims are "
                f"about {shortened(entry.query, 100)!r}; the file belongs to other data",
                file=self.name,
                line=entry.line,
                field="query",
            )
        return None if entry is None else entry.claims

    def fill(self, trace: Trace) -> Trace:
        """Return a trace with its claims; one that the file lacks keeps those that it brings."""
        claims = self.find(trace)
        if claims is None:
            if trace.claims is not None:
                return trace
            after = " after this conversation" if trace.history else ""
            raise DataError(
                f"{self.name} has no claims of this question and reference{after}; `judge-eval claims` adds what is "
                "missing and leaves the rest as it is",
                field="claims",
            )
        filled = trace.replace(claims=claims)
        filled.__dict__.pop("digest", None)  # which is over the claims too
        return filled


def read_claims(path: str | Path) -> ClaimsFile:
    """Read a file of claims, which may be packed."""
    name = str(path)
    with steady(Path(path)) as plain, reading_file(name):
        data = plain.read_bytes()
    return ClaimsFile(_entries(data, name), name)


def claims_line(query: str, reference: str, claims: Sequence[Claim], history: Sequence[Turn] = ()) -> str:
    """Write the claims of a reference as a line, with what of the reference stands in no quote."""
    row: dict[str, Any] = {
        **({"history": [turn.model_dump() for turn in history]} if history else {}),
        "query": query,
        "reference": reference,
        "claims": [claim.model_dump(mode="json") for claim in claims],
    }
    if rest := uncovered(reference, [claim.quote for claim in claims]):
        row["uncovered"] = rest
    return json.dumps(row, ensure_ascii=False)


def _entries(data: bytes, name: str) -> Iterator[ClaimsEntry]:
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            if line.strip():
                yield _entry(json_of_line(line, number), number)
        except DataError as error:
            raise error.at(file=name, line=number) from None


def _entry(row: Any, number: int) -> ClaimsEntry:
    if not isinstance(row, Mapping):
        raise DataError("a line is an object with `query`, `reference` and `claims`")
    query, reference = _text(row, "query"), _text(row, "reference")
    qid = row.get("qid")
    if qid is not None:
        qid = str(number_text(qid))
    if query is None and qid is None:
        raise DataError("there is no `query`; claims belong to a question and its reference", field="query")
    field = "claims" if "claims" in row else "nuggets"
    rows = row.get(field)
    if not isinstance(rows, list):
        raise DataError("there is no list of `claims` (or of `nuggets`)", field=field)
    if len(rows) > limits.CLAIMS:
        raise DataError(f"more than {limits.CLAIMS:,} claims", field=field)
    claims = tuple(_claim(claim, place, field) for place, claim in enumerate(rows, 1))
    if len({claim.id for claim in claims}) != len(claims):
        raise DataError("an id occurs twice; ids must be unique among the claims of a reference", field=field)
    for claim in claims:
        if claim.quote and reference is not None and not stands_in(reference, claim.quote):
            raise DataError(
                f"the quote of claim {claim.id} is not in the reference; correct it or leave it out", field=field
            )
    conversation = turns_of(row.get("history") or [])
    if conversation is None:
        raise DataError(NO_CONVERSATION, field="history")
    return ClaimsEntry(query, reference, claims, tuple(conversation.turns), qid if reference is None else None, number)


def _text(row: Mapping[str, Any], field: str) -> str | None:
    value = row.get(field)
    if value is not None and not isinstance(value, str):
        raise DataError("not a text", field=field)
    return value


def _claim(item: Any, place: int, field: str) -> Claim:
    where = f"{field}.{place}"
    if isinstance(item, str):
        item = {"text": item}
    if not isinstance(item, Mapping):
        raise DataError("a claim is a text, or an object with `text`", field=where)
    data = dict(item)
    if field == "nuggets":
        importance = data.get("importance", "vital")
        if importance not in _IMPORTANCE:
            raise DataError(f"the importance {importance!r} is unknown; write vital or okay", field=where)
        data = {"text": data.get("text"), "vital": _IMPORTANCE[importance]}
    data["id"] = number_text(data.get("id", place))
    if isinstance(data.get("text"), str) and not data["text"].strip():
        raise DataError("a claim without text; write it, or remove the claim", field=f"{where}.text")
    try:
        return Claim.parse(data)
    except DataError as error:
        raise error.at(field=f"{where}.{error.field}" if error.field else where) from None
