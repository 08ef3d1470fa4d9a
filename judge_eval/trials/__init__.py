"""Trials: a judge asked on purpose, by probes or as one of a pair."""

from judge_eval.study.cascade_fitting import PilotSample
from judge_eval.study.probe_report import Assurance, ProbeReport, ProbeResult
from judge_eval.trials.cases import PROBES, Case, build_cases
from judge_eval.trials.paired_pilot import PairedPilot
from judge_eval.trials.probe import Prober, probe

__all__ = [
    "PROBES",
    "Assurance",
    "Case",
    "PairedPilot",
    "PilotSample",
    "ProbeReport",
    "ProbeResult",
    "Prober",
    "build_cases",
    "probe",
]
