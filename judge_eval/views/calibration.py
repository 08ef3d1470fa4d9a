"""What people read of a calibration: the threshold of grades, or the map of probabilities."""

from judge_eval.study.calibrate import Calibration, FittedProbabilities
from judge_eval.views.blocks import View, columns_of, make_section, make_table
from judge_eval.views.note_sentences import note_lines


def calibration_view(fit: Calibration) -> View:
    """Build what people read of a relevance threshold that was chosen on labels."""
    threshold = f"grade {fit.threshold:g} (now {fit.current})"
    if fit.of == "probability":
        threshold = f"a probability of {fit.threshold:.4g} (now 0.5)"
    title = make_section(
        "title",
        f"{fit.run} against {fit.labels}",
        f"valid only for verdicts {fit.judged_by}" if fit.made_for else fit.judged_by,
        f"relevant from {threshold}, chosen by {fit.objective} on "
        f"{fit.fitted_traces} traces; measured on {fit.held_out_traces} others:",
    )
    figures = ((name, figure.text) for name, figure in fit.figures.items())
    table, notes = make_table("figures", ["figure", "held out"], figures), note_lines(fit.notes)
    if fit.brier is None or fit.brier_constant is None:
        return View("calibration", (title, make_section("figures", table, *notes)))
    grades = make_table("grades", ["grade", ("relevance", "number")], fit.relevance.items())
    brier = f"Brier score {fit.brier.text}; of a constant prediction {fit.brier_constant.text}"
    sections = title, make_section("figures", table), make_section("grades", grades, brier, *notes)
    return View("calibration", sections)


def probabilities_view(fit: FittedProbabilities, method: str | None) -> View:
    """Build what people read of a map of probabilities; method None: the better one was chosen."""
    calibration = fit.calibration
    mapping = calibration.probabilities
    assert mapping is not None
    how = f"{mapping.method} map of probabilities"
    if method is None:
        losses = ", ".join(f"{name} {loss:.4f}" for name, loss in fit.log_losses.items())
        how += f", chosen by the log loss on held-out traces ({losses})"
    title = make_section(
        "title",
        f"{calibration.run} against {calibration.labels}",
        f"valid only for verdicts {fit.judged_by}",
        f"{how}; fitted on {calibration.chunks} chunks of {calibration.traces} traces",
    )
    figures = ((name, before.text, fit.after.figures[name].text) for name, before in fit.before.figures.items())
    compared = make_table("figures", ["held out", "before", "after"], figures)
    points = ((f"{before:.2f}", after) for before, after in fit.curve)
    curve = make_table("curve", columns_of("number", "probability", "becomes"), points)
    gain = f"the log loss falls by {mapping.gain.text}"
    sections = title, make_section("figures", compared, gain), make_section("curve", curve, *note_lines(fit.notes))
    return View("calibration", sections)
