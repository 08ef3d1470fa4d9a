"""Options as records: a field says once what every front door must know of it.

A group of options is a frozen dataclass, a field `name: type = setting(default, help, ...)`. From the record come
the flags of the command line, the variables `JUDGE_EVAL_*`, the keys of a configuration file, the keywords in
Python and the JSON of a batch.
"""

import functools
import inspect
import math
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib.resources import files
from inspect import Parameter
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from judge_eval.errors import ConfigError, advise
from judge_eval.safe_text import check_text, type_of

ValueLimits: TypeAlias = tuple[float | None, float | None]
"""The least and the greatest value that a number can have; None: no end is known."""


def ends(limits: ValueLimits) -> tuple[float, float]:
    """Return limits as numbers, infinite where there is none."""
    least, greatest = limits
    return -math.inf if least is None else float(least), math.inf if greatest is None else float(greatest)


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest number allowed."""

    low: float
    high: float
    whole: bool = True
    """Whether it is a whole number."""

    def check(self, value: object, where: str) -> None:
        """Raise a `ConfigError` if a value, `where` in its text, is not in the range; None passes."""
        if value is None:
            return
        kinds = (int,) if self.whole else (int, float)
        known = isinstance(value, kinds) and not isinstance(value, bool)
        if not known or not self.low <= value <= self.high:  # type: ignore[operator]
            raise ConfigError(f"{where} {_brief(value)}: write {self}")

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {_spelled(self.low)} to {_spelled(self.high)}"


def _spelled(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6f}".rstrip("0").rstrip(".")


def _brief(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "of thousands of digits"
    return text if len(text) <= 40 else text[:37] + "..."


def _table(name: str) -> Mapping[str, Range]:
    table = tomllib.loads((files("judge_eval") / "ranges.toml").read_text(encoding="utf-8"))[name]
    return MappingProxyType({key: Range(low, high, isinstance(low, int)) for key, (low, high) in table.items()})


RANGES: Final = _table("arguments")
"""By the name of the flag and of the Python argument."""
PARAMS: Final = _table("parameters")
"""By name, for parameters of a request that mean the same to all servers."""


def check_ranges(values: Mapping[str, object]) -> None:
    """Check numbers by name; None passes."""
    for name, value in values.items():
        RANGES[name].check(value, name)


def check_params(params: Mapping[str, Any]) -> None:
    """Check that the parameters of requests are finite and in their ranges."""
    for name, value in params.items():
        if name in PARAMS:
            PARAMS[name].check(value, f"the parameter {name}")
        elif not _finite(value):
            raise ConfigError(f"the parameter {name} {_brief(value)}: write a finite number")


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, list | tuple) else True


AnyOptions = TypeVar("AnyOptions")
AnyValue = TypeVar("AnyValue")
Other = TypeVar("Other")
AnyClass = TypeVar("AnyClass", bound=type)
Verb = TypeVar("Verb", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Setting:
    """What the front doors must know of an option, besides its type and its default."""

    help: str = ""
    """One or two sentences for `--help`."""
    panel: str | None = None
    """The group of options that it stands in there."""
    metavar: str | None = None
    """What its value is called; by default the range or the type."""
    range: Range | None = None
    """The numbers it takes, in the unit of the flag."""
    unit: int = 1
    """How many of the record's units are one of the flag's: 1,000,000 bytes for a flag in megabytes."""
    name: str = ""
    """What flag, variable and key are called; by default as the field."""
    env: bool | tuple[str, ...] = False
    """Whether the variable `JUDGE_EVAL_<NAME>` sets it; names of further variables that do."""
    file: bool = False
    """Whether it is a key of `[tool.judge_eval]`."""
    flag: bool = True
    """Whether the command line has a flag for it."""
    flags: tuple[str, ...] = ()
    """How the flag is spelled; by default as its name."""
    type: Any = None
    """The type of the flag's value where it is not the field's, such as a list of texts."""
    read: Callable[[Any], Any] | None = None
    """Makes the field's value from the flag's; a `FieldValues` sets more fields than its own."""
    completion: str = ""
    """The function of `cli.flags.completion` that the shell calls on Tab."""
    changes_verdict: bool = False
    """Whether another value may bring other verdicts: then a batch keeps it, and a resume refuses another."""
    to_server: Literal["", "optional", "required"] = ""
    """Whether what makes a model's backend gets it, by the same name; `required`: it must take it."""
    common: bool = False
    """Whether `-h` shows it; `--help` shows all."""
    hidden: bool = False
    """Whether neither shows it."""


def setting(default: AnyValue, help: str = "", panel: str | None = None, **more: Any) -> AnyValue:
    """Make a field of a group of options by its default and, as `Setting` takes them, what front doors must know."""
    metadata = {"setting": Setting(help, panel, **more)}
    copied: Any = default.copy if isinstance(default, dict) else MISSING
    made: Any = field(default=default if copied is MISSING else MISSING, default_factory=copied, metadata=metadata)
    return cast(AnyValue, made)


class FieldValues(dict[str, Any]):
    """Values of several fields that one flag sets, by field."""


def setting_of(hint: Any) -> Setting | None:
    """Return the setting in an annotation; None if there is none."""
    return next((extra for extra in get_args(hint) if isinstance(extra, Setting)), None)


@functools.cache
def hints_of(record: Any) -> Mapping[str, Any]:
    """Return the annotations of a record's fields, settings included."""
    hints = get_type_hints(record, include_extras=True)
    known = {}
    for each in fields(record):
        hint, made = hints[each.name], each.metadata.get("setting")
        known[each.name] = hint if made is None else Annotated[hint, made]
    return MappingProxyType(known)


@functools.cache
def settings_of(record: Any) -> Mapping[str, Setting]:
    """Return the settings of a record's fields; a field without one is for Python alone."""
    known = {name: setting_of(hint) for name, hint in hints_of(record).items()}
    return MappingProxyType({name: setting for name, setting in known.items() if setting is not None})


def changing_verdicts(record: type) -> tuple[str, ...]:
    """Return the fields of which another value may bring other verdicts."""
    return tuple(name for name, setting in settings_of(record).items() if setting.changes_verdict)


def check(record: Any) -> None:
    """Check that values have the types of their fields, and that texts are Unicode; for `__post_init__`."""
    for name, hint in hints_of(record.__class__).items():
        value, setting, kinds = getattr(record, name), setting_of(hint) or Setting(), _kinds(hint)
        if setting.range is None and not any(_fits(kind, value) for kind in kinds):
            wanted = " or ".join(_KIND_WORDS.get(kind) or _called(kind) for kind in kinds if kind is not NoneType)
            shown = repr(value) if isinstance(value, str) else type_of(value)
            raise ConfigError(f"{name} must be {wanted}, not {shown}")
        if setting.range is not None:
            scaled = value / setting.unit if setting.unit != 1 and type(value) in (int, float) else value
            setting.range.check(scaled, name if setting.unit == 1 else f"{name} in {setting.metavar}")
        for text in value if isinstance(value, tuple | list) else (value,):
            if isinstance(text, str):
                check_text(name, text)


_KIND_WORDS: Mapping[Any, str] = {str: "a text", Path: "a path", bool: "True or False", float: "a number"}


def _called(kind: Any) -> str:
    """Name a type for a message: the values of a literal, a list, a mapping, a record by its class."""
    origin = get_origin(kind) or kind
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if origin is tuple and Ellipsis not in get_args(kind):
        return "a pair such as (1, 2)"
    name = {tuple: "a list", Sequence: "a list", Mapping: "a mapping"}.get(origin)
    return name or f"`{getattr(origin, '__name__', origin)}(...)`"


def _fits(kind: Any, value: Any) -> bool:
    origin = get_origin(kind) or kind
    if origin is Literal:
        return value in get_args(kind)
    wider = {float: (int, float), tuple: (tuple, list), Path: (Path, str)}.get(origin, origin)
    return kind is Any or not isinstance(wider, type | tuple) or isinstance(value, wider)


def of_keywords(record: Callable[..., AnyOptions], values: Mapping[str, Any], subject: str = "") -> AnyOptions:
    """Make a record of keywords, of which None stands for what is not given; also of its JSON."""
    # A text becomes a path, a list a tuple, if the field takes that alone. `subject` is what messages say the
    # options are for.
    hints = hints_of(record)
    for name in values:
        if name not in hints:
            raise ConfigError(f"no option {name!r}{subject and f' for {subject}'}; {advise(name, list(hints))}")
    return record(**{name: _fit(hints[name], v) for name, v in values.items() if v is not None})


def to_mapping(record: Any, names: Collection[str] | None = None) -> dict[str, Any]:
    """Return what is set in a record, or in some of its fields, as JSON; paths become absolute."""
    values = {}
    for each in fields(type(record)):
        value = getattr(record, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if (names is None or each.name in names) and value != default:
            values[each.name] = _plain(value)
    return values


def check_names(values: Mapping[str, Any], known: Sequence[str], **records: type) -> None:
    """Check that a function knows all keywords that it was given; raises `TypeError` with the nearest."""
    # `records` are its keywords that take a record, of whose fields people forget that they stand there.
    for name in values:
        if name not in known:
            inside = (keyword for keyword, record in records.items() if name in record.__annotations__)
            where = next((f"write {keyword}={records[keyword].__name__}({name}=...)" for keyword in inside), None)
            raise TypeError(
                f"unexpected keyword argument {name!r}; {where or _ELSEWHERE.get(name) or advise(name, known)}"
            )


_ELSEWHERE = {
    "api_key": "the key is read from the environment (OPENAI_API_KEY, or the variable that the provider's docs name), "
    "or printed by the command of Options(key_command=...)",
    **{
        name: f"write Options(params={{'{name}': ...}})"
        for name in ("temperature", "top_p", "top_k", "seed", "reasoning_effort", "extra_body", "extra_headers")
    },
    **dict.fromkeys(("retries", "max_retries"), "write Options(attempts=...)"),
    "model": "the model is named by Evaluator('provider/model')",
}
"""What people give under the names of other libraries, and where it stands here."""


def with_advice(record: AnyClass) -> AnyClass:
    """Have a record of options name what is near where it is given a keyword that it does not know."""
    plain: Any = record.__init__  # type: ignore[misc]
    known = list(inspect.signature(record).parameters)

    @functools.wraps(plain)
    def init(self: Any, *values: Any, **named: Any) -> None:
        check_names(named, known)
        plain(self, *values, **named)

    record.__init__ = init  # type: ignore[misc]
    return record


def divided(
    values: Mapping[str, Any], first: Callable[..., AnyOptions], second: Callable[..., Other]
) -> tuple[AnyOptions, Other]:
    """Make two records of keywords, each of those that are its fields."""
    of_first = hints_of(first)
    check_names(values, [*of_first, *hints_of(second)])
    return (
        first(**{name: value for name, value in values.items() if name in of_first}),
        second(**{name: value for name, value in values.items() if name not in of_first}),
    )


def with_keywords(*owners: Any) -> Callable[[Verb], Verb]:
    """Have `help()` and editors show the fields of records, or other functions' keywords, as those of `**keywords`."""

    def decorate(verb: Verb) -> Verb:
        shown = inspect.signature(verb)
        named = [each for each in shown.parameters.values() if each.kind is not each.VAR_KEYWORD]
        for owner in owners:
            named += _keywords_of(owner)
        verb.__signature__ = shown.replace(parameters=named)  # type: ignore[attr-defined]
        return verb

    return decorate


def _keywords_of(owner: Any) -> Iterator[Parameter]:
    is_record: bool = is_dataclass(owner)
    if not is_record:
        yield from (each for each in inspect.signature(owner).parameters.values() if each.kind is each.KEYWORD_ONLY)
        return
    hints = hints_of(owner)
    for each in fields(owner):
        hint = hints[each.name]
        kind = get_args(hint)[0] if setting_of(hint) else hint
        default = None if each.default is MISSING else each.default
        yield Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _fit(hint: Any, value: Any) -> Any:
    kinds = {get_origin(kind) or kind for kind in _kinds(hint)}
    if isinstance(value, str) and Path in kinds and str not in kinds:
        return Path(value)
    return tuple(value) if isinstance(value, list) and tuple in kinds else value


def _kinds(hint: Any) -> tuple[Any, ...]:
    kind = get_args(hint)[0] if setting_of(hint) else hint
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.absolute())
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value
