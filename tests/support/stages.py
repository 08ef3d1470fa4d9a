"""Judge files of cascades."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judge_eval.judge_file import to_toml


def stages_file(folder: Path, cheap: Mapping[str, Any], strong: str, **more: Any) -> Path:
    """Write a judge file of a cheap judge and the model of a strong one, and return its path."""
    path = folder / "stages.toml"
    path.write_text(to_toml({**more, "cheap": dict(cheap), "strong": {"model": strong}}), encoding="utf-8")
    return path
