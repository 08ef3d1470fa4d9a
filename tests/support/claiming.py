"""Replies about claims, as scripts write them and as a chat server on loopback gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from judge_eval import Trace
from judge_eval.judges import Claims
from judge_eval.schema import Claim
from judge_eval.wire import Completion, DecisionAnswer
from tests.support.driving import drive

CLAIMS = (
    Claim(id="1", text="Anna Berg directed The Long Harvest.", quote="Anna Berg directed The Long Harvest"),
    Claim(id="2", text="Anna Berg was born in Uppsala.", quote="was born in Uppsala"),
    Claim(id="3", text="Anna Berg was born in 1931.", vital=False, quote="in 1931"),
)
QUERY = "Where was the director of The Long Harvest born?"
REFERENCE = "Anna Berg directed The Long Harvest; she was born in Uppsala, in 1931."


def split(*claims: Any, vital: bool = True) -> Completion:
    """Return a reply that splits: each claim is its quote, or (quote, claim), or the fields themselves."""
    rows = []
    for item in claims:
        quote, text = item if isinstance(item, tuple) else (item, item)
        rows.append(item if isinstance(item, dict) else {"quote": quote, "claim": text, "vital": vital})
    return Completion(json.dumps({"claims": rows}))


def cell(number: Any, support: Any = "full", quote: Any = "these are words", **more: Any) -> dict[str, Any]:
    """Return one entry of a row."""
    return {"id": number, "quote": quote, "support": support, **more}


def row(*cells: Any, steered: Any = False) -> dict[str, Any]:
    """Return the fields of a row."""
    return {"instruction_in_chunk": steered, "claims": list(cells)}


def said(fields: Any) -> Completion:
    """Return a reply of these fields."""
    return Completion(json.dumps(fields))


def rows(*each: dict[str, Any]) -> Completion:
    """Return a reply about the chunks of a trace, in their order."""
    return said({"chunks": [{"id": number, **first} for number, first in enumerate(each, 1)]})


def together(*covered: tuple[Sequence[str], Any]) -> Completion:
    """Return a reply about all chunks: of each claim the quotes, and whether it is covered."""
    entries = enumerate(covered, 1)
    return said({"claims": [{"id": n, "quotes": list(quotes), "covered": first} for n, (quotes, first) in entries]})


def decided(*shares: float | None) -> Completion:
    """Return the answers of a decision model to statements; None declines."""
    return Completion(
        "",
        answers=tuple(
            DecisionAnswer((), "refused", "declined") if share is None else DecisionAnswer((1 - share, share))
            for share in shares
        ),
    )


def asked_of(body: Mapping[str, Any]) -> str:
    """Return which form a chat body asks by: `split`, `support`, `supports` or `together`."""
    return str(body["response_format"]["json_schema"]["name"])


def by_words(body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a chat body: sentences are claims, and a chunk supports a claim whose last word it holds."""
    user = next(str(m["content"]) for m in body["messages"] if m["role"] == "user")
    blocks = re.findall(r"<(\w+)[ \d]*>\n(.*?)\n</\1", user, re.DOTALL)
    held = dict(blocks)
    if asked_of(body) == "split":
        sentences = [item for item in re.split(r"(?<=\.)\s+", held["reference"]) if item]
        return {"claims": [{"quote": item, "claim": item, "vital": True} for item in sentences]}
    claims = re.findall(r"^\d+\. (.*)$", held["claims"], re.MULTILINE)
    chunks = [text for name, text in blocks if name == "chunk"]
    if asked_of(body) == "together":
        return {"claims": [{"id": n, "quotes": [], "covered": False} for n in range(1, len(claims) + 1)]}
    values = [
        row(
            *(
                cell(number, "full", " ".join(text.split()[:6]))
                for number, claim in enumerate(claims, 1)
                if claim.split()[-1].strip(".") in text
            )
        )
        for text in chunks
    ]
    if asked_of(body) == "support":
        return values[0]
    return {"chunks": [{"id": number, **first} for number, first in enumerate(values, 1)]}


DIRECTED = "The Long Harvest is a film that Anna Berg directed."
BORN = "Anna Berg was born in Uppsala in 1931."
BREAD = "Bread is baked in an oven."
ONE_BY_ONE = Claims()


def trace(*texts: str, **more: Any) -> Trace:
    """Make a trace of the common question, with its claims."""
    given = {"id": "t", "query": QUERY, "reference": REFERENCE, "claims": CLAIMS, "chunks": list(texts)}
    return Trace.parse({**given, **more})


def judged(*cells: dict[str, Any], text: str = BORN, **how: Any) -> Any:
    """Return the outcome of one chunk with this row."""
    judgment, _ = drive(Claims(**how), trace(text), [[said(row(*cells))]])
    return judgment.outcomes[0]
