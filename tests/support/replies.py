"""Replies as a judge writes them, right and wrong."""

from __future__ import annotations

import json
from typing import Any

from judge_eval.wire import Completion


def fields(verdict: Any = True, evidence: str = "", reason: str = "Because.", **more: Any) -> dict[str, Any]:
    """Return the fields of a binary reply, in the contract's order."""
    return {"evidence": evidence, "reason": reason, "instruction_in_chunk": False, "verdict": verdict, **more}


def graded(grade: Any, evidence: str = "", reason: str = "Because.") -> dict[str, Any]:
    """Return the fields of a graded reply."""
    return {"evidence": evidence, "reason": reason, "instruction_in_chunk": False, "grade": grade}


def one(verdict: Any = True, evidence: str = "", reason: str = "Because.") -> Completion:
    """Return a readable pointwise reply."""
    return Completion(json.dumps(fields(verdict, evidence, reason)))


def many(*items: dict[str, Any]) -> Completion:
    """Return a listwise reply of these entries."""
    return Completion(json.dumps({"verdicts": list(items)}))


def entry(number: Any, verdict: Any = True, evidence: str = "quote", **more: Any) -> dict[str, Any]:
    """Return one entry of a listwise reply."""
    return {"id": number, **fields(verdict, evidence), **more}
