"""From a prompt and a way of asking to a judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

from judge_eval.errors import ConfigError, advise
from judge_eval.judges.base import Judge
from judge_eval.judges.cascade import CHEAP, STRONG, Cascade
from judge_eval.judges.claims import Claims
from judge_eval.judges.decision import Decision
from judge_eval.judges.listwise import Listwise
from judge_eval.judges.panel import Panel
from judge_eval.judges.pointwise import Pointwise
from judge_eval.judges.questions import other_mode
from judge_eval.judges.votes import Vote
from judge_eval.prompts import (
    AnyForm,
    CellForm,
    ClaimsForm,
    DecisionForm,
    DecisionLayout,
    form_of_version,
    load_form,
    prompt_versions,
)
from judge_eval.ranges import check_ranges
from judge_eval.schema import EvidencePolicy

F = TypeVar("F", bound=AnyForm)

Mode: TypeAlias = Literal["pointwise", "listwise", "decision", "claims", "claims-list", "claims-decision"]
"""How a judge asks: about each chunk in a text of its own, about a trace's in one, or a decision model; and
each of these claim by claim."""
DEFAULT_PROMPT = "support/binary"
"""The prompt of those who name none."""
MODES: tuple[Mode, ...] = get_args(Mode)
_BY_CLAIMS: Mapping[str, str] = {
    "claims": "claims/support",
    "claims-list": "claims/support-list",
    "claims-decision": "claims/decision",
}
"""The prompts of the modes that judge by claims."""


def mode_for(model: object, asked: Mode | None = None) -> Mode:
    """Return how a model is asked: as told, else `decisions/NAME` in decision mode.

    `claims` means `claims-decision` where the model is `decisions/NAME`.
    """
    decides = isinstance(model, str) and model.startswith("decisions/")
    if asked is None:
        return "decision" if decides else "pointwise"
    return "claims-decision" if decides and asked == "claims" else asked


def modes_asked(judge: Judge, route: str = "") -> Iterator[tuple[str, Mode]]:
    """Tell how a judge asks each model: the model's route and the mode; nothing of judges of your own."""
    if isinstance(judge, Panel):
        for member in judge.members:
            yield from modes_asked(member.judge, member.route or route)
    elif isinstance(judge, Cascade):
        for one, its_route in zip((judge.cheap, judge.strong), judge.routes, strict=True):
            yield from modes_asked(one, its_route or route)
    elif isinstance(judge, Claims):
        yield route, judge.mode
    elif isinstance(judge, Pointwise | Listwise | Decision):
        yield route, judge.form.prompt.mode


def check_mode(model: object, mode: Mode) -> None:
    """See that a model can be asked so.

    Raises:
        ConfigError: It is a decision model and the mode is for models that write, or the other way round.
    """
    if not isinstance(model, str):
        return
    decides, asks = mode_for(model) == "decision", mode in ("decision", "claims-decision")
    if decides and not asks:
        raise ConfigError(
            f"{model} answers questions and writes nothing, and the mode is {mode}; judge in decision mode "
            "(--mode decision, with a prompt such as support/decision), or name a model that writes"
        )
    if asks and model.startswith("openai/"):
        raise ConfigError(
            f"{model} writes texts, and the mode is {mode}; name a decision model (--model "
            "decisions/NAME), or judge in another mode (--mode pointwise)"
        )


def check_models(judge: Judge, models: object) -> None:
    """See that each model can be asked as a judge asks it.

    Args:
        judge: Who asks.
        models: The model, or by route the models.

    Raises:
        ConfigError: One is a decision model and is asked for a text, or the other way round.
    """
    for route, mode in modes_asked(judge):
        check_mode(models.get(route) if isinstance(models, Mapping) else models, mode)


def make_judge(
    prompt: str | Path,
    mode: Mode,
    relevant: int | None = None,
    sample: int = 0,
    evidence: EvidencePolicy | None = None,
    layout: DecisionLayout = "question",
) -> Judge:
    """Make the judge for a prompt.

    In listwise mode `support/binary` means `listwise/support/binary`, in decision mode `support/decision`;
    `support/graded` there means `support/decision-graded`. In the modes that judge by claims these two mean
    the mode's own prompt, with verdicts on the scale that they name.

    Raises:
        ConfigError: The mode is none, or evidence is required of a model that never quotes.
    """
    if mode not in MODES:
        raise ConfigError(f"no mode {mode!r}; {advise(mode, MODES)}")
    if evidence == "required" and mode in ("decision", "claims-decision"):
        raise ConfigError("evidence=required cannot be kept: a decision model quotes nothing")
    if mode in _BY_CLAIMS:
        return _by_claims(prompt, mode, relevant, sample, evidence)
    if mode == "pointwise":
        return Pointwise(prompt, relevant=relevant, sample=sample, evidence=evidence)
    if mode == "decision":
        return Decision(_for_decisions(prompt), relevant=relevant, sample=sample, layout=layout)
    if isinstance(prompt, str) and not prompt.startswith("listwise/"):
        prompt = f"listwise/{prompt}"
    return Listwise(prompt, relevant=relevant, sample=sample, evidence=evidence)


def _by_claims(
    prompt: str | Path, mode: Mode, relevant: int | None, sample: int, evidence: EvidencePolicy | None
) -> Claims:
    """Make the judge that judges by claims.

    Raises:
        PromptError: The prompt is of another mode.
    """
    scale: Literal["binary", "graded"] | None = None
    if prompt == "support/binary" or prompt == "support/graded":
        scale, prompt = "binary" if prompt == "support/binary" else "graded", _BY_CLAIMS[mode]
    form = load_form(prompt)
    if not isinstance(form, ClaimsForm | CellForm) or form.prompt.mode != mode:
        raise other_mode(form, mode)
    return Claims(form, scale=scale, relevant=relevant, sample=sample, evidence=evidence)


def _for_decisions(prompt: str | Path) -> str | Path:
    """Return the prompt for decision models that goes with one for models that write, where it is one."""
    if isinstance(prompt, Path):
        return prompt
    name, at, version = prompt.partition("@")
    family, _, scale = name.rpartition("/")
    if scale not in ("binary", "graded"):
        return prompt
    return f"{family}/decision{'-graded' if scale == 'graded' else ''}{at}{version}"


def repeated(
    prompt: str | Path,
    mode: Mode = "pointwise",
    relevant: int | None = None,
    repeat: int = 1,
    vote: Vote = "majority",
    evidence: EvidencePolicy | None = None,
    layout: DecisionLayout = "question",
) -> Judge:
    """Make the judge for a prompt, or a panel of samples of it where it is to be asked several times.

    Raises:
        ConfigError: `repeat` or `relevant` is out of its range.
    """
    check_ranges({"repeat": repeat, "relevant": relevant})
    if repeat > 1 and mode in _BY_CLAIMS:
        raise ConfigError("judging by claims is not repeated: its rows are not put to a vote")
    if repeat == 1:
        return make_judge(prompt, mode, relevant, evidence=evidence, layout=layout)
    return Panel.of_samples(
        lambda k: make_judge(prompt, mode, relevant, k, evidence, layout), repeat, vote=vote
    )


def cascade_of(
    cheap_model: object,
    strong_model: object,
    *,
    prompt: str | Path = "support/binary",
    threshold: float | None,
    cheap_prompt: str | Path | None = None,
    cheap_mode: Mode | None = None,
    mode: Mode | None = None,
    relevant: int | None = None,
    evidence: EvidencePolicy | None = None,
    layout: DecisionLayout = "question",
    explain_positives: bool = False,
) -> Cascade:
    """Make the cascade of two models: `Evaluator({"cheap": A, "strong": B}, judge=cascade_of(A, B, ...))`.

    Args:
        cheap_model: Who is asked first: `decisions/NAME`, or a chat model, whom the evaluator asks for
            log-probabilities; without a probability nothing it says stands.
        strong_model: Who is asked where that is not sure.
        prompt: For both; a decision model is given the one for such models of the same family.
        threshold: The confidence from which a cheap verdict stands; None sends all to the strong judge. One
            that is named here comes without a guarantee: `cascade fit` finds one that has it.
        cheap_prompt: For the cheap judge, where that is another.
        cheap_mode: How the cheap model is asked; None is `decision` for `decisions/NAME`, else `pointwise`.
        mode: How the strong model is asked, likewise.
        relevant: The least grade that counts as relevant.
        evidence: What becomes of a verdict without sound evidence, by judges that quote.
        layout: Where a decision model finds a chunk.
        explain_positives: Whether what the cheap judge finds relevant goes to the strong one too.

    Raises:
        ConfigError: A setting cannot be used, or both judges are the same.
    """
    first, second = cheap_mode or mode_for(cheap_model), mode or mode_for(strong_model)
    quoting = None if first == "decision" else evidence
    cheap = make_judge(cheap_prompt or prompt, first, relevant, 0, quoting, layout)
    strong = make_judge(prompt, second, relevant, 0, evidence, layout)
    if cheap_model == strong_model and cheap.describe() == strong.describe():
        raise ConfigError(f"both judges of the cascade are {cheap_model} asked alike; one would do")
    return Cascade(cheap, strong, threshold, explain_positives)


def route_to_tell(judge: Judge, models: object) -> str | None:
    """Return the route of a chat model that tells probabilities only if asked to: a cascade's cheap one.

    Args:
        judge: Who judges.
        models: The models by route, or one model.

    Returns:
        None where the judge is no cascade, or its cheap model needs no asking: it answers by probabilities,
        is a fake one, or a backend of your own.
    """
    if not isinstance(judge, Cascade) or isinstance(judge.cheap, Decision) or not isinstance(models, Mapping):
        return None
    model = models.get(judge.routes[0])
    asked = isinstance(model, str) and not model.startswith("fake/")
    return judge.routes[0] if asked else None


def as_begun(judge: Judge, record: Mapping[str, Any]) -> Judge:
    """Return a judge with the prompt versions that it began with, where no version was asked for.

    Args:
        judge: As it would begin now.
        record: What `describe` returned when the run began.

    Returns:
        The judge itself where its versions are the same or were asked for, and one of your own.
    """
    if isinstance(judge, Panel):
        before = record.get("members")
        told = {one.get("name"): one for one in before or () if isinstance(one, Mapping)}
        members = [replace(m, judge=as_begun(m.judge, told.get(m.name, {}))) for m in judge.members]
        return Panel(members, vote=judge.vote, quorum=judge.quorum)
    if type(judge) is Pointwise:
        form = _form_as_begun(judge.form, record)
        return judge if form is judge.form else judge.with_form(form)
    if type(judge) is Listwise:
        form = _form_as_begun(judge.form, record)
        one_by_one = _form_as_begun(judge.pointwise.form, _table(record, "pointwise"))
        same = form is judge.form and one_by_one is judge.pointwise.form
        return judge if same else judge.with_form(form, one_by_one)
    if isinstance(judge, Cascade):
        cheap = as_begun(judge.cheap, _table(record, CHEAP))
        return replace(judge, cheap=cheap, strong=as_begun(judge.strong, _table(record, STRONG)))
    if type(judge) is Claims:
        forms = {name: _form_as_begun(form, _told_of(record, name)) for name, form in judge.forms().items()}
        return judge.with_forms(forms)
    if type(judge) is Decision:
        asked = _form_as_begun(judge.form, record)
        return judge if asked is judge.form else judge.with_form(asked)
    return judge


def _form_as_begun(form: F, record: Mapping[str, Any]) -> F:
    before, name = _table(record, "prompt"), form.prompt.id
    version = before.get("version")
    if form.pinned or before.get("id") != name or version == form.prompt.version:
        return form
    if version not in prompt_versions(name):
        return form
    older = form_of_version(name, version, pinned=False)
    if isinstance(older, DecisionForm) and isinstance(form, DecisionForm):
        older = DecisionForm(older.prompt, form.layout, pinned=False)
    return cast(F, older)  # the versions of a prompt are of one mode


def _told_of(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return what a judge by claims told of one of its prompts."""
    return record if name == "prompt" else _table(record, name)


def _table(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if isinstance(value, Mapping) else {}
