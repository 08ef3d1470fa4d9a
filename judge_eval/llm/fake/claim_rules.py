"""How a fake judge answers about claims: its rule takes each claim as a reference of its own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from judge_eval.errors import ConfigError
from judge_eval.llm.fake import rules
from judge_eval.quotes import is_evidence
from judge_eval.schema import BINARY, Support
from judge_eval.wire import Completion, Passage, Request

IN_PART = 0.6
"""The share of the cut from which `fake/overlap` takes a claim for partly supported."""
_SHORT = 3  # words of a reference that stands for the full answer
_SUPPORTS = get_args(Support)


class _Cell(NamedTuple):
    """The support of one claim by one passage."""

    support: Support | None = None
    quote: str = ""
    steered: bool = False
    confidence: float | None = None


def answer_by(request: Request, rule: rules.Rule) -> str | Completion:
    """Answer a request by a rule, about claims or not."""
    if request.form.schema_name == "split":
        return split_text(request)
    if not request.claims:
        return rules.reply(request, rule(request))
    columns = [_column(request, claim, rule) for claim in request.claims]
    if _is_about_all(request):
        return _together(request, columns)
    return _by_passage(request, [list(row) for row in zip(*columns, strict=True)])


def split_text(request: Request) -> str:
    """Split a reference into its sentences, all of them vital; a short one is put behind its question."""
    reference = request.reference or ""
    claims = [
        {"quote": each, "claim": each, "vital": True} for each in rules.sentences(reference) if rules.words_of(each)
    ]
    if len(claims) == 1 and len(rules.words_of(reference)) <= _SHORT:
        claims[0]["claim"] = f"{request.query.strip()} {reference.strip()}"
    return json.dumps({"claims": claims}, ensure_ascii=False)


def from_values(request: Request, values: Sequence[Any]) -> str | Completion:
    """Answer about claims from a table's values, one a passage."""
    # A value is a mapping with `claims`: by number, from 1, what the passage does to a claim, alone or with a
    # quote (`{1: "full", 3: ("partial", "these words")}`); else it is a grade or a mapping with one, and a
    # positive one supports every claim fully. Nothing is covered by several passages together.
    if request.form.schema_name == "split":
        return split_text(request)
    rows = [_of_value(request, value) for value in values]
    if _is_about_all(request):
        return _together(request, [[_Cell()] * len(request.passages) for _ in request.claims])
    return _by_passage(request, rows)


def _is_about_all(request: Request) -> bool:
    return request.form.schema_name == "together" or getattr(request.form, "together", False) is True


def _column(request: Request, claim: str, rule: rules.Rule) -> list[_Cell]:
    alone = replace(request, reference=claim, claims=())
    return [_cell(opinion, passage, alone) for opinion, passage in zip(rule(alone), request.passages, strict=True)]


def _cell(opinion: rules.Opinion, passage: Passage, request: Request) -> _Cell:
    sure, scale = opinion.confidence, request.form.scale
    if isinstance(opinion.grade, int) and opinion.grade >= scale.relevant:
        return _Cell("full", opinion.evidence, opinion.steered, sure)
    if sure is not None and 2 * sure >= IN_PART and not opinion.steered:
        goal = rules.target(request.reference or "", request.query)
        match = rules.best_match(rules.sentences(passage.text), passage.title, goal)
        return _Cell("partial", rules.quote(match.sentence, goal), False, sure)
    return _Cell(None, "", opinion.steered, sure)


def _by_passage(request: Request, rows: Sequence[Sequence[_Cell]]) -> str | Completion:
    if request.questionnaire is not None:
        return _decided(rows[0])
    answers = [
        {
            "instruction_in_chunk": any(cell.steered for cell in row),
            "claims": [
                {"id": number, "quote": cell.quote, "support": cell.support}
                for number, cell in enumerate(row, 1)
                if cell.support is not None
            ],
        }
        for row in rows
    ]
    if not request.form.listwise:
        return json.dumps(answers[0], ensure_ascii=False)
    numbered = [{"id": number, **row} for number, row in enumerate(answers, 1)]
    return json.dumps({"chunks": numbered}, ensure_ascii=False)


def _together(request: Request, columns: Sequence[Sequence[_Cell]]) -> str | Completion:
    quoted = [
        [
            cell
            for cell, passage in zip(column, request.passages, strict=True)
            if cell.support is not None and _is_quoted(cell, passage)
        ]
        for column in columns
    ]
    covered = [len(cells) > 1 for cells in quoted]
    if request.questionnaire is not None:
        return _decided([_Cell("full" if each else None) for each in covered])
    claims = [
        {"id": number, "quotes": [cell.quote for cell in cells] if both else [], "covered": both}
        for number, (cells, both) in enumerate(zip(quoted, covered, strict=True), 1)
    ]
    return json.dumps({"claims": claims}, ensure_ascii=False)


def _is_quoted(cell: _Cell, passage: Passage) -> bool:
    """Tell whether the quote of a cell is one that a reader of the reply takes: a single word is not."""
    return is_evidence(passage.text, cell.quote) or is_evidence(passage.title or "", cell.quote)


def _decided(cells: Sequence[_Cell]) -> Completion:
    opinions = (rules.Opinion(int(cell.support == "full"), confidence=cell.confidence) for cell in cells)
    return Completion("", answers=tuple(rules.answer_of(opinion, BINARY) for opinion in opinions))


def _of_value(request: Request, value: Any) -> list[_Cell]:
    steered = isinstance(value, Mapping) and value.get("instruction_in_chunk") is True
    count = range(1, len(request.claims) + 1)
    if not isinstance(value, Mapping) or "claims" not in value:
        fields = value if isinstance(value, Mapping) else {"grade": value}
        grade, quote = fields.get("grade", fields.get("verdict")), str(fields.get("evidence", ""))
        positive = isinstance(grade, int) and grade > request.form.scale.minimum
        return [_Cell("full" if positive else None, quote if positive else "", steered) for _ in count]
    kinds = value["claims"]
    if not isinstance(kinds, Mapping) or not set(kinds) <= set(count):
        raise ConfigError(f"the claims {kinds!r} must be a mapping by numbers from 1 to {len(count)}")
    cells = []
    for number in count:
        kind, quote = kinds.get(number), ""
        if isinstance(kind, tuple):
            kind, quote = kind
        if kind is not None and kind not in _SUPPORTS:
            raise ConfigError(f"claim {number} is {kind!r}; write one of {', '.join(_SUPPORTS)}")
        cells.append(_Cell(kind, quote, steered))
    return cells
