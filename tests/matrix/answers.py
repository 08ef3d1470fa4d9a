"""The judges of the matrix: a server on loopback that answers chats and decisions.

What a model says of a chunk follows from its name and the chunk's text, so every way to the same question
gives the same verdict, and two models disagree now and then.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.matrix.inside import Canned, ChatServer, DecisionServer, completion, decide, shape_of

BY_CLAIMS = ("split", "support", "supports", "together")
"""The names of the reply forms that are about claims."""


SAID = "Which thing is the largest?"
"""What was said before the second question."""


def rows(count: int = 3, chunks: int = 3, *, claims: bool = False) -> list[dict[str, Any]]:
    """Make traces whose chunks all differ; with `claims` they bring the claims of their references."""
    made = []
    for n in range(count):
        reference = f"Thing {n} is made of oak. Thing {n} weighs {n + 2} kilos."
        row: dict[str, Any] = {
            "id": f"q{n}",
            "query": f"What is thing {n} made of, and what does it weigh?",
            "reference": reference,
            "chunks": [
                {"id": f"q{n}-{k}", "text": f"Passage {k} of text {n} says this of thing {n}: oak, {k + n}."}
                for k in range(chunks)
            ],
        }
        if n == 1:  # one question follows others
            row["history"] = [
                {"role": "user", "content": SAID},
                {"role": "assistant", "content": "The one in the hall."},
            ]
        if claims:
            texts = [f"Thing {n} is made of oak.", f"Thing {n} weighs {n + 2} kilos."]
            row["claims"] = [{"id": str(i), "text": text} for i, text in enumerate(texts, 1)]
        made.append(row)
    return made


def verdict(model: str, text: str, deciding: str) -> dict[str, Any]:
    """Say what a model thinks of a chunk; a relevant verdict in four quotes what the chunk does not hold."""
    point = decide(f"{model} on {text}")
    answer: bool | int = point % 4 if deciding == "grade" else point % 2 == 1
    quote = " ".join(text.split()[:6]) if point % 8 < 6 else "words that stand nowhere"
    return {
        "evidence": quote if answer else "",
        "reason": f"It is so, says {point}.",
        "instruction_in_chunk": False,
        deciding: answer,
    }


def sureness(model: str, text: str) -> float:
    """Say how sure a model is of what it thinks of a chunk: from .55 to .99."""
    return 0.55 + 0.44 * decide(f"{model} doubts {text}") / 255


def reply(body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a chat body, whichever form it asks by."""
    asked = next(str(m["content"]) for m in body["messages"] if m["role"] == "user")
    blocks = re.findall(r"<(\w+)[ \d]*>\n(.*?)\n</\1", asked, re.DOTALL)
    texts = [text for name, text in blocks if name == "chunk"]
    form = str(((body.get("response_format") or {}).get("json_schema") or {}).get("name"))
    if form in BY_CLAIMS:
        return by_claims(form, dict(blocks), texts)
    deciding, listwise = shape_of(body)
    if not listwise:
        return verdict(body["model"], texts[0], deciding)
    each = enumerate(texts, 1)
    return {"verdicts": [{"id": n, **verdict(body["model"], text, deciding)} for n, text in each]}


def by_claims(form: str, blocks: Mapping[str, str], texts: Sequence[str]) -> dict[str, Any]:
    """Answer what is asked about claims."""
    if form == "split":
        sentences = re.split(r"(?<=\.)\s+", blocks["reference"])
        return {"claims": [{"quote": each, "claim": each, "vital": True} for each in sentences]}
    claims = re.findall(r"^\d+\. (.*)$", blocks["claims"], re.MULTILINE)
    if form == "together":
        quote = " ".join(texts[0].split()[:6])
        covered = [decide(claim) % 2 == 1 for claim in claims]
        return {
            "claims": [
                {"id": n, "quotes": [quote] if each else [], "covered": each} for n, each in enumerate(covered, 1)
            ]
        }
    values = [_row(claims, text) for text in texts]
    if form == "support":
        return values[0]
    return {"chunks": [{"id": number, **row} for number, row in enumerate(values, 1)]}


def _row(claims: Sequence[str], text: str) -> dict[str, Any]:
    cells = []
    for number, claim in enumerate(claims, 1):
        support = ("", "full", "partial", "contradicts")[decide(claim + text) % 4]
        if support:
            cells.append({"id": number, "quote": " ".join(text.split()[:6]), "support": support})
    return {"instruction_in_chunk": False, "claims": cells}


def plainly(body: bytes | str) -> str:
    """Write a body without `stream` and the marks of its fences, which follow from the server's address too."""
    fields = {name: value for name, value in json.loads(body).items() if name != "stream"}
    return re.sub(r" \d{9}>", ">", json.dumps(fields, sort_keys=True))


class Answering(DecisionServer):
    """A server of chats and of decisions under one address, which counts what it is asked.

    Attributes:
        before: Called with the number of each call, counted from 1, before it is answered; a call for which
            it returns False is never answered.
    """

    def __init__(self) -> None:
        super().__init__("openai")
        self.path = ("/chat/completions", "/decisions")  # type: ignore[assignment]  # `endswith` takes several
        self.before: Callable[[int], bool] | None = None
        self.bodies: Counter[str] = Counter()
        """How often each body came, as `plainly` writes it."""

    @property
    def asked(self) -> int:
        """How many requests were answered."""
        return self.bodies.total()

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        if self.before is not None and not self.before(self.asked + 1):
            return Canned(fate="hang")
        self.bodies[plainly(raw)] += 1
        if "messages" in json.loads(raw):
            return ChatServer.answer(self, raw, headers)
        return super().answer(raw, headers)

    def _usual(self, canned: Canned, body: Mapping[str, Any]) -> Canned:
        return Canned(canned.status, canned.headers, completed(body))


def completed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Write the completion of a chat body, with the probabilities of its verdicts if they are asked for."""
    fields = reply(body)
    done = completion(body, json.dumps(fields))
    asked = next(str(m["content"]) for m in body["messages"] if m["role"] == "user")
    texts = re.findall(r"<chunk[ \d]*>\n(.*?)\n</chunk", asked, re.DOTALL)
    tokens = (done["choices"][0]["logprobs"] or {}).get("content") or ()
    read, place = "", 0
    for token in tokens:
        if read.endswith(('"verdict": ', '"grade": ')):
            sure = sureness(body["model"], texts[place])
            other = {"true": "false", "false": "true"}.get(token["token"]) or str((int(token["token"]) + 1) % 4)
            token["logprob"] = math.log(sure)
            token["top_logprobs"] = [
                {"token": token["token"], "logprob": math.log(sure)},
                {"token": other, "logprob": math.log(1 - sure)},
            ]
            place += 1
        read += token["token"]
    return done
