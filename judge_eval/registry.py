"""Kinds of judges, providers of models, and other things that packages register under a name."""

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from typing import Any, Final, Literal

from judge_eval.errors import ConfigError, UnknownNameError, advise
from judge_eval.providers import ProviderEntry, built_in, known_providers, package_tables
from judge_eval.settings import settings_of
from judge_eval.spelling import option

_WIRE = re.compile(r'^WIRE = "([a-z-]+)"', re.MULTILINE)
_KIND = re.compile(r"^(?:([A-Z]+)_)?KIND = (Kind\(None)?", re.MULTILINE)


@cache
def _own_kinds() -> dict[str, tuple[str, bool]]:
    """Find the package's own kinds of judges by name, without importing their modules."""
    # `KIND = ...` in `judges/claims.py` is the kind `claims`, and `LIST_KIND = ...` is `claims-list`. Beside
    # the place stands whether it is made from a prompt.
    kinds = {}
    for file in (files("judge_eval") / "judges").iterdir():
        module, _, ending = file.name.partition(".")
        for match in _KIND.finditer(file.read_text(encoding="utf-8")) if ending == "py" else ():
            suffix, combines = match.groups()
            name = f"{module}-{suffix.lower()}" if suffix else module
            variable = f"{suffix}_KIND" if suffix else "KIND"
            kinds[name] = f"judge_eval.judges.{module}:{variable}", combines is None
    return dict(sorted(kinds.items()))


MODES: Final = tuple(name for name, (_, of_prompt) in _own_kinds().items() if of_prompt)
"""The package's own kinds of judges that are made from a prompt."""


@dataclass(frozen=True)
class Provider:
    """A provider of models: what makes its backends, and what these support.

    An entry point of the group `judge_eval.backends` names one, or only its factory.

    Args:
        create: Called with a model's name and, of the fields of `Options` that are `to_server`, with what its signature
            accepts; returns a `Backend`.
        writes_text: Whether its models write texts; else they are asked in decision mode.
        answers_questions: Whether its models answer the questions of decision mode.
        takes_grades: Whether its models choose among several grades; else they answer yes or no alone.
        takes_batches: Whether its servers take batches as its wire's do. Its backends then have the methods that
            `judge_eval.batch.replies.BatchBackend` names.
        takes_logprobs: Whether its models tell token probabilities if `params` ask for `logprobs` and `top_logprobs`.
        uncalibrated: Whether nobody measured what the probabilities of its models are worth, so that a run says so.
        hosts: The provider's own hosts, which may be called whoever names them.
        server_of: Called with a model's name; returns which entry of the table of providers its server is. If None, the
            provider's own.
    """

    create: Callable[..., Any]
    writes_text: bool = True
    answers_questions: bool = True
    takes_grades: bool = True
    takes_batches: bool = False
    takes_logprobs: bool = True
    uncalibrated: bool = False
    hosts: tuple[str, ...] = ()
    server_of: Callable[[str], str] | None = None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the factory as it is."""
        return self.create(*arguments, **options)

    def make(self, model: str, options: Any) -> Any:
        """Make the backend of `provider/model`; `options` is an `Options`.

        Options at their default are not given to a factory that takes everything (`**options`), so that a new option
        reaches nobody who does not know it.

        Raises:
            ConfigError: An option that could change a verdict is set, and the factory does not take it.
        """
        accepted, everything = _accepted(self.create)
        record, taken = options.__class__, {}
        usual = record()
        for name, setting in settings_of(record).items():
            value = getattr(options, name)
            is_set = value != getattr(usual, name)
            if setting.to_server and (name in accepted or (everything and is_set)):
                taken[name] = value
            elif setting.to_server == "required" and is_set:
                raise ConfigError(f"{model} takes no {name}: its provider does not accept it; leave it out")
        return self.create(split_model(model)[1], **taken)


@dataclass(frozen=True)
class Kind:
    """A kind of judge: what makes its judges, what makes one again from its record, and whom they ask.

    An entry point of the group `judge_eval.judges` names one, or only what makes its judges. In what
    `describe` of its judges returns, `mode` is the name of the kind.

    Args:
        create: Called with a prompt and, of `relevant`, `sample`, `evidence` and `layout`, with what its
            signature accepts; returns a `Judge`. None if its judges are made from other judges.
        from_record: Called with what `describe` returned; returns the same judge, with the versions of prompts that the
            record names. By default the method `from_record` of `create`; None if its judges cannot be made again.
        asks: What its models answer: requests for a text, or the questions of a decision model; None if that
            is not to be checked.
        by_claims: Whether its verdicts say which claims each chunk supports.
        for_decisions: The kind in its place if the model is a decision model.
        shows_list: Whether a request shows the chunks of a trace as a list, whose order may change a verdict.
        parts: The field of its record that lists the records of the judges whose verdicts it combines.
        stages: The fields of its record that hold the judges that it asks one after the other, in this order.
        words: Called with what `describe` returned; names the judge for people. If None, the prompt in the record does.
        name: The registered name; set by `kind_named`.
    """

    create: Callable[..., Any] | None
    from_record: Callable[[Mapping[str, Any]], Any] | None = None
    asks: Literal["text", "questions"] | None = None
    by_claims: bool = False
    for_decisions: str | None = None
    shows_list: bool = False
    parts: str | None = None
    stages: tuple[str, ...] = ()
    words: Callable[[Mapping[str, Any]], str] | None = None
    name: str = ""

    def takes(self, option: str) -> bool:
        """Tell whether what makes its judges has an option of this name."""
        return self.create is not None and option in _accepted(self.create)[0]

    def make(self, prompt: object, options: Mapping[str, Any]) -> Any:
        """Make a judge from a prompt's id, or the path of a file; an option at its default is None or 0.

        Raises:
            ConfigError: An option is set that the kind does not take, or it is not made from a prompt.
        """
        if self.create is None:
            raise ConfigError(f"a {self.name} is made from judges, not from a prompt")
        accepted, everything = _accepted(self.create)
        for name in ("relevant", "sample", "evidence"):
            if options.get(name) and name not in accepted and not everything:
                raise ConfigError(f"the judge {self.name!r} already has a policy; leave `{name}` out")
        taken = {name: value for name, value in options.items() if name in accepted or (everything and value)}
        return self.create(prompt, **taken)


def kind_named(name: str) -> Kind:
    """Return the kind of judge of a name: the package's own, or that of an installed package."""
    own = _own_kinds().get(name)
    loaded = EntryPoint(name, own[0], "").load() if own else find("judges", name, "judge")
    kind = loaded if isinstance(loaded, Kind) else Kind(loaded)
    return replace(kind, name=name, from_record=kind.from_record or getattr(kind.create, "from_record", None))


def kind_of_record(record: Mapping[str, Any]) -> Kind:
    """Return the kind of the judge that a record describes; of an unknown one nothing is stated."""
    try:
        return kind_named(str(record["mode"]))
    except (KeyError, UnknownNameError):
        return Kind(None)


def parts_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the records of the judges whose verdicts a judge combines; empty for others."""
    field = kind_of_record(record).parts
    parts = record.get(field) if field else None
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list | tuple) else []


def stages_of(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the records of the judges that a judge asks one after the other, by name; empty for others."""
    stages = {name: record.get(name) for name in kind_of_record(record).stages}
    return {name: stage for name, stage in stages.items() if isinstance(stage, Mapping)}


def _accepted(function: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # one written in C may have none
        return frozenset(), True
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        frozenset(parameter.name for parameter in parameters if parameter.kind in named),
        any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters),
    )


@cache
def _installed(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"judge_eval.{group}")}


def names(group: str) -> list[str]:
    """List what is installed in a group, such as `"backends"`."""
    return sorted(_installed(group))


def find(group: str, name: str, kind: str) -> Any:
    """Load what an installed package registered under a name, such as `openai` in the group `backends`."""
    # Only names that an installed package declares are ever imported; a name in a data file cannot add one.
    # `kind` is what a message calls it, such as `provider`.
    point = _installed(group).get(name)
    if point is None:
        known = _installed(group)
        raise UnknownNameError(kind, name, known, None if known else "no installed package offers one")
    try:
        return point.load()
    except ImportError as error:
        raise ConfigError(f"{kind} {name!r} cannot be used: {error}; install what it needs") from None


def provider_of(model: str) -> Provider:
    """Return who provides a model, `provider/model`."""
    name = split_model(model)[0]
    own = package_tables()["module"].get(name)
    if own or (name not in built_in() and name in _installed("backends")):
        loaded = EntryPoint(name, f"{own}:create", "").load() if own else find("backends", name, "provider")
        return loaded if isinstance(loaded, Provider) else Provider(loaded)
    entry = known_providers().get(name)
    if entry is None:
        known = provider_names()
        other = f"{option('model', 'openai/NAME')} with {option('base_url', 'https://HOST/v1')}"
        instead = package_tables()["instead"].get(name) or advise(name, known)
        advice = f"{instead} (any other OpenAI-compatible server: {other})"
        raise UnknownNameError("provider", name, known, advice)
    return _served(entry)


def provider_names() -> list[str]:
    """List the providers: those of installed packages, of the table and of configurations."""
    return sorted({*package_tables()["module"], *_installed("backends"), *known_providers()})


@cache
def _wires() -> Mapping[str, str]:
    """Find what servers may speak, and the module of each, without importing it."""
    modules = {}
    for file in (files("judge_eval") / "llm" / "http").iterdir():
        if file.name.endswith(".py") and (match := _WIRE.search(file.read_text(encoding="utf-8"))):
            modules[match[1]] = f"judge_eval.llm.http.{file.name[:-3]}"
    return modules


def _served(entry: ProviderEntry) -> Provider:
    module = _wires().get(entry.wire)
    if module is None:
        raise UnknownNameError(f"wire of {entry.name!r}", entry.wire, _wires())
    wire: Provider = EntryPoint(entry.name, f"{module}:create", "").load()
    return replace(
        wire,
        create=partial(wire.create, provider=entry.name),
        answers_questions=wire.answers_questions or entry.has_decision_models,
        takes_batches=wire.takes_batches and entry.batches,
        takes_logprobs=wire.takes_logprobs and "logprobs" not in entry.unsupported,
        hosts=entry.hosts,
    )


def stated_of(model: object) -> Provider:
    """Return what is stated of a model; of an object, or one that nobody provides, what a factory states."""
    with suppress(ConfigError):
        if isinstance(model, str):
            return provider_of(model)
    return Provider(_nobody)


def _nobody(model: str) -> Any:
    raise ConfigError(f"nobody provides {model!r}")


def split_model(model: str) -> tuple[str, str]:
    """Split `provider/model` at its first slash."""
    provider, slash, name = model.partition("/")
    if not slash or not provider or not name:
        served = provider in provider_names()
        fault = "does not name a model" if served else "does not say who serves it"
        suggested = f"{provider}/NAME" if served or (slash and provider) else f"openai/{name or provider or 'NAME'}"
        raise ConfigError(f"model {model!r} {fault}; write `provider/model`, such as `{suggested}`")
    return provider, name
