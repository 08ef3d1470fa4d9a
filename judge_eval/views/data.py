"""What pages and other programs get as JSON."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from judge_eval.views.blocks import Remark

JSON: TypeAlias = dict[str, Any]


def remarks_data(remarks: Iterable[Remark]) -> list[JSON]:
    """Return remarks as values that JSON can hold."""
    return [{"about": r.about, "tone": r.tone, "text": r.text} for r in remarks]
