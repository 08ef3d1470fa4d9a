"""Judging on a cluster: the extra `ray` brings what it takes."""

from judge_eval.distributed.dataset import judge_dataset

__all__ = ["judge_dataset"]
