"""Judges that ask one model by prompts: loading the prompts, and making a judge again from its record."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, cast, get_args

from judge_eval import prompts
from judge_eval.errors import ConfigError, JudgeEvalError, PromptError, advise
from judge_eval.judges.judge import JudgingPlan, ModelUse
from judge_eval.schema import BlankPolicy, EvidencePolicy, Scale, Trace, Verdict

F = TypeVar("F", bound=prompts.AnyForm)


class PromptJudge(ABC):
    """What the judges have in common that ask one model by prompts."""

    form: prompts.AnyForm
    """Of the prompt that the judge is known by."""
    scale: Scale
    """The grades it gives, with the threshold in force."""
    blank: BlankPolicy = "no_verdict"
    """What a chunk without text is."""
    form_type: ClassVar[type[prompts.AnyForm]] = prompts.PromptForm
    settings: ClassVar[tuple[str, ...]] = ("max_tokens", "sample", "evidence")
    """The attributes that could change a verdict, besides prompt, scale and `blank`."""

    def with_blank(self, rule: BlankPolicy) -> Self:
        """Return the same judge that treats chunks without text so."""
        other = copy(self)
        other.blank = rule
        return other

    @property
    def mode(self) -> str:
        """The name of its kind."""
        return self.form.prompt.mode

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What a trace must have besides its question."""
        return self.form.prompt.needs

    def describe(self) -> dict[str, Any]:
        """Everything about the judge that could change a verdict."""
        record = describe_form(self.form, self.scale) | {name: getattr(self, name) for name in self.settings}
        return record if self.blank == "no_verdict" else {**record, "blank": self.blank}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], **more: Any) -> Self:
        """Make the judge again that `describe` returned this record of; `more` are further arguments.

        Raises:
            JudgeEvalError: The record does not say enough, or a prompt is not the one of that version.
        """
        make: Any = cls
        settings = settings_of_record(record, *cls.settings)
        made: Self = make(form_of_record(record, cls.form_type), **settings, **more)
        return made

    @abstractmethod
    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace."""

    def models_asked(self) -> tuple[ModelUse]:
        """Return how it asks its one model."""
        return (ModelUse("", self.mode, confidence=asks_verdict_alone(self.form)),)

    def forms(self) -> Mapping[str, prompts.AnyForm]:
        """The forms of its prompts: its own as `prompt`, the others by their part of the record."""
        return {"prompt": self.form}

    def with_forms(self, forms: Mapping[str, prompts.AnyForm]) -> Self:
        """Return the same judge with other prompts, by the names of `forms`, all of them."""
        other = copy(self)
        other.form = forms["prompt"]
        other.scale = other.form.scale.relevant_from(self.scale.relevant)
        return other

    def as_begun(self, record: Mapping[str, Any]) -> Self:
        """Return the judge with the prompt versions of a record, unless a version was asked for."""
        forms = self.forms()
        begun = {
            name: _form_as_begun(form, record if name == "prompt" else record.get(name)) for name, form in forms.items()
        }
        same = all(form is forms[name] for name, form in begun.items())
        return self if same else self.with_forms(begun)


def _form_as_begun(form: F, record: object) -> F:
    prompt = record.get("prompt") if isinstance(record, Mapping) else None
    if form.pinned or not isinstance(prompt, Mapping) or prompt.get("id") != form.prompt.id:
        return form
    version = prompt.get("version")
    if version == form.prompt.version or version not in prompts.prompt_versions(form.prompt.id):
        return form
    older = prompts.form_of_version(form.prompt.id, version, pinned=False)
    if isinstance(older, prompts.DecisionForm) and isinstance(form, prompts.DecisionForm):
        older = prompts.DecisionForm(older.prompt, form.layout, pinned=False)
    return cast(F, older)  # the versions of a prompt are of one mode


def form_of_record(record: Mapping[str, Any], kind: type[F]) -> F:
    """Return the form of the prompt that a judge's record names, which must be the same as then."""
    prompt = record.get("prompt")
    if not isinstance(prompt, Mapping):
        raise JudgeEvalError("this judge's prompts are not ones that can be rendered again")
    ref = f"{prompt.get('id')}@{prompt.get('version')}"
    form = prompts.load_form(ref)
    if not isinstance(form, kind):
        raise JudgeEvalError(f"the prompt {ref} is not one of the mode this run names")
    if isinstance(form, prompts.DecisionForm):
        form = cast(F, prompts.DecisionForm(form.prompt, record.get("layout", "question")))
    if form.digest.hex() != prompt.get("digest"):
        raise JudgeEvalError(f"the prompt {ref} is not the one this run used: its digest differs")
    return form


_TEXTS = ("evidence", "layout")


def settings_of_record(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return those settings of a judge's record that are set, and its threshold as `relevant`."""
    settings = {name: record[name] for name in names if record.get(name) is not None}
    if any(type(value) is not (str if name in _TEXTS else int) for name, value in settings.items()):
        raise JudgeEvalError("the run does not say in full how it was judged")
    return {"relevant": int(record["scale"]["relevant"]), **settings}


def fit_form(prompt: str | Path | prompts.AnyForm, kind: type[F], mode: str) -> F:
    """Return the form of a prompt, which is loaded unless it is a form."""
    form = prompts.load_form(prompt) if isinstance(prompt, str | Path) else prompt
    if not isinstance(form, kind) or form.prompt.mode != mode:
        raise other_mode(form, mode)
    return form


def other_mode(form: prompts.AnyForm, mode: str) -> PromptError:
    """Make the error of a prompt that is not of the mode asked for."""
    prompt = form.prompt
    return PromptError(f"prompt {prompt.id!r} is {prompt.mode}; the mode asked for is {mode}")


def fit_evidence(form: prompts.PromptForm | prompts.ClaimsForm, evidence: EvidencePolicy | None) -> EvidencePolicy:
    """Return the policy for verdicts without evidence: the argument, else the prompt's, else `flag`."""
    policies = get_args(EvidencePolicy)
    if evidence is not None and evidence not in policies:
        raise ConfigError(f"evidence is {evidence!r}; {advise(evidence, policies)}")
    if evidence == "required" and form.prompt.verdict_alone:
        raise ConfigError(f"evidence=required cannot be kept: the prompt {form.prompt.id!r} asks for a verdict alone")
    return evidence or form.prompt.evidence or "flag"


def asks_verdict_alone(form: prompts.AnyForm) -> bool:
    """Tell whether a form asks for a verdict without evidence and reason, whose probability is the score."""
    return isinstance(form, prompts.PromptForm) and form.prompt.verdict_alone


def describe_form(form: prompts.AnyForm, scale: Scale) -> dict[str, Any]:
    """Return the part of a judge's record about its prompt and scale."""
    prompt = form.prompt
    contract = {"contract": prompts.VERDICT_ALONE} if asks_verdict_alone(form) else {}
    return {
        "mode": prompt.mode,
        **contract,
        "prompt": {"id": prompt.id, "version": prompt.version, "digest": form.digest.hex()},
        "scale": scale.model_dump(),
    }
