"""Flags in groups: each a frozen dataclass, spread over the signature of every verb that names it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from judge_eval.errors import ConfigError, advise
from judge_eval.given import check_text
from judge_eval.ranges import RANGES

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""What a path begins with that was written as a URL."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Marks a flag that takes its default from the environment, from a configuration file, or from both."""

    name: str = ""
    """What it is called there; the field's name where empty."""
    env: bool = True
    """Whether the variable `JUDGE_EVAL_<NAME>` sets it."""
    file: bool = True
    """Whether it is a key of `[tool.judge_eval]`."""
    also: tuple[str, ...] = ()
    """Further variables that set it."""


SET, ENV, FILE = Setting(), Setting(file=False), Setting(env=False)
"""Set from both, from the environment alone, from a file alone."""


@dataclass(frozen=True, slots=True)
class Portion:
    """The part of a group that a verb takes; the other fields keep their defaults."""

    names: tuple[str, ...]
    taken: bool


def only(*names: str) -> Portion:
    """Take these fields of a group alone; the mark stands in `Annotated` behind the group."""
    return Portion(names, True)


def without(*names: str) -> Portion:
    """Take a group but for these fields."""
    return Portion(names, False)


@functools.cache
def flags_of(group: type) -> Mapping[str, Parameter]:
    """Return the flags of a group by field: the parameters typer is given."""
    hints = get_type_hints(group, include_extras=True)
    flags = {}
    for field in fields(group):
        hint = hints[field.name]
        setting = setting_of(hint)
        if setting is not None and setting.env:
            (option,) = (extra for extra in get_args(hint) if isinstance(extra, OptionInfo))
            variable = f"JUDGE_EVAL_{(setting.name or field.name).upper()}"
            option.envvar = [variable, *setting.also] if setting.also else variable
        _bound(field.name, hint)
        default = Parameter.empty if field.default is MISSING else field.default
        flags[field.name] = Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
    return flags


def setting_of(hint: Any) -> Setting | None:
    """Return the mark of a flag that can be set elsewhere; None where it has none."""
    return next((extra for extra in get_args(hint) if isinstance(extra, Setting)), None)


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """Spread the groups in a verb's signature into their flags, and gather them again when it is called.

    Raises:
        TypeError: A part names a field its group does not have, leaves out one without a default, or two
            groups bring the same flag. The program is wrong then, so this comes when it is imported.
    """
    groups: dict[str, tuple[type, list[str]]] = {}
    flat: dict[str, Parameter] = {}
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        group, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if is_dataclass(group) and isinstance(group, type):
            taken = _taken(group, extras)
            groups[parameter.name] = group, list(taken)
        else:
            taken = {parameter.name: parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY)}
            _bound(parameter.name, hint)
        if twice := flat.keys() & taken.keys():
            raise TypeError(f"{function.__name__}: {', '.join(sorted(twice))} comes twice")
        flat |= taken

    @functools.wraps(function)
    def gathered(**given: Any) -> None:
        for name, value in given.items():
            _see(flat[name], value)
        own = {name: value for name, value in given.items() if name in hints and name not in groups}
        for name, (group, names) in groups.items():
            own[name] = group(**{field: given[field] for field in names})
        function(**own)

    gathered.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    gathered.__annotations__ = {name: parameter.annotation for name, parameter in flat.items()}
    return gathered


def _bound(name: str, hint: Any) -> None:
    """Show the range of a flag that takes a number; `_see` holds it."""
    for option in get_args(hint)[1:] if _is_number(hint) and name in RANGES else ():
        if isinstance(option, OptionInfo) and option.metavar is None:
            known = RANGES[name]
            option.metavar = f"{known.low:g}.." + (f"{known.high:g}" if known.high < 10**7 else "")


def _is_number(hint: Any) -> bool:
    kinds = get_args(hint)[:1]
    return bool({int, float} & {*kinds, *(each for kind in kinds for each in get_args(kind))})


def _see(flag: Parameter, value: Any) -> None:
    """See that a flag's texts can be written down, and that a place on this machine is one.

    Raises:
        ConfigError: They cannot, or it is a URL.
    """
    shown = _word(flag)
    if _is_number(flag.annotation) and (known := RANGES.get(flag.name)) is not None:
        known.check(value, shown)
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, str):
            check_text(shown, each)
        elif isinstance(each, Path) and _URL.match(str(each)):
            raise ConfigError(f"{shown} {each}: this is a file or folder of this machine, never a URL")


def _word(flag: Parameter) -> str:
    """Return what a flag or an argument is called on the command line."""
    extras = get_args(flag.annotation)
    if any(isinstance(extra, ArgumentInfo) for extra in extras):
        return flag.name.strip("_")
    options = (extra for extra in extras if isinstance(extra, OptionInfo))
    given = (word for option in options for word in (option.default, *(option.param_decls or ())))
    words = [word for word in given if isinstance(word, str) and word.startswith("--")]
    return words[0] if words else f"--{flag.name.strip('_').replace('_', '-')}"


def _taken(group: type, extras: list[Any]) -> dict[str, Parameter]:
    """Return the flags of a group that a verb takes."""
    flags = dict(flags_of(group))
    for part in extras:
        for name in part.names:
            if name not in flags:
                raise TypeError(f"{group.__name__} has no field {name!r}; {advise(name, list(flags))}")
        left = [name for name in flags if (name in part.names) is not part.taken]
        if needed := [name for name in left if flags[name].default is Parameter.empty]:
            raise TypeError(f"{group.__name__} needs {', '.join(needed)}")
        for name in left:
            del flags[name]
    return flags
