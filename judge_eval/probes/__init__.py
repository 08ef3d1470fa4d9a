"""Probes: altered traces whose right verdict is known, put to a judge."""

from judge_eval.probes.cases import PROBES, Case, build_cases
from judge_eval.probes.findings import Assurance, ProbeReport, ProbeResult
from judge_eval.probes.probe import Prober, probe

__all__ = ["PROBES", "Assurance", "Case", "ProbeReport", "ProbeResult", "Prober", "build_cases", "probe"]
