"""What people read of a calibration: the threshold of grades, or the map of probabilities."""

from collections.abc import Sequence

from judge_eval.note import Note
from judge_eval.study.calibrate import Calibration, FittedProbabilities
from judge_eval.views.blocks import Section, Sentence, View, make_table
from judge_eval.views.note_sentences import note_sentence


def calibration_view(fit: Calibration) -> View:
    """Build what people read of a relevance threshold that was chosen on labels."""
    threshold = f"grade {fit.threshold:g} (now {fit.current})"
    if fit.of == "probability":
        threshold = f"a probability of {fit.threshold:.4g} (now 0.5)"
    title = (
        f"{fit.run} against {fit.labels}",
        f"valid only for verdicts {fit.judged_by}" if fit.made_for else fit.judged_by,
        f"relevant from {threshold}, chosen by {fit.objective} on "
        f"{fit.fitted_traces} traces; measured on {fit.held_out_traces} others:",
    )
    figures = ((name, figure.text) for name, figure in fit.figures.items())
    table = make_table("figures", ["figure", "held out"], figures)
    if fit.brier is None or fit.brier_constant is None:
        parts = [Section("figures", (table, *_end(notes=fit.notes)))]
    else:
        grades = make_table("grades", ["grade", ("relevance", "number")], fit.relevance.items())
        brier = f"Brier score {fit.brier.text}; of a constant prediction {fit.brier_constant.text}"
        parts = [Section("figures", (table,)), Section("grades", (grades, *_end(brier, notes=fit.notes)))]
    return View("calibration", (Section("title", _sentences(title)), *parts))


def probabilities_view(fit: FittedProbabilities, method: str | None) -> View:
    """Build what people read of a map of probabilities; method None: the better one was chosen."""
    calibration = fit.calibration
    mapping = calibration.probabilities
    assert mapping is not None
    how = f"{mapping.method} map of probabilities"
    if method is None:
        losses = ", ".join(f"{name} {loss:.4f}" for name, loss in fit.log_losses.items())
        how += f", chosen by the log loss on held-out traces ({losses})"
    title = (
        f"{calibration.run} against {calibration.labels}",
        f"valid only for verdicts {fit.judged_by}",
        f"{how}; fitted on {calibration.chunks} chunks of {calibration.traces} traces",
    )
    figures = ((name, before.text, fit.after.figures[name].text) for name, before in fit.before.figures.items())
    gain = Sentence(f"the log loss falls by {mapping.gain.text}")
    compared = make_table("figures", ["held out", "before", "after"], figures)
    points = ((f"{before:.2f}", after) for before, after in fit.curve)
    curve = make_table("curve", [("probability", "number"), ("becomes", "number")], points)
    sections = (
        Section("title", _sentences(title)),
        Section("figures", (compared, gain)),
        Section("curve", (curve, *_end(notes=fit.notes))),
    )
    return View("calibration", sections)


def _sentences(texts: Sequence[str]) -> tuple[Sentence, ...]:
    return tuple(Sentence(text) for text in texts)


def _end(*texts: str, notes: Sequence[Note]) -> tuple[Sentence, ...]:
    return _sentences([*texts, *(f"note: {note_sentence(note)}" for note in notes)])
