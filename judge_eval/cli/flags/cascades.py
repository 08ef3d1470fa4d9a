"""The flags on cascades: a cheap judge first, a strong one where that is not sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from judge_eval.cli.flags import completion
from judge_eval.errors import ConfigError
from judge_eval.given import prompt_name, read_params

if TYPE_CHECKING:
    from judge_eval.alignment.cascade import CascadeFile, CascadeStage
    from judge_eval.backends.stack import Options
    from judge_eval.judges import Cascade
    from judge_eval.judges.choose import Mode
    from judge_eval.prompts import DecisionLayout
    from judge_eval.schema import EvidencePolicy

PANEL = "A cascade of two judges"
_flag = partial(typer.Option, rich_help_panel=PANEL)
CASCADE_FIELDS = (
    "cascade", "then", "cascade_threshold", "cascade_file", "explain_positives", "cascade_mode",
    "cascade_prompt", "cascade_url", "cascade_param",
)  # fmt: skip
"""The names of these flags, for verbs that take a part of the group they stand in."""
JUDGES = ("cascade", "then", "cascade_mode", "cascade_prompt", "cascade_url", "cascade_param")
"""Those that say who the two judges are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeFlags:
    """A cheap judge first, a strong one where that is not sure."""

    cascade: Annotated[
        str | None,
        _flag(
            "--cascade",
            metavar="MODEL",
            help="Judge by two: this model first, which must tell probabilities (decisions/NAME, or a chat "
            "model with log-probabilities, which are asked for), and --then where it is not sure.",
            autocompletion=completion.models,
        ),
    ] = None
    then: Annotated[
        str | None,
        _flag(
            "--then",
            metavar="MODEL",
            help="With --cascade: the strong judge; --model unless given.",
            autocompletion=completion.models,
        ),
    ] = None
    cascade_threshold: Annotated[
        float | None,
        _flag(
            help="With --cascade: the confidence (.50, .51, ... 1.00) from which a cheap verdict stands. "
            "Named like this it comes without a guarantee; `cascade fit` finds one that has it."
        ),
    ] = None
    cascade_file: Annotated[
        Path | None,
        _flag(
            help="Judge by the cascade that `cascade fit` wrote: its models, prompts and threshold. Refused "
            "where any of them is not what it was."
        ),
    ] = None
    explain_positives: Annotated[
        bool,
        _flag(
            "--explain-positives",
            help="Send what the cheap judge finds relevant to the strong one too, for a reason and a quote.",
        ),
    ] = False
    cascade_mode: Annotated[
        Literal["pointwise", "listwise", "decision"] | None,
        _flag(
            help="How the cheap model is asked: `listwise` puts a pass over whole traces before single "
            "chunks, by another model or the same; `decision` for decisions/NAME and else `pointwise` unless "
            "given. --mode is the strong one's."
        ),
    ] = None
    cascade_prompt: Annotated[
        str | None,
        _flag(
            help="The cheap judge's prompt, where it is not of --prompt's family.",
            autocompletion=completion.prompts,
        ),
    ] = None
    cascade_url: Annotated[
        str | None, _flag(help="The URL of the cheap judge's server, where it is another than --base-url.")
    ] = None
    cascade_param: Annotated[
        list[str] | None,
        _flag(
            metavar="NAME=VALUE",
            help="Sent with every request to the cheap judge (--param reaches it unless it is a decision "
            "model); repeatable.",
        ),
    ] = None

    @property
    def cascades(self) -> bool:
        """Whether two are to judge, one after the other.

        Raises:
            ConfigError: Something is said of a cascade, and not of which.
        """
        if self.cascade or self.cascade_file is not None:
            return True
        for field in fields(CascadeFlags):
            if getattr(self, field.name) not in (None, False, []):
                flag = f"--{field.name.replace('_', '-')}"
                raise ConfigError(f"{flag} is for a cascade: name its cheap judge too, --cascade MODEL")
        return False


def cascade_flagged(
    flags: CascadeFlags,
    *,
    model: str | None,
    prompt: str | None,
    mode: Mode | None,
    layout: DecisionLayout,
    evidence: EvidencePolicy | None,
    relevant: int | None,
    options: Options,
    fitting: bool = False,
) -> tuple[dict[str, str], Cascade, Options]:
    """Make the cascade that flags or a file describe: its models by route, and the options of each.

    Args:
        flags: Of the cascade.
        model: The strong judge, where --then does not say.
        prompt: For both; None where none was given.
        mode: How the strong model is asked; None where nothing was said.
        layout: Where a decision model finds a chunk.
        evidence: What becomes of a verdict without sound evidence.
        relevant: The least grade that counts as relevant.
        options: How judges are called.
        fitting: Whether its threshold is still to be found.

    Raises:
        ConfigError: Flags do not go together, or are not what the file says.
    """
    from judge_eval.judges.choose import DEFAULT_PROMPT, cascade_of, mode_for

    if (mode or "").startswith("claims"):
        raise ConfigError("a cascade does not judge by claims; leave out --mode, or the cascade")
    if options.replay is not None or options.record is not None:
        raise ConfigError("a cascade cannot be recorded or replayed yet; use the cache")
    own = read_params(flags.cascade_param or (), "--cascade-param")
    if flags.cascade_file is not None:
        file = _file(flags, mode)
        judge = file.cascade(explain_positives=flags.explain_positives)
        # What flags say beside the file is put in its place, and held against it.
        again = cascade_of(
            file.cheap.model,
            file.strong.model,
            prompt=_prompt(prompt, file.strong),
            threshold=file.fit.threshold,
            cheap_prompt=_prompt(flags.cascade_prompt, file.cheap),
            cheap_mode=file.cheap.mode,
            mode=file.strong.mode,
            relevant=relevant or file.scale.relevant,
            evidence=evidence or file.evidence,
            layout=layout if layout != "question" else file.layout,
        )
        members = {
            "cheap": _stage(options, file.cheap, flags.cascade_url, own),
            "strong": _stage(options, file.strong, options.base_url, options.params),
        }
        file.check(again, _backends(file.models, members))
        return file.models, judge, replace(options, members=members)
    cheap, strong = flags.cascade or "", flags.then or model
    if not strong:
        raise ConfigError("the cascade has no strong judge; give --then MODEL")
    if flags.cascade_threshold is None and not fitting:
        raise ConfigError(
            "the cascade has no threshold: `judge-eval cascade fit` finds one with a guarantee and writes "
            "the file for --cascade-file; --cascade-threshold .90 names one without"
        )
    judge = cascade_of(
        cheap,
        strong,
        prompt=prompt_name(prompt or DEFAULT_PROMPT),
        threshold=flags.cascade_threshold,
        cheap_prompt=None if flags.cascade_prompt is None else prompt_name(flags.cascade_prompt),
        cheap_mode=flags.cascade_mode,
        mode=mode,
        relevant=relevant,
        evidence=evidence,
        layout=layout,
        explain_positives=flags.explain_positives,
    )
    deciding = mode_for(cheap) == "decision"
    asked = replace(options, params=own if deciding else {**options.params, **own})
    if flags.cascade_url is not None:
        asked = replace(asked, base_url=flags.cascade_url, fleet=())
    return {"cheap": cheap, "strong": strong}, judge, replace(options, members={"cheap": asked})


def _file(flags: CascadeFlags, mode: Mode | None) -> CascadeFile:
    """Read the file, and see that flags name its models, modes and threshold, where they name any."""
    from judge_eval.alignment.cascade import read_cascade

    assert flags.cascade_file is not None
    file = read_cascade(flags.cascade_file)
    for flag, given, known in (
        ("--cascade", flags.cascade, file.cheap.model),
        ("--then", flags.then, file.strong.model),
        ("--cascade-mode", flags.cascade_mode, file.cheap.mode),
        ("--mode", mode, file.strong.mode),
        ("--cascade-threshold", flags.cascade_threshold, file.fit.threshold),
    ):
        if given is not None and given != known:
            said = "none: everything is escalated" if known is None else known
            raise ConfigError(f"{flag} {given}: {flags.cascade_file} says {said}; leave one of the two out")
    return file


def _stage(options: Options, stage: CascadeStage, url: str | None, params: Mapping[str, Any]) -> Options:
    return replace(options, base_url=url or stage.base_url, params={**stage.params, **params})


def _backends(models: Mapping[str, str], members: Mapping[str, Options]) -> dict[str, Any]:
    """Tell what a run's manifest would say of the models, by route."""
    from judge_eval.backends.stack import create_backend
    from judge_eval.portal import portal
    from judge_eval.runs.judging.provenance import backends_record

    made = {route: create_backend(model, members[route]) for route, model in models.items()}
    told: Any = backends_record({route: backend.identity for route, backend in made.items()})["members"]
    for backend in made.values():
        portal.run(backend.aclose())
    return dict(told)


def _prompt(given: str | None, stage: CascadeStage) -> str | Path:
    """Return the prompt that was given, or the file's: without a version it is the version of the file."""
    if given is None or given == stage.prompt.partition("@")[0]:
        return prompt_name(stage.prompt)
    return prompt_name(given)
