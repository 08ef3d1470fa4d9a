"""Flags in groups: each a frozen dataclass, spread over the signature of every verb that names it."""

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from importlib import import_module
from inspect import Parameter
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from typer import Context, Option
from typer.models import ArgumentInfo, OptionInfo

from judge_eval.cli.flags import completion
from judge_eval.errors import ConfigError, advise
from judge_eval.safe_text import check_spelling_of_place, check_text, is_address, public_url
from judge_eval.settings import RANGES, FieldValues, Range, Setting, hints_of, setting_of, settings_of

Returned = TypeVar("Returned")
NO_FLAG = object()
"""In the annotation of a parameter that is set by the environment and the configuration file alone."""


@dataclass(frozen=True, slots=True)
class FieldSelection:
    """The fields of a group that are flags of a verb, or that it does not take."""

    names: tuple[str, ...]
    taken: bool


def only(*names: str | type) -> FieldSelection:
    """Make flags of these fields alone; the environment and the configuration set the others. A class: its fields."""
    every = (tuple(settings_of(name)) if isinstance(name, type) else (name,) for name in names)
    return FieldSelection(tuple(chain.from_iterable(every)), True)


def without(*names: str) -> FieldSelection:
    """Leave these fields at their defaults, whatever the configuration says."""
    return FieldSelection(names, False)


@functools.cache
def flags_of(group: type) -> Mapping[str, Parameter]:
    """Return the flags of a group by field: the parameters typer is given."""
    flags = {}
    for field in fields(group):
        hint = hints_of(group)[field.name]
        setting = setting_of(hint) or Setting()
        if not setting.flag or get_origin(hint) is not Annotated:
            continue
        kind, *extras = get_args(hint)
        if not any(isinstance(extra, OptionInfo | ArgumentInfo) for extra in extras):
            kind = setting.type or kind
            hint = Annotated[kind, _option(field.name, setting), setting]
        if setting.env:
            (option,) = (extra for extra in get_args(hint) if isinstance(extra, OptionInfo))
            also = setting.env if isinstance(setting.env, tuple) else ()
            option.envvar = [f"JUDGE_EVAL_{(setting.name or field.name).upper()}", *also]
        _bound(field.name, hint)
        default: Any = field.default if field.default_factory is MISSING else None
        if default is MISSING:
            default = Parameter.empty
        elif setting.type is not None and type(None) in get_args(setting.type):
            default = None
        elif setting.unit != 1:
            default /= setting.unit
        flags[field.name] = Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
    return flags


def _option(name: str, setting: Setting) -> OptionInfo:
    spelled = (setting.name or name.strip("_")).replace("_", "-")
    option: OptionInfo = Option(
        *(setting.flags or (("--output", "-o") if name == "output" else (f"--{spelled}",))),
        help=re.sub(r"\[(?=[a-z])", r"\\[", setting.help),  # typer's help reads `[word]` as a style
        rich_help_panel=setting.panel,
        metavar=setting.metavar,
        hidden=setting.hidden,
        autocompletion=getattr(completion, setting.completion) if setting.completion else None,
    )
    return option


def spread(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """Spread the groups in a verb's signature into their flags, and gather them again when it is called."""
    # A part that names an unknown field, leaves out one without a default, or repeats a flag is a fault of
    # the program: `TypeError` at import.
    groups: dict[str, tuple[type, list[str]]] = {}
    flat: dict[str, Parameter] = {}
    configured: dict[str, tuple[str, Parameter]] = {}
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        group, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if is_dataclass(group) and isinstance(group, type):
            taken, others = _taken(group, extras)
            groups[parameter.name] = group, list(taken)
            configured |= {name: (parameter.name, setting) for name, setting in others.items()}
        else:
            default = parameter.default
            if isinstance(default, Field):  # a flag of the verb alone, made by `setting`
                own, default = replace(default.metadata["setting"], common=True), default.default
                hint = Annotated[hint, _option(parameter.name, own), own]
            taken = {
                parameter.name: Parameter(parameter.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            }
            _bound(parameter.name, hint)
        if twice := flat.keys() & taken.keys():
            raise TypeError(f"{function.__name__}: {', '.join(sorted(twice))} comes twice")
        flat |= taken
    for name, (owner, setting) in configured.items():
        if name not in flat:  # else the verb has a flag of its own of this name
            flat[name] = setting
            groups[owner][1].append(name)

    @functools.wraps(function)
    def gathered(**values: Any) -> Returned:
        for name, value in values.items():
            _check(flat[name], value)
        own = {name: value for name, value in values.items() if name in hints and name not in groups}
        for name, (group, names) in groups.items():
            own[name] = _gathered(group, {field: values[field] for field in names})
        return function(**own)

    gathered.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    gathered.__annotations__ = {name: parameter.annotation for name, parameter in flat.items()}
    return gathered


def _gathered(group: type, flags: Mapping[str, Any]) -> Any:
    """Make a group of its flags' values; a flag that was not given leaves the default."""
    settings = settings_of(group)
    values: dict[str, Any] = {}
    for name, value in flags.items():
        setting = settings.get(name) or Setting()
        if value is None:
            continue
        if setting.unit != 1:
            value = int(value * setting.unit)
        value = setting.read(value) if setting.read else value
        values |= value if isinstance(value, FieldValues) else {name: value}
    return group(**values)


def _range_of(name: str, hint: Any) -> Range | None:
    setting = setting_of(hint)
    return (setting and setting.range) or (RANGES.get(name) if {int, float} & _kinds(hint) else None)


def _bound(name: str, hint: Any) -> None:
    """Show what a flag takes: the range of a number, which `_check` holds, or a word for its type."""
    known, kinds = _range_of(name, hint), _kinds(hint)
    for option in get_args(hint)[1:]:
        if isinstance(option, OptionInfo) and option.metavar is None:
            if known is not None:
                option.metavar = f"{known.low:g}.." + (f"{known.high:g}" if known.high < 10**7 else "")
            else:
                option.metavar = next((word for kind, word in _WORDS.items() if kind in kinds), None)


_WORDS: dict[type, str] = {bool: "", str: "TEXT", Path: "PATH"}
"""What stands for a value in the help; a choice shows its values."""


def _kinds(hint: Any) -> set[Any]:
    kinds = set(get_args(hint)[:1])
    while inner := {each for kind in kinds for each in get_args(kind)} - kinds:
        kinds |= inner
    return kinds


def _check(flag: Parameter, value: Any) -> None:
    """Check the range of a number, that texts are Unicode, and that a path is not a URL."""
    shown = _word(flag)
    if (known := _range_of(flag.name, flag.annotation)) is not None:
        known.check(value, shown)
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, str):
            check_text(shown, each)
        if isinstance(each, str | Path) and is_address(each):
            check_spelling_of_place(each, shown)
            if isinstance(each, Path):
                raise ConfigError(f"{shown} {public_url(str(each))}: this is a file or folder here, never a URL")


def _word(flag: Parameter) -> str:
    extras = get_args(flag.annotation)
    if any(isinstance(extra, ArgumentInfo) for extra in extras):
        return flag.name.strip("_")
    options = (extra for extra in extras if isinstance(extra, OptionInfo))
    spelled = (word for option in options for word in (option.default, *(option.param_decls or ())))
    words = [word for word in spelled if isinstance(word, str) and word.startswith("--")]
    return words[0] if words else f"--{flag.name.strip('_').replace('_', '-')}"


def _taken(group: type, extras: list[Any]) -> tuple[dict[str, Parameter], dict[str, Parameter]]:
    """Return the fields of a group that are flags, and those that only the configuration sets."""
    known = flags_of(group)
    flags, configured = dict(known), dict[str, Parameter]()
    for part in extras:
        for name in part.names:
            if name not in known:
                raise TypeError(f"{group.__name__} has no field {name!r}; {advise(name, list(known))}")
        left = [name for name in flags if (name in part.names) is not part.taken]
        if needed := [name for name in left if flags[name].default is Parameter.empty]:
            raise TypeError(f"{group.__name__} needs {', '.join(needed)}")
        for name in left:
            flag = flags.pop(name)
            if part.taken and (setting := _without_flag(flag)) is not None:
                configured[name] = setting
        if not part.taken:
            configured = {name: flag for name, flag in configured.items() if name not in part.names}
    return flags, configured


def _without_flag(flag: Parameter) -> Parameter | None:
    """Return a parameter that the environment and the configuration set; None if they do not set it."""
    kind, *extras = get_args(flag.annotation)
    setting = setting_of(flag.annotation)
    if setting is None or not (setting.env or setting.file):
        return None
    (option,) = (copy.copy(extra) for extra in extras if isinstance(extra, OptionInfo))
    option.hidden = True
    return flag.replace(annotation=Annotated[kind, option, setting, NO_FLAG])


def is_flagged(*names: str) -> bool:
    """Tell whether an option is on the command line, not in a configuration file or the environment."""
    click = Context.__base__.__module__.rpartition(".")[0]  # some versions of typer bring their own
    context = import_module(f"{click}.globals").get_current_context(silent=True)
    sources = [context.get_parameter_source(name) for name in names] if context is not None else []
    return any(source is not None and source.name == "COMMANDLINE" for source in sources)
