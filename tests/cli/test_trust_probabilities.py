from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import judge_eval
from tests.support.golden import check_golden
from tests.support.likely import likely_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of two judges that tell probabilities, and of one that tells none."""
    folder = tmp_path_factory.mktemp("probabilities")
    for label, more in (("sure", {}), ("other", {"model": "other"}), ("silent", {"told": False})):
        likely_run(label=label, out=folder / "runs", **more)  # type: ignore[arg-type]
    return folder


def test_agreement_shows_probabilities_beside_labels(folder: Path) -> None:
    """A sentence and four figures; with --all a row for each point of the reliability diagram."""
    done = judge_eval(folder, "agree", "label:sure")
    assert done.returncode == 0, done.stderr
    check_golden("trust_probabilities.txt", done.stdout)
    done = judge_eval(folder, "agree", "label:sure", "--all")
    check_golden("trust_probabilities_all.txt", done.stdout)
    document = json.loads(judge_eval(folder, "agree", "label:sure", "--json").stdout)
    assert set(document["reliability"]["figures"]) == {"ece", "brier", "log_loss", "bias"}
    assert len(document["reliability"]["bins"]) == 10
    silent = judge_eval(folder, "agree", "label:silent")
    assert "no verdict has one (the judge returns them with the option `confidence`" in silent.stdout
    assert "brier" not in silent.stdout


@pytest.mark.slow
def test_probabilities_are_calibrated_and_applied(folder: Path) -> None:
    """The whole way: a map with held-out figures, its file, soft metrics by it, refused for another judge."""
    done = judge_eval(folder, "calibrate", "label:sure", "--probabilities", "-o", "map.json")
    assert done.returncode == 0, done.stderr
    check_golden("trust_calibrate_probabilities.txt", done.stdout)
    plain = json.loads(judge_eval(folder, "score", "label:sure", "-k", "SoftP@5", "--json").stdout)
    words = ("score", "label:sure", "-k", "SoftP@5", "--calibration", "map.json")
    scored = judge_eval(folder, *words)
    assert scored.returncode == 0, scored.stderr
    assert "calibrated: probabilities by 60 labelled traces of run sure." in scored.stdout
    document = json.loads(judge_eval(folder, *words, "--json").stdout)
    assert document["aggregates"]["SoftP@5"]["mean"] != plain["aggregates"]["SoftP@5"]["mean"]
    assert document["judge"]["calibration"]["run"] == "sure"
    for label, answers in (("other", "made for another judge"), ("silent", "has a probability to calibrate")):
        refused = judge_eval(folder, "score", f"label:{label}", "--calibration", "map.json")
        assert refused.returncode == 2
        assert answers in refused.stderr
    method = json.loads(
        judge_eval(folder, "calibrate", "label:sure", "--probabilities", "--method", "isotonic", "--json").stdout
    )
    assert method["calibration"]["probabilities"]["method"] == "isotonic"


def test_a_threshold_is_written_and_applied(folder: Path) -> None:
    """A threshold's file names its judge: it is applied to that judge, and refused for another."""
    done = judge_eval(folder, "calibrate", "label:sure", "-o", "threshold.json")
    assert done.returncode == 0, done.stderr
    assert "valid only for verdicts judged by fake/sure with support/binary@2" in done.stdout
    kept = json.loads((folder / "threshold.json").read_text())
    assert kept["made_for"]["backend"]["model"] == "sure"
    assert kept["threshold"]["grade"] == 1
    assert 0 < kept["threshold"]["probability"] < 1
    scored = judge_eval(folder, "score", "label:sure", "--calibration", "threshold.json")
    least = f"{kept['threshold']['probability']:.4g}"
    assert f"calibrated: relevant from a probability of {least} by 60 labelled traces of run sure." in scored.stdout
    refused = judge_eval(folder, "score", "label:other", "--calibration", "threshold.json")
    assert refused.returncode == 2
    assert "the model differs in model ('sure' there; 'other' here)" in refused.stderr


def test_flags_that_do_not_fit_are_refused(folder: Path) -> None:
    """A method without probabilities, a file that is no calibration, another suffix: exit code 2, advice."""
    (folder / "odd.json").write_text("{}")
    for words, answers in (
        (("calibrate", "label:sure", "--method", "isotonic"), "--method needs --probabilities"),
        (("calibrate", "label:sure", "-o", "c.csv"), "the suffix selects the format"),
        (("score", "label:sure", "--calibration", "odd.json"), "odd.json: made_for: not a calibration"),
        (("score", "label:sure", "--calibration", "none.json"), "none.json: cannot be read"),
        (("calibrate", "label:silent", "--probabilities"), "(`--confidence`)"),
    ):
        done = judge_eval(folder, *words)
        assert done.returncode == 2, (words, done.stdout)
        assert answers in done.stderr, (words, done.stderr)
