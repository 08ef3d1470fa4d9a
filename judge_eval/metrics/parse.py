"""From a metric's text to its value."""

from __future__ import annotations

import difflib
import re
from typing import Literal

from judge_eval.errors import UnknownNameError
from judge_eval.metrics.base import MAX_CUTOFF, Metric, misnamed
from judge_eval.metrics.plugins import plugin_names, spec_of
from judge_eval.metrics.spec import Value
from judge_eval.metrics.specs import ALIASES, SPECS

SHAPE = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*)\s*(?:\((?P<inside>[^()]*)\))?\s*(?:@(?P<k>.*))?"
)
TREC_CUT = re.compile(r"(?P<name>[A-Za-z_]+)_(?P<k>[0-9]+)")
WHOLE = re.compile(r"[1-9][0-9]*")
SHARE = re.compile(r"[01]?\.[0-9]+|0")


def parse_metric(text: str | Metric) -> Metric:
    """Read a metric's name; `parse_metric(str(m)) == m`.

    Upper and lower case matter, since `map` is trec_eval's and `MAP` the RAG literature's.

    Args:
        text: A metric, or a name such as `AP@5`, `NDCG(gain=exp)@10`, `map_cut_5`, `P_5(rel=2)`.

    Raises:
        UnknownNameError: There is no such metric, parameter or value; the message says what would be right.
    """
    if isinstance(text, Metric):
        return text
    stripped = text.strip()
    shape = SHAPE.fullmatch(stripped)
    if shape is None:
        raise misnamed(
            text, "write a name, its parameters and its cutoff, as in 'AP@5' or 'NDCG(gain=exp)@10'"
        )
    name, inside, k = shape["name"], shape["inside"], shape["k"]
    given = _parameters(stripped, inside)
    if k is None:
        cut = TREC_CUT.fullmatch(name)
        if cut and ("trec", cut["name"]) in SPECS:
            return Metric(cut["name"], _cutoff(stripped, cut["k"], f"{cut['name']}_5"), given, "trec")
    family: Literal["rag", "trec"] = "rag"
    name = ALIASES.get(name, name)
    if ("rag", name) not in SPECS:
        if k is None and ("trec", name) in SPECS:
            family = "trec"
        elif spec_of("rag", name) is None:
            raise _unknown(stripped, name, k)
    return Metric(name, None if k is None else _cutoff(stripped, k, f"{name}@5"), given, family)


def _cutoff(text: str, digits: str, example: str) -> int:
    if not WHOLE.fullmatch(digits) or len(digits) > len(str(MAX_CUTOFF)) or int(digits) > MAX_CUTOFF:
        raise misnamed(text, f"a cutoff is a whole number of at least 1, as in {example!r}")
    return int(digits)


def _parameters(text: str, inside: str | None) -> tuple[tuple[str, Value], ...]:
    if inside is None:
        return ()
    given: dict[str, Value] = {}
    for part in inside.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise misnamed(
                text, "parameters are written name=value with commas between, as in 'NDCG(gain=exp)@10'"
            )
        if name in given:
            raise misnamed(text, f"{name} is given twice")
        given[name] = int(value) if WHOLE.fullmatch(value) and len(value) < 10 else value
        if SHARE.fullmatch(value):
            given[name] = float(value)
    return tuple(given.items())


def _unknown(text: str, name: str, k: str | None) -> UnknownNameError:
    """Offer the names that were probably meant, in the spelling that takes this cutoff."""
    loose = re.fullmatch(r"(.*?)[_@ ]?([1-9][0-9]*)", name)
    bare, number = (loose[1], loose[2]) if k is None and loose and loose[1] else (name, k)
    if number is not None and not WHOLE.fullmatch(number):
        number = "5"
    candidates: dict[str, list[str]] = {}
    for (family, known), spec in SPECS.items():
        if spec.cutoff == "none" and number is not None:
            continue
        if number is None:
            spelled = f"{known}_5" if spec.cutoff == "required" else known
        else:
            spelled = f"{known}@{number}" if family == "rag" else f"{known}_{number}"
        candidates.setdefault(_fold(known), []).append(spelled)
    for alias, known in ALIASES.items():
        candidates.setdefault(_fold(alias), []).append(known if number is None else f"{known}@{number}")
    for installed in plugin_names():
        candidates.setdefault(_fold(installed), []).append(
            installed if number is None else f"{installed}@{number}"
        )
    near = (
        [_fold(bare)]
        if _fold(bare) in candidates
        else difflib.get_close_matches(_fold(bare), candidates, n=2)
    )
    meant = list(dict.fromkeys(spelled for key in near for spelled in candidates[key]))
    if not meant:
        return UnknownNameError("metric", text, {name for group in candidates.values() for name in group})
    error = misnamed(text, "did you mean " + " or ".join(repr(spelled) for spelled in meant[:3]) + "?")
    error.known = meant
    return error


def _fold(name: str) -> str:
    return name.casefold().replace("_cut", "").replace("_", "").replace("-", "")
