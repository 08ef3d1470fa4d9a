"""The file of a cascade: two judges, the threshold between them, and what that rests on."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import AfterValidator, Field, ValidationError

from judge_eval.confidence import CONFIDENCE_GRID
from judge_eval.digest import digest_json
from judge_eval.errors import ConfigError
from judge_eval.files import read_plain
from judge_eval.foreign import RepeatedKeyError, single_keys
from judge_eval.judges import Cascade, Guarantee
from judge_eval.judges.cascade import cascade_of
from judge_eval.judges.judge import Mode
from judge_eval.note import Note
from judge_eval.prompts import DecisionLayout
from judge_eval.record import PlainObject, Record, data_error
from judge_eval.runs.folder.describing import JudgeDifference, difference_in_words, field_differences
from judge_eval.runs.folder.records import Moment
from judge_eval.safe_text import prompt_name
from judge_eval.schema import BlankPolicy, EvidencePolicy, Scale
from judge_eval.stats.cascade_threshold import CascadeChoice, CascadeFit, decide

CASCADE_FORMAT = 1
"""The version of the file; a reader refuses versions above its own."""
_MOST = 2**20


class CascadeStage(Record):
    """One judge of a cascade: who it is, how it asks, and what it took in the sample."""

    model: str
    """`provider/model`."""
    prompt: str
    """Its id with the version, or `file:PATH`."""
    mode: Mode
    judge: PlainObject
    """All that could change a verdict, as the judge says it: prompt with digest, scale, layout, ..."""
    backend: PlainObject
    """Provider, model, public base URL and parameters."""
    verdicts: int = Field(ge=0)
    """Verdicts in the sample, of chunks that hold text."""
    failed: int = Field(ge=0)
    """Chunks of the sample without a verdict."""
    tokens: float | None = None
    """Tokens of a thousand verdicts, in and out; None where the server told none."""
    cost: float | None = None
    """US dollars of a thousand verdicts; None where the price is not known."""

    @property
    def base_url(self) -> str | None:
        """Where its server is; None where it has none."""
        return str(self.backend.get("base_url") or "") or None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of its requests."""
        params = self.backend.get("params")
        return {name: json.loads(str(text)) for name, text in params.items()} if isinstance(params, dict) else {}


def _follows_from_its_curve(fit: CascadeFit) -> CascadeFit:
    """Hold the threshold and its bound to the counts, so that no changed file passes for a guarantee."""
    if tuple(point.threshold for point in fit.curve) != CONFIDENCE_GRID:
        raise ValueError("curve: it must have every threshold .50, .51, ... 1.00")
    escalated = 0
    if fit.target == "people":
        escalated = round((fit.strong_alone.value or 0) * fit.n) if fit.strong_alone else fit.n
    counts = [point.errors for point in fit.curve]
    allowed, at, holds, bound = decide(fit.target, fit.n, escalated, counts, alpha=fit.alpha, level=fit.level)
    point = fit.curve[at] if at < len(fit.curve) else None
    chosen = (point.threshold, point.errors, point.kept) if point else (None, escalated, 0)
    same = (allowed, holds, bound is None, *chosen) == (
        *(fit.allowed, fit.holds, fit.bound is None, fit.threshold, fit.errors, fit.kept),
    )
    if not same or not math.isclose(bound or 0.0, fit.bound or 0.0, rel_tol=1e-9):
        raise ValueError("the threshold does not match its counts: the file was changed; fit it again")
    return fit


class CascadeFile(Record):
    """Everything about a cascade that was fitted: written by `cascade fit`, read by runs of it."""

    v: int = Field(default=CASCADE_FORMAT, ge=1, le=CASCADE_FORMAT)
    created: Moment
    version: str
    """Of this package."""
    dataset: str
    """What the data are called."""
    dataset_digest: str
    """64 hexadecimal digits: of all the data that the sample was drawn from."""
    traces: int = Field(ge=0)
    """How many traces the data hold."""
    seed: int
    """Of the sample, and of the chunk of each trace."""
    cluster: str | None = None
    """The key of the metadata that names clusters, where traces share one: clusters were drawn uniformly, and
    one trace of each."""
    clusters: int | None = Field(default=None, ge=1)
    """How many clusters the traces that could be drawn are of, where some share one."""
    explain_positives: bool = False
    """Whether it was fitted with all relevant verdicts of the cheap judge escalated, and is used so."""
    depth: int | None = Field(default=None, ge=1)
    """The most chunks of a trace that were read; None if all were."""
    labels: str | None = None
    """Where the labels come from, where people are the target."""
    runs: dict[Literal["cheap", "strong"], str]
    """The ids of the two runs that the fit can be repeated from."""
    cheap: CascadeStage
    strong: CascadeStage
    scale: Scale
    fit: Annotated[CascadeFit, AfterValidator(_follows_from_its_curve)]
    tokens: float | None = None
    """Tokens of a thousand verdicts of the cascade, of both judges together."""
    cost: float | None = None
    """US dollars of a thousand verdicts of the cascade."""
    choice: CascadeChoice | None = None
    """The cheapest that keeps the target; None where that hangs on prices that are not known."""
    notes: tuple[Note, ...] = ()

    @property
    def digest(self) -> str:
        """64 hexadecimal digits over all of it but notes."""
        return digest_json({**self.model_dump(mode="json"), "notes": []})

    @property
    def guarantee(self) -> Guarantee | None:
        """What its threshold rests on; None where nothing holds, or all is escalated."""
        fit = self.fit
        if not fit.holds or fit.threshold is None or fit.bound is None:
            return None
        figures = (fit.target, fit.alpha, fit.level, fit.bound, fit.n, fit.coverage)
        return Guarantee(self.digest, *figures, self.cluster, self.explain_positives, self.depth)

    @property
    def models(self) -> dict[str, str]:
        """Both models by route."""
        return {"cheap": self.cheap.model, "strong": self.strong.model}

    @property
    def evidence(self) -> EvidencePolicy | None:
        """What becomes of a strong verdict without sound evidence; None where that judge never quotes."""
        evidence = self.strong.judge.get("evidence")
        return cast(EvidencePolicy, evidence) if evidence in get_args(EvidencePolicy) else None

    @property
    def blank(self) -> BlankPolicy | None:
        """What a chunk without text is; without a verdict if None."""
        blank = self.strong.judge.get("blank")
        return cast(BlankPolicy, blank) if blank in get_args(BlankPolicy) else None

    @property
    def layout(self) -> DecisionLayout:
        """Where a decision model finds a chunk."""
        for stage in (self.cheap, self.strong):
            layout = stage.judge.get("layout")
            if layout in get_args(DecisionLayout):
                return cast(DecisionLayout, layout)
        return "question"

    def cascade(self) -> Cascade:
        """Make the judge again."""
        judge = cascade_of(
            self.cheap.model,
            self.strong.model,
            prompt=prompt_name(self.strong.prompt),
            threshold=self.fit.threshold,
            cheap_prompt=prompt_name(self.cheap.prompt),
            cheap_mode=self.cheap.mode,
            mode=self.strong.mode,
            relevant=self.scale.relevant,
            evidence=self.evidence,
            layout=self.layout,
            blank=self.blank,
            explain_positives=self.explain_positives,
        )
        self.check(judge)
        return replace(judge, guarantee=self.guarantee)

    def check(self, judge: Cascade, backends: dict[str, Any] | None = None) -> None:
        """See that a cascade's judges, and its models where they are given, are those that were fitted.

        Args:
            judge: As it would judge.
            backends: By stage what a run's manifest says of its model.

        Raises:
            ConfigError: They are not; the message names what differs.
        """
        mismatches: list[JudgeDifference] = []
        for name, stage, now in (("cheap", self.cheap, judge.cheap), ("strong", self.strong, judge.strong)):
            mismatches += field_differences(f"{name} judge", stage.judge, as_filed(now.describe()))
            if backends is not None:
                mismatches += field_differences(f"{name} model", stage.backend, backends[name])
        if mismatches:
            raise ConfigError(
                f"the cascade was fitted for other judges, and its threshold is not valid for these: "
                f"{'; '.join(map(difference_in_words, mismatches))}; fit it again (`cascade fit`)"
            )


def as_filed(described: dict[str, Any]) -> dict[str, Any]:
    """Return what a judge says of itself as a file has it: lists for tuples."""
    return cast(dict[str, Any], json.loads(json.dumps(described)))


def read_data(path: Path) -> dict[str, Any]:
    """Read a file of TOML, or of one JSON object."""
    try:
        text = read_plain(path, _MOST).decode("utf-8-sig")
        json_ = text.lstrip().startswith("{")
        data = json.loads(text, object_pairs_hook=single_keys) if json_ else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except RepeatedKeyError as error:
        raise ConfigError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        kind = "not TOML" if isinstance(error, tomllib.TOMLDecodeError) else "neither TOML nor JSON"
        raise ConfigError(f"{path}: {kind}: {error}") from None
    return data


def read_cascade(path: Path) -> CascadeFile:
    """Read the file of a cascade that `cascade fit` wrote, as JSON or TOML.

    Raises:
        ConfigError: It cannot be read, is none, was changed, or a later version wrote it.
    """
    return cascade_of_data(read_data(path), str(path))


def cascade_of_data(data: Mapping[str, Any], where: str) -> CascadeFile:
    """Make the record of a cascade from what its file holds."""
    try:
        return CascadeFile.model_validate_json(json.dumps(data, default=str))
    except (ValidationError, ValueError) as error:
        fault = data_error(error) if isinstance(error, ValidationError) else error
        raise ConfigError(f"{where}: not a cascade file: {fault}") from None
