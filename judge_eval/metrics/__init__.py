"""Ranking metrics as values over ragged tables of grades."""

from judge_eval.metrics.base import Metric, metric_names
from judge_eval.metrics.cells import ClaimTable
from judge_eval.metrics.parse import parse_metric
from judge_eval.metrics.rerank import mmr
from judge_eval.metrics.spec import Parameter, Spec
from judge_eval.metrics.table import GradeTable

__all__ = ["ClaimTable", "GradeTable", "Metric", "Parameter", "Spec", "metric_names", "mmr", "parse_metric"]
