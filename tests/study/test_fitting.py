from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval.data.labels import Labels
from judge_eval.errors import ConfigError, DataError
from judge_eval.eval_run import EvalRun
from judge_eval.runs.scoring.calibrating import JudgeCalibration, read_calibration, write_calibration
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.stats.figure import Figure
from judge_eval.study.calibrate import calibrate, fit_probabilities, keep_threshold
from judge_eval.study.matching import labels_of
from tests.support.likely import likely_run
from tests.support.notes import note_sentences
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{place:02}" for place in range(20)]


def learnt(run: EvalRun) -> JudgeCalibration:
    """The map of a run's probabilities."""
    return fit_probabilities(run, labels_of(run)).calibration


def confidences(run: EvalRun) -> list[float | None]:
    """Every verdict's probability."""
    return [o.confidence for r in run.results for o in r.outcomes if o.kind == "verdict"]


def graded(prompt: str = "support/graded", **settings: object) -> EvalRun:
    """A graded judge whose 1 already means relevant."""
    grades = {(name, c): (k + place) % 4 for k, name in enumerate(NAMES) for place, c in enumerate("abcd")}
    return judged(traces_of(dict.fromkeys(NAMES, "abcd")), grades, prompt=prompt, **settings)


def threshold_of(run: EvalRun) -> JudgeCalibration:
    """The threshold that labels give which people set from grade 1 on."""
    labels = {
        (r.trace_id, o.chunk_id): int(o.grade >= 1) for r in run.results for o in r.outcomes if o.kind == "verdict"
    }
    return keep_threshold(calibrate(run, Labels(labels, sources=("people.csv",))))


def test_a_map_says_whom_it_is_for_and_what_it_is_worth() -> None:
    """Model, prompt with its digest, counts, method, and held-out figures before and after stand in it."""
    run = likely_run()
    fit = fit_probabilities(run, labels_of(run))
    result = fit.calibration
    assert result.made_for.backend == {"provider": "fake", "model": "sure", "params": {}}
    assert result.made_for.judge["prompt"] == run.manifest.judge["prompt"]
    assert result.made_for.answered == ("sure",)
    assert (result.traces, result.chunks, result.labels) == (60, 360, "the dataset")
    assert result.probabilities is not None
    assert result.probabilities.method in fit.log_losses
    assert set(result.probabilities.before) == set(result.probabilities.after) == set(fit.before.figures)
    ends = result.probabilities.gain.interval
    assert ends is not None
    assert ends[0] > 0
    assert "fake/sure with support/binary@2" in fit.judged_by
    assert fit.notes == ()


def test_scoring_maps_probabilities_before_soft_metrics() -> None:
    """Every probability is mapped, soft metrics follow, nothing else moves, and the run stays as it was."""
    run = likely_run()
    result = learnt(run)
    assert result.probabilities is not None
    again = rescore(run, run.manifest.metrics, calibration=result)
    wanted = result.probabilities.apply([c for c in confidences(run) if c is not None])
    assert confidences(again) == pytest.approx(wanted.tolist())
    expected = [o.expected_grade for r in again.results for o in r.outcomes if o.kind == "verdict"]
    assert expected == pytest.approx(wanted.tolist())
    first = confidences(again)[:5]
    assert again.results[0].scores["SoftP@5"] == pytest.approx(sum(c or 0 for c in first) / 5)
    assert again["AP@5"] == run["AP@5"]
    assert again["SoftP@5"] != run["SoftP@5"]
    assert "calibration" not in run.manifest.judge
    assert confidences(run) == confidences(likely_run())


def test_verdicts_without_a_probability_stay_without() -> None:
    """What told no probability gets none; failed verdicts stay failed."""
    run = likely_run(silent=3)
    again = rescore(run, ["SoftP@5"], calibration=learnt(run))
    pairs = zip(confidences(run), confidences(again), strict=True)
    assert all((old is None) == (new is None) for old, new in pairs)


def test_the_manifest_says_it_and_compare_warns() -> None:
    """A calibrated run beside a plain one: the comparison warns; two that are calibrated alike do not."""
    run = likely_run()
    result = learnt(run)
    first, two = (rescore(run, ["SoftP@5"], calibration=result) for _ in range(2))
    applied = first.manifest.judge["calibration"]
    assert isinstance(applied, dict)
    assert applied["method"] == result.probabilities.method  # type: ignore[union-attr]
    assert (applied["traces"], applied["labels"]) == (60, "the dataset")
    plain = rescore(run, ["SoftP@5"])
    warned = [text for text in note_sentences(plain.compare(first).warnings) if "calibration" in text]
    assert len(warned) == 1
    assert warned[0].startswith("the judge differs in calibration (none there; {digest=")
    assert not first.compare(two).warnings
    assert first.compare(two)["SoftP@5"].difference == 0


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    """Written and read it is the same, map and digest included; a damaged one is refused with its field."""
    result = learnt(likely_run())
    threshold = threshold_of(graded())
    assert threshold.threshold is not None
    undefined = {"kappa": Figure(None, None, 3)}
    without = threshold.threshold.model_copy(update={"held_out": undefined})
    for calibration in (result, threshold.model_copy(update={"threshold": without}), threshold):
        write_calibration(calibration, tmp_path / "c.json")
        assert read_calibration(tmp_path / "c.json") == calibration
    fields = json.loads((tmp_path / "c.json").read_text())
    for change, answers in (
        ({"threshold": None}, "neither a threshold nor a map"),
        ({"v": 2}, "v"),
        ({"threshold": {**fields["threshold"], "grade": 0}}, "threshold.grade"),
        ({"other": 1}, "unknown field"),
    ):
        (tmp_path / "bad.json").write_text(json.dumps({**fields, **change}))
        with pytest.raises(DataError, match=f"bad.json.*{answers}"):
            read_calibration(tmp_path / "bad.json")
    for text in ("", "nonsense", "[1]"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(DataError, match="not a calibration"):
            read_calibration(tmp_path / "bad.json")
    with pytest.raises(DataError, match="cannot be read"):
        read_calibration(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot write"):
        write_calibration(result, tmp_path / "no" / "c.json")


def test_a_map_that_falls_is_no_map() -> None:
    """Knots that do not rise, heights that fall, and probabilities beyond 1 are refused."""
    fields = learnt(likely_run()).model_dump()
    for knots, heights in (((0.1, 0.1), (0.2, 0.3)), ((0.1, 0.2), (0.3, 0.2)), ((0.1,), (1.5,)), ((), ())):
        changed = {**fields["probabilities"], "method": "isotonic", "knots": knots, "heights": heights}
        with pytest.raises(DataError):
            JudgeCalibration.parse({**fields, "probabilities": changed})


@pytest.mark.parametrize("what", ["map", "threshold"])
def test_another_model_or_prompt_is_refused(what: str) -> None:
    """What one judge taught holds for no other model, prompt or mode; the message names the difference."""
    if what == "map":
        result = learnt(likely_run())
        others = {
            "the model differs in model ('sure' there; 'other' here)": likely_run(12, model="other"),
            "relevance/binary": likely_run(12, settings={"prompt": "relevance/binary"}),
        }
    else:
        result = threshold_of(graded())
        others = {"relevance/graded": graded("relevance/graded"), "the judge differs in": graded("support/binary")}
    for answers, run in others.items():
        with pytest.raises(DataError, match="made for another judge") as caught:
            rescore(run, ["AP@5"], calibration=result)
        assert answers in str(caught.value)


def test_a_server_that_names_another_model_is_refused() -> None:
    """Behind the name that is asked for stands another model than labels were held against."""
    result = learnt(likely_run(answers_as="sure-0407"))
    rescore(likely_run(12, seed=3, answers_as="sure-0407"), ["SoftP@5"], calibration=result)
    with pytest.raises(DataError, match="names the model sure-0407 there; sure-0613 here"):
        rescore(likely_run(12, answers_as="sure-0613"), ["SoftP@5"], calibration=result)


def test_how_a_judge_was_run_does_not_matter() -> None:
    """Another cap on tokens or another policy on evidence gives grades no other meaning."""
    result = learnt(likely_run())
    again = likely_run(12, settings={"evidence": "required"})
    assert again.manifest.judge["evidence"] == "required"
    assert "calibration" in rescore(again, ["SoftP@5"], calibration=result).manifest.judge


def test_a_threshold_is_applied_by_its_file() -> None:
    """The file does what the number does, and says so; the run's own threshold does not stand in its way."""
    run = graded()
    result = threshold_of(run)
    assert result.threshold is not None
    assert result.threshold.grade == 1
    by_file, by_number = rescore(run, ["P@3"], calibration=result), rescore(run, ["P@3"], 1)
    assert by_file.aggregates == by_number.aggregates
    assert by_file.manifest.judge["calibration"]["threshold"] == 1  # type: ignore[index, call-overload]
    strict = graded(relevant=3)
    assert rescore(strict, ["P@3"], calibration=result).aggregates == by_number.aggregates
    with pytest.raises(ConfigError, match="relevant from 1, not from 3"):
        rescore(run, ["P@3"], 3, calibration=result)
    assert rescore(run, ["P@3"], 1, calibration=result).aggregates == by_number.aggregates


def test_asking_for_probabilities_changes_no_grade() -> None:
    """A threshold serves the same model asked for probabilities; a map no other count of them."""
    run, sure = graded(), likely_run()
    asked = {"params": {"logprobs": "true", "top_logprobs": "5"}}
    for result, given, fits in ((threshold_of(run), run, True), (learnt(sure), sure, False)):
        backend = {**given.manifest.backend, **asked}
        other = given.replace(given.manifest.model_copy(update={"backend": backend}))
        if fits:
            rescore(other, ["P@3"], calibration=result)
        else:
            with pytest.raises(DataError, match="the model differs in params"):
                rescore(other, ["P@3"], calibration=result)


def test_a_map_is_of_the_threshold_it_was_fitted_at() -> None:
    """Probabilities of reaching another threshold are others: the map is refused."""
    run = likely_run(24, settings={"prompt": "support/binary"})
    result = learnt(run)
    with pytest.raises(ConfigError, match="give one of the two"):
        rescore(run, ["SoftP@5"], 2, calibration=result)


def test_nothing_is_calibrated_twice() -> None:
    """A calibrated run is neither calibrated again nor calibrated on."""
    run = likely_run()
    result = learnt(run)
    again = rescore(run, ["SoftP@5"], calibration=result)
    with pytest.raises(DataError, match="already calibrated"):
        rescore(again, ["SoftP@5"], calibration=result)
    with pytest.raises(DataError, match="already calibrated"):
        fit_probabilities(again, labels_of(run))
    assert rescore(again, ["SoftP@3"])["SoftP@3"] != rescore(run, ["SoftP@3"])["SoftP@3"]


def test_without_probabilities_there_is_nothing_to_calibrate() -> None:
    """Neither fitting nor scoring makes up probabilities."""
    result, silent = learnt(likely_run()), likely_run(told=False)
    with pytest.raises(DataError, match="judge with `params="):
        fit_probabilities(silent, labels_of(silent))
    with pytest.raises(DataError, match="has a probability to calibrate"):
        rescore(silent, ["SoftP@5"], calibration=result)


def test_few_labels_teach_nothing() -> None:
    """Fewer than ten labelled traces are refused; a map that shows no gain says so."""
    few = likely_run(9)
    with pytest.raises(DataError, match="9 labelled traces are too few"):
        fit_probabilities(few, labels_of(few))
    small = likely_run(12)
    assert any(
        "there is no evidence yet" in note for note in note_sentences(fit_probabilities(small, labels_of(small)).notes)
    )


def test_clusters_are_not_split() -> None:
    """Where traces belong together, what is counted as traces are clusters, and a note says so."""
    run = likely_run(60, cluster=4)
    fit = fit_probabilities(run, labels_of(run))
    assert (fit.calibration.traces, fit.after.traces) == (15, 15)
    assert "traces of one cluster are not split" in note_sentences(fit.notes)[0]


def test_verdicts_of_nobody_known_are_refused() -> None:
    """Imported verdicts name no model: nothing learnt of them is kept, and nothing is applied to them."""
    run = likely_run()
    result = learnt(run)
    backend = {**run.manifest.backend, "provider": "import"}
    given = run.replace(run.manifest.model_copy(update={"backend": backend}))
    with pytest.raises(DataError, match="their model and prompt are not known"):
        rescore(given, ["SoftP@5"], calibration=result)
    with pytest.raises(DataError, match="their model and prompt are not known"):
        fit_probabilities(given, labels_of(run))
    fit = calibrate(given, labels_of(run))
    assert fit.made_for is None
    with pytest.raises(DataError, match="their model and prompt are not known"):
        keep_threshold(fit)


def test_a_threshold_that_calls_everything_relevant_is_not_kept() -> None:
    """There is nothing to apply where the least grade is what does best."""
    fit = calibrate(graded(), Labels({(name, c): int(c == "a") for name in NAMES for c in "abcd"}))
    with pytest.raises(DataError, match="every grade relevant"):
        keep_threshold(fit.model_copy(update={"threshold": 0.0}))
