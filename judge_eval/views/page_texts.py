"""The texts of the pages' scripts, by script and name: the scripts only put values into their places."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TypeAlias

from judge_eval.runs.folder.judgedclaims import CLAIM_SIGNS
from judge_eval.views.claims import SAID_WORDS

Text: TypeAlias = str | tuple[str, str]
"""A text with `{name}` for each value, or two of them: for one, and for any other number `{n}`."""


@cache
def page_texts() -> Mapping[str, Text]:
    """Return every text; its name begins with the name of its script, `dom` for those that scripts share."""
    table = tomllib.loads((files("judge_eval.views") / "page_texts.toml").read_text(encoding="utf-8"))
    texts: dict[str, Text] = {
        name: text if isinstance(text, str) else (text[0], text[1]) for name, text in table.items()
    }
    for sign, words in SAID_WORDS.items():
        texts[f"claims.said{CLAIM_SIGNS[sign]}"] = words
        texts[f"claims.cell{CLAIM_SIGNS[sign]}"] = f"Rank {{rank}}{'' if sign else ' has'} {words}"
    return texts
