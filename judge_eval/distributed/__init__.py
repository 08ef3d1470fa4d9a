"""Judging on a cluster: the extra `ray` brings what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judge_eval.distributed.dataset import judge_dataset

__all__ = ["judge_dataset"]


def __getattr__(name: str) -> Any:
    if name == "judge_dataset":
        from judge_eval.distributed.dataset import judge_dataset

        return judge_dataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
