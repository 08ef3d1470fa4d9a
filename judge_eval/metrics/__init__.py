"""Ranking metrics as values over ragged tables of grades."""

from judge_eval.metrics.claim_table import ClaimTable
from judge_eval.metrics.metric import Metric, metric_names, parse_metric
from judge_eval.metrics.rerank import mmr
from judge_eval.metrics.spec import Parameter, Spec
from judge_eval.metrics.table import GradeTable

__all__ = ["ClaimTable", "GradeTable", "Metric", "Parameter", "Spec", "metric_names", "mmr", "parse_metric"]
