"""What people read of a judge under observation."""

from typing import Final

from judge_eval.safe_text import counted
from judge_eval.study.drift import DriftReport, DriftVerdict
from judge_eval.views.blocks import Bullets, Remark, Section, Sentence, View
from judge_eval.views.tones import Tone

_TONES: Final[dict[DriftVerdict, Tone]] = {
    "baseline": "strong",
    "stable": "good",
    "drifted": "bad",
    "cannot say": "doubtful",
}


def drift_view(report: DriftReport) -> View:
    """Build what people read of a look: the verdict first, then what it rests on."""
    first = Sentence(f"{report.verdict}: {report.why}", _TONES[report.verdict])
    lines = [
        f"{counted(report.anchors, 'anchor')} of {counted(report.traces, 'trace')}"
        + (", labelled by people" if report.labelled else ", held against earlier verdicts"),
        f"asked {counted(report.asked_before, 'time')} for the baseline, {counted(report.looks, 'time')} since",
        f"repeats differ in {report.noise:.1%}"
        if report.asked_before > 1
        else f"looks differ in {report.noise:.1%}; the baseline was asked once, so its repeats are not known",
    ]
    if report.kappa_shift is not None and report.right_now is not None and report.right_before is not None:
        before, now = ("none" if k is None else f"{k:.4f}" for k in (report.kappa_before, report.kappa_now))
        lines += [
            f"right: {report.right_before.text} before, {report.right_now.text} now",
            f"kappa: {before} before, {now} now, difference {report.kappa_shift.text}",
        ]
    if report.looks:
        lines.append(f"flips: {report.became_relevant} became relevant, {report.became_irrelevant} irrelevant")
    if report.confidence_shift is not None:
        lines.append(f"probability of relevance: moved by {report.confidence_shift.text}")
    if report.failed:
        lines.append(f"{counted(report.failed, 'verdict')} failed in this look")
    remarks = [Remark("note", note, "plain", "note") for note in report.notes]
    if report.looks and report.models_now != report.models_before:
        names = [", ".join(each) or "no name" for each in (report.models_before, report.models_now)]
        text = f"the server called the model {names[0]} before, and calls it {names[1]} now"
        remarks.append(Remark("model", text, "doubtful", "warning"))
    return View("drift", (Section("verdict", (first,)), Section("figures", (Bullets(tuple(lines)), *remarks))))
