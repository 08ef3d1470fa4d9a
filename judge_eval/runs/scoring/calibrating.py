"""What labels taught of one judge, kept in a file that scoring takes for this judge alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from judge_eval.digest import digest_json
from judge_eval.errors import DataError
from judge_eval.files import read_plain, write_atomically, writing_named
from judge_eval.record import PlainObject, Record, data_error
from judge_eval.runs.folder.describing import backends_by_route, difference_in_words, field_differences
from judge_eval.runs.folder.records import Manifest
from judge_eval.stats.figure import CLOSED, Figure
from judge_eval.stats.probabilities import ProbabilityMap

_MOST = 16_000_000
_HOW: Final = frozenset({"max_tokens", "sample", "evidence", "blank", "calibration", "imported"})
"""What a judge tells of itself that changes neither its grades' meaning nor its probabilities'."""
_ASKED: Final = frozenset({"logprobs", "top_logprobs"})
"""What is sent to be told probabilities."""


class MadeFor(Record):
    """The judge whose verdicts were compared with labels."""

    backend: PlainObject
    """Provider, model and parameters, or those of each member of a panel."""
    judge: PlainObject
    """Mode, prompt with its digest, scale; of a panel its members and how they vote."""
    answered: tuple[str, ...] = ()
    """The names by which servers called the models that answered."""

    @classmethod
    def by(cls, manifest: Manifest, answered: set[str]) -> MadeFor:
        """Describe who judged a run."""
        if manifest.imported:
            raise unknown_judge(manifest.name)
        return cls(backend=_who(manifest.backend), judge=_bare(manifest.judge), answered=tuple(sorted(answered)))


class FittedThreshold(Record):
    """A least relevant grade, chosen on one half of the labelled traces."""

    grade: int = Field(ge=1)
    probability: float | None = Field(default=None, ge=0, le=1)
    """The least probability that counts as relevant, if the scale has two grades and the threshold is of these."""
    objective: str
    """What it was chosen by."""
    held_out: dict[str, Figure]
    """Its figures on the other half."""


@dataclass(frozen=True, kw_only=True)
class FittedMap(ProbabilityMap):
    """A map from the judge's probabilities to the share that people call relevant."""

    before: dict[str, Figure]
    """Of the judge's own probabilities: `ece`, `brier`, `log_loss`, `bias`."""
    after: dict[str, Figure]
    """The same of mapped ones, each mapped by what was fitted without its trace."""
    gain: Figure
    """How much smaller the log loss is after than before."""

    __pydantic_config__ = CLOSED

    def __post_init__(self) -> None:
        if self.slope < 0:
            raise ValueError("slope must not be negative")
        if len(self.knots) != len(self.heights) or (self.method == "isotonic" and not self.knots):
            raise ValueError("an isotonic map needs as many heights as knots, and at least one")
        if any(a >= b for a, b in pairwise(self.knots)) or any(a > b for a, b in pairwise(self.heights)):
            raise ValueError("knots must rise, and heights must not fall")
        if any(not 0 <= value <= 1 for value in (*self.knots, *self.heights)):
            raise ValueError("knots and heights must be probabilities, from 0 to 1")


class JudgeCalibration(Record):
    """A threshold of a judge's grades, or a map of its probabilities, learnt from labels."""

    v: Literal[1] = 1
    made_for: MadeFor
    run: str
    """The run whose verdicts were held against labels."""
    labels: str
    """Where these come from."""
    label_relevant: int
    """The least label that counts as relevant."""
    traces: int
    """How many labelled traces it was learnt from, held-out ones included."""
    chunks: int
    threshold: FittedThreshold | None = None
    probabilities: FittedMap | None = None

    @model_validator(mode="after")
    def _holds_something(self) -> Self:
        if self.threshold is None and self.probabilities is None:
            raise ValueError("holds neither a threshold nor a map of probabilities")
        return self

    def in_manifest(self) -> dict[str, JsonValue]:
        """Return what the manifest of a calibrated run says of it."""
        fields: dict[str, JsonValue] = {"digest": digest_json(self.model_dump(mode="json"))}
        if self.threshold is not None:
            fields["threshold"] = self.threshold.grade
            if self.threshold.probability is not None:
                fields["probability"] = self.threshold.probability
        if self.probabilities is not None:
            fields["method"] = self.probabilities.method
        return {**fields, "run": self.run, "labels": self.labels, "traces": self.traces}

    def check(self, manifest: Manifest) -> None:
        """Check that it was made for the judge of a run.

        Raises:
            DataError: It was made for another model, prompt or scale, or the run is calibrated already.
        """
        if "calibration" in manifest.judge:
            raise DataError(f"run {manifest.name} is already calibrated; score the original run")
        if manifest.imported:
            raise unknown_judge(manifest.name)
        there, here = dict(self.made_for.judge), _bare(manifest.judge)
        grades = self.probabilities is None
        if grades:  # a threshold is of the grades, whatever threshold the run had
            there, here = _without_threshold(there), _without_threshold(here)
        whom = (_who(backend, grades=grades) for backend in (self.made_for.backend, manifest.backend))
        differences = field_differences("model", *whom)
        differences += field_differences("judge", there, here)
        if differences:
            raise _for_another("; ".join(map(difference_in_words, differences)))

    def check_answers(self, answered: set[str]) -> None:
        """Check that the models that answered have the names of those it was made for.

        Raises:
            DataError: A server reported another name, so another model answered.
        """
        known = set(self.made_for.answered)
        if known and (new := sorted(answered - known)):
            raise _for_another(
                f"the server names the model {', '.join(self.made_for.answered)} there; {', '.join(new)} here"
            )


def read_calibration(path: Path) -> JudgeCalibration:
    """Read a calibration from its file, as `judge-eval calibrate -o` writes it.

    Raises:
        DataError: The file cannot be read, or holds something else.
    """
    try:
        return JudgeCalibration.from_json(read_plain(path, _MOST))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
    except ValueError as error:
        first = data_error(error) if isinstance(error, ValidationError) else DataError(str(error))
        message = f"not a calibration, as `judge-eval calibrate -o` writes it: {first.message}"
        raise DataError(message, file=str(path), field=first.field) from None


def write_calibration(calibration: JudgeCalibration, path: Path) -> None:
    """Write a calibration into a file.

    Raises:
        ConfigError: The file cannot be written.
    """
    with writing_named(path):
        write_atomically(path, calibration.model_dump_json(indent=2).encode() + b"\n")


def unknown_judge(run: str) -> DataError:
    """Return the error for imported verdicts, which a calibration is neither made from nor applied to."""
    return DataError(
        f"the verdicts of run {run} were imported, so their model and prompt are not known; a calibration is "
        "valid only for one model and prompt"
    )


def _for_another(what: str) -> DataError:
    return DataError(
        f"this calibration was made for another judge: {what}. Thresholds and probabilities are not "
        "valid for another model or prompt: label verdicts of this judge (`judge-eval sample`), then run "
        "`judge-eval calibrate`"
    )


def _who(backend: Mapping[str, JsonValue], *, grades: bool = False) -> dict[str, JsonValue]:
    """Return who answered, without base URLs; for `grades`, requested probabilities do not matter."""
    fields = {name: value for name, value in backend.items() if name not in ("base_url", "variant")}
    if grades and isinstance(params := fields.get("params"), dict):
        fields["params"] = {name: value for name, value in params.items() if name not in _ASKED}
    models = backends_by_route(backend)
    if "" not in models:
        fields["members"] = {route: _who(model, grades=grades) for route, model in models.items()}
    return fields


def _bare(judge: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the part of a judge's description that gives its grades and probabilities their meaning."""

    def bare(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: bare(inner) for name, inner in value.items() if name not in _HOW}
        return [bare(inner) for inner in value] if isinstance(value, list | tuple) else value

    fields: dict[str, JsonValue] = bare(judge)
    return fields


def _without_threshold(judge: dict[str, JsonValue]) -> dict[str, JsonValue]:
    scale = judge.get("scale")
    return {**judge, "scale": {**scale, "relevant": None}} if isinstance(scale, dict) else judge
