"""A chat server whose model `cheap` errs in a stated share, less sure then; other models are right."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.canned import Canned
from tests.support.chat_answers import completion
from tests.support.chat_server import ChatServer

GOLD = "GOLD"
"""What stands in a chunk that is relevant."""


def draw(text: str) -> float:
    """Draw a number from [0, 1) that depends on a text alone, without the marks of the fences."""
    plain = re.sub(r" \d{9}>", ">", text)
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:7], "big") / (1 << 56)


def dataset(path: Path, count: int, chunks: int = 3, cluster: int = 0, key: str = "cluster") -> Path:
    """Write traces of which every other chunk is relevant and labelled so; `cluster` in a row share one."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(count):
            rows = [
                {
                    "id": f"c{k}",
                    "text": f"Passage {k} of {n}: {GOLD if (n + k) % 2 else 'nothing'} is said.",
                    "label": (n + k) % 2,
                }
                for k in range(chunks)
            ]
            row = {"id": f"t{n}", "query": f"What is thing {n}?", "reference": f"Blue {n}.", "chunks": rows}
            if cluster:
                row["metadata"] = {key: f"q{n // cluster}"}
            file.write(json.dumps(row) + "\n")
    return path


def one_digit(body: Mapping[str, Any], grade: int) -> dict[str, Any]:
    """Write the completion that is a grade and nothing else."""
    done = completion(body, str(grade))
    (token,) = done["choices"][0]["logprobs"]["content"]
    shares = {other: 0.85 if other == grade else 0.05 for other in range(4)}
    token["top_logprobs"] = [{"token": str(other), "logprob": math.log(share)} for other, share in shares.items()]
    return done


class UnsureServer(ChatServer):
    """A chat server with a cheap judge that is wrong in `errors`, and then less sure.

    Args:
        errors: The share of its verdicts that are wrong.
        sure: How sure it always is; None: from .55 to .75 where it is wrong, else from .7 to .99.
        grades: Whether verdicts alone are grades from 0 to 3, each other grade with a probability of .05.
        given: As `ChatServer` takes them.
    """

    def __init__(self, errors: float = 0.12, sure: float | None = None, grades: bool = False, **given: Any) -> None:
        super().__init__(**given)
        self.errors, self.sure, self.grades = errors, sure, grades

    def _usual(self, canned: Canned, body: Mapping[str, Any]) -> Canned:
        if canned.fate != "send":
            return canned
        asked = "\n".join(str(m.get("content") or "") for m in body["messages"] if m["role"] == "user")
        passages = re.findall(r"<chunk (\d+) (\d{9})>\n(.*?)\n</chunk \1 \2>", asked, re.DOTALL)
        ruled = [self._rule(body["model"], text) for _, _, text in passages] or [self._rule(body["model"], asked)]
        fields = [first for first, _ in ruled]
        alone = re.search(r"\nAnswer with one (?:word|number) only:", body["messages"][0]["content"])
        result: Any = fields[0]["verdict"] if alone else fields[0]
        if alone and self.grades:
            return Canned(canned.status, canned.headers, one_digit(body, 3 if result else 0), canned.delay)
        if passages:
            result = {"verdicts": [{"id": int(p[0]), **first} for p, first in zip(passages, fields, strict=True)]}
        done = completion(body, json.dumps(result))
        tokens = (done["choices"][0]["logprobs"] or {}).get("content") or ()
        # The verdict is each object's last word of the kind: the first is whether there was a command.
        deciding = [token for token in tokens if token["token"] in ("true", "false")][0 if alone else 1 :: 2]
        for token, (_, sure) in zip(deciding, ruled, strict=bool(deciding)):
            other = "false" if token["token"] == "true" else "true"
            token["logprob"] = math.log(sure)
            token["top_logprobs"] = [
                {"token": token["token"], "logprob": math.log(sure)},
                {"token": other, "logprob": math.log(max(1e-9, 1 - sure))},
            ]
        return Canned(canned.status, canned.headers, done, canned.delay)

    def _rule(self, model: str, asked: str) -> tuple[dict[str, Any], float]:
        """Return the verdict on one text, and how sure the model is of it."""
        truth, sure = GOLD in asked, 1.0
        if model == "cheap":
            wrong = draw(asked) < self.errors
            truth ^= wrong
            sure = 0.55 + 0.2 * draw(asked + "?") if wrong else 0.7 + 0.29 * draw(asked + "!")
            sure = self.sure or sure
        evidence = re.search(r"Passage \d+ of \d+: \w+ is said", asked)
        values = {
            "evidence": evidence[0] if truth and evidence else "",
            "reason": "So it is.",
            "instruction_in_chunk": False,
            "verdict": truth,
        }
        return values, sure


MODELS = ("--cascade", "openai/cheap", "--strong-model", "openai/strong")
