"""A judge file: who judges, and how, in one TOML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from judge_eval.errors import ConfigError, advise
from judge_eval.judges import Cascade, Judge, Member, Panel, Vote
from judge_eval.judges.cascade import cascade_of
from judge_eval.judges.judge import DEFAULT_PROMPT, Mode, make_judge, mode_for, with_blank
from judge_eval.llm.options import LOGPROBS, Options
from judge_eval.llm.stack import UNNAMED, create_backend
from judge_eval.prompts import DecisionLayout
from judge_eval.prompts.shipped import load_prompt
from judge_eval.record import PlainObject, Record
from judge_eval.registry import kind_named, stated_of
from judge_eval.runs.folder.describing import backends_by_route
from judge_eval.runs.judging.session import backends_record
from judge_eval.safe_text import prompt_name
from judge_eval.schema import BlankPolicy, EvidencePolicy
from judge_eval.spelling import option, toml_key, toml_value
from judge_eval.study.cascade_file import CascadeFile, CascadeStage, cascade_of_data, read_data
from judge_eval.trust import check_address, check_owned

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = ("api_key", "apikey", "key", "token", "secret", "authorization", "headers")


class ModelSpec(Record):
    """A model, also one of a panel or a cascade: who it is, how it asks and how it is called."""

    model: str = ""
    """`provider/model`; empty of a panel or a cascade as a whole."""
    prompt: str | None = None
    """A prompt's id, or `file:PATH`; of one of several models that of the judge if None, else `support/binary`."""
    mode: Mode | None = None
    """How the model is asked; by default the judge's mode, else what suits the model."""
    base_url: str | None = None
    """Of its server; None takes that of the judge or of the run."""
    key_env: str | None = None
    """The environment variable that holds the key of its server."""
    params: PlainObject = Field(default_factory=dict)
    """Sent with every request, besides those of the judge."""
    unsupported: tuple[str, ...] = ()
    """What its server does not take, besides what the judge's does not."""

    def options(self, options: Options, file: str, *, merge: bool = True) -> Options:
        """Return how this model, which `file` names, is called if all are called so; `merge` adds their parameters."""
        if self.base_url not in (options.base_url, *options.fleet):
            check_address(self.base_url, file or "the judge", stated_of(self.model).hosts)
        return replace(
            options,
            base_url=self.base_url or options.base_url,
            fleet=() if self.base_url else options.fleet,
            key_env=self.key_env or options.key_env,
            params={**(options.params if merge else {}), **self.params},
            unsupported=tuple(dict.fromkeys((*options.unsupported, *self.unsupported))),
        )


class MemberSpec(ModelSpec):
    """One member of a panel."""

    name: str | None = None
    """What its votes are called; by default model and prompt."""
    sample: int = Field(default=0, ge=0)
    """Which of several samples of one judge this is."""


class JudgeSpec(ModelSpec):
    """Who judges, and how: one model, a panel (`member`) or a cascade (`cheap`, `strong`)."""

    judge: str | None = None
    """The name of an installed package's judge, in place of `mode`."""
    layout: DecisionLayout = "question"
    """Where a decision model finds a chunk."""
    relevant: int | None = Field(default=None, ge=1)
    """The least grade that counts as relevant."""
    evidence: EvidencePolicy | None = None
    blank: BlankPolicy | None = None
    """What a chunk without text is; without a verdict if None."""
    confidence: bool = False
    """Whether chat models are asked for log-probabilities."""
    repeat: int = Field(default=1, ge=1)
    vote: Vote = "majority"
    """How the grades of members or samples become one."""
    quorum: int = 1
    """The least number of members that must give a verdict."""
    threshold: float | None = None
    """The confidence from which a verdict of the cheap judge stands."""
    explain_positives: bool = False
    """Whether the strong judge is asked about what the cheap one finds relevant too."""
    cheap: ModelSpec | None = None
    strong: ModelSpec | None = None
    member: tuple[MemberSpec, ...] = ()
    fitted: CascadeFile | None = None
    """What a fitted threshold rests on."""
    file: str = Field("", exclude=True)
    """The file that describes it."""

    @property
    def by_claims(self) -> bool:
        """Whether it may judge by claims: by mode, or as a judge of an installed package."""
        return self.judge is not None or (self.mode is not None and kind_named(self.mode).by_claims)

    @property
    def models(self) -> tuple[ModelSpec, ...]:
        """The models that differ in how they are called: members, or both stages of a cascade."""
        return (*self.member, *(stage for stage in (self.cheap, self.strong) if stage is not None))

    @classmethod
    def of_table(cls, table: Mapping[str, Any], where: str, folder: Path | None = None) -> JudgeSpec:
        """Read a judge from a table of TOML, which messages call `where`; prompts are found from `folder`."""
        # A key of a server is refused, as are unknown keys.
        data = {name: value for name, value in table.items() if name != "fitted"}
        if "fit" in data:
            return cls.of_cascade(cascade_of_data(data, where)).replace(file=where)
        _check_names(data, cls, where)
        members = data.get("member", [])
        if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
            raise ConfigError(f"{where}: write a table [[member]] for each member")
        for number, member in enumerate(members, 1):
            _check_names(member, MemberSpec, f"{where}: member {number}")
        stages = {name: data[name] for name in ("cheap", "strong") if isinstance(data.get(name), dict)}
        for name, stage in stages.items():
            _check_names(stage, ModelSpec, f"{where}: {name}")
        for part in (data, *members, *stages.values()):
            _check_part(part, where, folder)
        spec = cls.of_settings(data, where)
        if bool(spec.member) + bool(spec.cheap or spec.strong) + bool(spec.model or spec.judge) > 1:
            raise ConfigError(
                f"{where}: one judge (model), a panel ([[member]]) or a cascade ([cheap], [strong]); not two"
            )
        single = {"repeat", "vote", "quorum", "judge"} & spec.model_fields_set
        if spec.cheap and single:
            raise ConfigError(f"{where}: {', '.join(sorted(single))}: a cascade is of two judges asked once")
        if (spec.cheap is None) is not (spec.strong is None):
            raise ConfigError(f"{where}: a cascade needs both tables, [cheap] and [strong]")
        return spec.replace(file=where)

    @classmethod
    def of_cascade(cls, file: CascadeFile) -> JudgeSpec:
        """Return the judge that a fitted cascade is."""

        def stage(fitted: CascadeStage) -> ModelSpec:
            names = ("model", "prompt", "mode", "base_url", "params")
            return ModelSpec(**{name: getattr(fitted, name) for name in names})

        return cls(
            layout=file.layout,
            relevant=file.scale.relevant,
            evidence=file.evidence,
            blank=file.blank,
            threshold=file.fit.threshold,
            explain_positives=file.explain_positives,
            cheap=stage(file.cheap),
            strong=stage(file.strong),
            fitted=file,
        )

    def beside(self, where: str, flags: Mapping[str, Any]) -> JudgeSpec:
        """Return this cascade with the options that are given beside its file, by the names of their flags.

        An option may not name another model, mode or threshold than the file. Other prompts and parameters
        are compared with the fit when the cascade is made.
        """
        cheap, strong = self.cheap, self.strong
        if cheap is None or strong is None:
            raise ConfigError(f"{where}: not a cascade; it has no tables [cheap] and [strong]")
        for name, value, known in (
            ("cascade", flags.get("cascade"), cheap.model),
            ("strong_model", flags.get("strong_model"), strong.model),
            ("mode", flags.get("mode"), strong.mode or self.mode),
            ("cascade_threshold", flags.get("cascade_threshold"), self.threshold),
        ):
            if value is not None and value != known and (known is not None or self.fitted is not None):
                stated = "none: everything is escalated" if known is None else known
                raise ConfigError(f"{option(name, value)}: {where} says {stated}; leave one of the two out")
        prompt = flags.get("prompt")
        if prompt is None or (strong.prompt and prompt == strong.prompt.partition("@")[0]):
            prompt = strong.prompt
        strong = strong.replace(prompt=prompt, mode=strong.mode or flags.get("mode"))
        return self.replace(
            strong=strong,
            threshold=self.threshold if self.fitted else self.threshold or flags.get("cascade_threshold"),
            confidence=self.confidence or bool(flags.get("confidence")),
            **{name: flags.get(name) or getattr(self, name) for name in ("evidence", "blank", "relevant")},
        )

    def called(self, options: Options) -> Options:
        """Return how all models of the judge are called."""
        for name, value in self.params.items():
            if name in options.params and options.params[name] != value:
                raise ConfigError(
                    f"{option('param', python='params')} {name}={options.params[name]}: the judge file says "
                    f"{value}; leave one of the two out"
                )
        return self.options(options, self.file)

    def keywords(self, options: Options | None = None, *, fitting: bool = False) -> dict[str, Any]:
        """Return the keywords of the `Evaluator` that judges so; `options` fill what the judge leaves open.

        `fitting`: a cascade's threshold is still to be found; else it must be as it was fitted.
        """
        options = self.called(options or Options())
        kind = kind_named(mode_for(self.model, self.mode))
        if self.confidence and kind.by_claims:
            raise ConfigError(
                f"{option('confidence', True)} is not for judging by claims, whose verdicts follow by a rule"
            )
        if self.cheap is not None and self.strong is not None:
            models, cascade, options = self._cascade(self.cheap, self.strong, options, fitting=fitting)
            asks = kind_named(mode_for(self.strong.model, self.strong.mode or self.mode)).asks
            if self.confidence and asks != "questions":
                options = options.with_logprobs("strong")
            return {"model": models, "judge": cascade, "options": options}
        plain = options
        if self.confidence and (self.member or kind.asks != "questions"):  # decision models need no parameter
            options = replace(options, params={**options.params, **LOGPROBS})
        if self.member:
            models, panel, options = self._panel(options, plain)
            return {"model": models, "judge": panel, "options": options}
        model = self.model or (UNNAMED if options.replay else None)
        if not model:
            raise ConfigError(
                f"no model is named; give {option('model', 'openai/NAME')} (or fake/overlap to try it "
                "offline), set JUDGE_EVAL_MODEL, or write `model = ...` under [tool.judge_eval] in "
                "pyproject.toml"
            )
        return {
            "model": model,
            "judge": self.judge or self._laid_out(),
            "prompt": prompt_name(self.prompt or DEFAULT_PROMPT),
            **{name: getattr(self, name) for name in ("repeat", "vote", "mode", "relevant", "evidence", "blank")},
            "options": options,
        }

    def _laid_out(self) -> Judge | None:
        if self.layout == "question":
            return None
        mode = mode_for(self.model, self.mode)
        if not kind_named(mode).takes("layout") or self.repeat > 1:
            raise _layout_error()
        prompt = prompt_name(self.prompt or DEFAULT_PROMPT)
        return make_judge(prompt, mode, self.relevant, 0, self.evidence, self.layout)

    def _panel(self, options: Options, plain: Options) -> tuple[dict[str, str], Panel, Options]:
        """Make the panel: its models by route, and how each is called."""
        # Members with one model and the same options share a route, so that their calls share its limits.
        # `plain` is for decision models, which state probabilities without being asked to.
        if self.repeat > 1:
            raise ConfigError(f"{option('repeat')} and a panel do not go together; give members `sample`s of their own")
        if self.layout != "question":
            raise _layout_error()
        models: dict[str, str] = {}
        special: dict[str, Options] = {}
        members: list[Member] = []
        for number, member in enumerate(self.member, 1):
            if not member.model:
                raise ConfigError(f"member {number} of the panel names no model; write model = 'openai/NAME'")
            model = member.model
            mode = member.mode or self.mode or mode_for(model)
            own = member.options(plain if kind_named(mode).asks == "questions" else options, self.file)
            same = (r for r, m in models.items() if m == model and special.get(r, options) == own)
            if (route := next(same, None)) is None:
                route = model if model not in models else f"{model} #{number}"
                models[route] = model
                if own != options:
                    special[route] = own
            prompt = member.prompt or self.prompt or DEFAULT_PROMPT
            judge = make_judge(prompt_name(prompt), mode, self.relevant, member.sample, self.evidence)
            name = member.name or f"{model}:{prompt}"
            if any(other.name == name for other in members):
                name = f"{name} #{number}"
            members.append(Member(name, with_blank(judge, self.blank), route))
        panel = Panel(members, vote=self.vote, quorum=self.quorum)
        return models, panel, replace(options, members=special)

    def _cascade(
        self, cheap: ModelSpec, strong: ModelSpec, options: Options, *, fitting: bool
    ) -> tuple[dict[str, str], Cascade, Options]:
        if not cheap.model:
            raise ConfigError(f"the cascade has no cheap judge; give {option('cascade', 'MODEL')}")
        if not strong.model:
            raise ConfigError(f"the cascade has no strong judge; give {option('strong_model', 'MODEL')}")
        if self.threshold is None and self.fitted is None and not fitting:
            raise ConfigError(
                "the cascade has no threshold: `judge-eval cascade fit` finds one with a guarantee "
                f"(use its file with {option('judge', 'FILE')}); {option('cascade_threshold', 0.9)} has none"
            )
        fitted = None if fitting else self.fitted
        inherited = self.prompt if strong.prompt else None
        cheap_prompt = cheap.prompt or inherited
        judge = cascade_of(
            cheap.model,
            strong.model,
            prompt=prompt_name(strong.prompt or self.prompt or DEFAULT_PROMPT),
            threshold=None if fitting else self.threshold,
            cheap_prompt=None if cheap_prompt is None else prompt_name(cheap_prompt),
            cheap_mode=cheap.mode,
            mode=strong.mode or self.mode,
            relevant=self.relevant,
            evidence=self.evidence,
            layout=self.layout,
            blank=self.blank,
            explain_positives=self.explain_positives,
        )
        models = {"cheap": cheap.model, "strong": strong.model}
        if fitted is None:
            writes = kind_named(mode_for(cheap.model)).asks != "questions"
            members = {"cheap": cheap.options(options, self.file, merge=writes)}
            if (own := strong.options(options, self.file)) != options:
                members["strong"] = own
            return models, judge, replace(options, members=members)
        # What is given beside the file takes the place of what it says, and is compared with the fit.
        strong = strong.replace(
            base_url=options.base_url or strong.base_url, params={**strong.params, **options.params}
        )
        members = {
            "cheap": cheap.options(options, self.file, merge=False),
            "strong": strong.options(options, self.file),
        }
        if cheap.base_url is None:
            members["cheap"] = replace(members["cheap"], base_url=None)
        fitted.check(judge, _backends(models, members))
        return models, replace(judge, guarantee=fitted.guarantee), replace(options, members=members)

    def table(self) -> dict[str, Any]:
        """Return the judge as a judge file states it, without what is at its default."""
        if self.fitted is not None:
            return self.fitted.model_dump(mode="json", exclude_none=True)
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)


def cascade_spec(flags: Mapping[str, Any]) -> JudgeSpec:
    """Return the cascade that options describe; see `JudgeSpec.beside`."""
    models = flags.get("cascade") or "", flags.get("strong_model") or flags.get("model") or ""
    return JudgeSpec(cheap=ModelSpec(model=models[0]), strong=ModelSpec(model=models[1])).beside("the options", flags)


def read_judge(path: Path) -> JudgeSpec:
    """Read a judge file: TOML, or the JSON that `cascade fit` writes."""
    check_owned(path)
    return JudgeSpec.of_table(read_data(path), str(path), path.parent)


def to_toml(table: Mapping[str, Any]) -> str:
    """Write a table as TOML: values first, then tables and arrays of tables; deeper levels in one line."""
    plain = {name: value for name, value in table.items() if not _is_table(value)}
    lines = [f"{toml_key(name)} = {toml_value(value)}" for name, value in plain.items()]
    for name, value in table.items():
        if name not in plain:
            for each in value if isinstance(value, list) else [value]:
                lines += ["", f"[[{name}]]" if isinstance(value, list) else f"[{name}]"]
                lines += [f"{toml_key(key)} = {toml_value(inner)}" for key, inner in each.items()]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_table(value: Any) -> bool:
    return (isinstance(value, dict) and bool(value)) or (
        isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)
    )


def _check_names(table: Mapping[str, Any], record: type[Record], where: str) -> None:
    known = sorted(name for name in record.model_fields if name not in ("fitted", "file"))
    for name in table:
        if name.lower() in _KEYS:
            raise ConfigError(
                f"{where}: no setting {name!r}; a judge file never holds a key: name the environment "
                'variable that does, key_env = "MY_KEY"'
            )
        if name not in known:
            raise ConfigError(f"{where}: no setting {name!r}; {advise(name, known)}")


def _check_part(part: dict[str, Any], where: str, folder: Path | None) -> None:
    variable, prompt = part.get("key_env"), part.get("prompt")
    if isinstance(variable, str) and not _VARIABLE.fullmatch(variable):
        raise ConfigError(f"{where}: key_env must be the name of an environment variable, not a key")
    if isinstance(prompt, str) and prompt.startswith("file:") and folder is not None:
        beside = folder / prompt[5:]
        if beside.is_file():
            part["prompt"] = f"file:{beside}"
    elif isinstance(prompt, str):
        try:
            load_prompt(prompt_name(prompt))
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None


def _layout_error() -> ConfigError:
    return ConfigError(f"`layout` is for one decision model, asked once ({option('mode', 'decision')})")


def _backends(models: Mapping[str, str], members: Mapping[str, Options]) -> dict[str, Any]:
    from judge_eval.background_loop import background_loop

    backends = {route: create_backend(model, members[route]) for route, model in models.items()}
    for backend in backends.values():
        background_loop.run(backend.aclose())
    return dict(backends_by_route(backends_record({route: backend.identity for route, backend in backends.items()})))
