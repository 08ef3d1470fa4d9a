"""Ranking metrics as values over ragged tables of grades."""

from judge_eval.metrics.base import Metric, metric_names
from judge_eval.metrics.parse import parse_metric
from judge_eval.metrics.rerank import mmr
from judge_eval.metrics.specs import Parameter, Spec
from judge_eval.metrics.table import GradeTable

__all__ = ["GradeTable", "Metric", "Parameter", "Spec", "metric_names", "mmr", "parse_metric"]
