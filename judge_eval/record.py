"""The base of every record: frozen, closed, with errors that people can read."""

import ast
import gc
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    JsonValue,
    ValidationError,
    ValidationInfo,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import json_or_python_schema

from judge_eval import limits
from judge_eval.errors import ConfigError, DataError
from judge_eval.foreign import check_single_keys
from judge_eval.safe_text import value_kind

R = TypeVar("R", bound="Record")


class Shown:
    """What a notebook shows as HTML, and `print` as text: `judge_eval.notebook`, which knows the views, sets both."""

    write: ClassVar[Callable[[object], str] | None] = None
    print_: ClassVar[Callable[[object], str] | None] = None
    """Writes it as a terminal shows it."""

    def _repr_html_(self) -> str | None:
        return None if Shown.write is None else Shown.write(self)


TOO_DEEP: Final = f"nested more than {limits.DEPTH} deep; flatten it or leave it out"
KEPT: Final = {"kept": True}
"""The context in which a run's own files are read: what was taken in once is read whatever the limits are."""


def is_kept(info: ValidationInfo) -> bool:
    """Tell whether a record is read from a run's own files, where nothing is held to the limits."""
    return info.context is KEPT


def json_weight(value: Any) -> int:
    """Count the characters of a JSON value, about, and hold it to the limits."""
    if _is_flat(value):
        weight = 0
        for key, item in value.items():
            weight += len(key) + (len(item) if item.__class__ is str else 8)
        return weight
    weight, level, depth = 0, [value], 0
    while level:
        depth += 1
        inner: list[Any] = []
        for item in level:
            if isinstance(item, str):
                weight += len(item)
            elif isinstance(item, dict):
                inner += item.values()
                weight += sum(len(key) for key in item if isinstance(key, str))
            elif isinstance(item, list | tuple):
                inner += item
            elif isinstance(item, int) and not -_LONGEST < item < _LONGEST:
                raise ValueError(f"holds a number of more than {limits.DIGITS} digits; write it as a text")
            weight += 4
        if depth > limits.DEPTH and any(isinstance(item, dict | list | tuple) for item in level):
            raise ValueError(TOO_DEEP)
        level = inner
    return weight


_LONGEST = 10**limits.DIGITS
_SCALARS: Final = frozenset({str, float, bool, type(None)})


def _is_flat(value: Any) -> bool:
    """Tell, quickly, whether a value is an object of short values with nothing inside them, as most are."""
    if value.__class__ is not dict:
        return False
    for inner in value.values():
        if inner.__class__ is int:
            if not -_LONGEST < inner < _LONGEST:
                return False
        elif inner.__class__ not in _SCALARS:
            return False
    return True


def _within(value: Any, info: ValidationInfo) -> Any:
    if not is_kept(info) and not _is_flat(value):
        json_weight(value)
    return value


PlainObject: TypeAlias = Annotated[dict[str, JsonValue], BeforeValidator(_within)]
"""An object of JSON within the limits on depth and digits."""


class Record(BaseModel):
    """A frozen, closed value: no unknown field, no NaN, no infinity, no change after it is made."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        str_max_length=2**40,  # any limit makes pydantic refuse lone surrogates, which no file can hold
        ser_json_inf_nan="constants",
        defer_build=True,  # a record is compiled when it is first needed: most commands need few of them
    )

    @classmethod
    def parse(cls, data: Any, *, file: str | None = None, line: int | None = None) -> Self:
        """Make a record from plain data; errors name the file, the line (counted from 1) and the field."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise data_error(error, file=file, line=line) from None

    @classmethod
    def of_settings(cls, table: Any, where: str) -> Self:
        """Make a record from a table of settings; a `ConfigError` says `where` the fault is, and which."""
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise ConfigError(f"{where}: {data_error(error)}") from None

    @classmethod
    def from_json(cls, data: bytes, *, kept: bool = False) -> Self:
        """Make a record from the JSON of a file; a run's own files are `kept`, whatever the limits are."""
        record = cls.model_validate_json(data, context=KEPT if kept else None)
        check_single_keys(data, None)
        return record

    def replace(self, **fields: Any) -> Self:
        """Return the record with other values of some fields, which are not checked."""
        made = self.model_copy(update=fields)
        for name in made.__dict__.keys() - type(self).model_fields.keys():  # what was computed of the old values
            del made.__dict__[name]
        return made

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe each field by the text under it, read only where a schema is wanted."""
        schema = handler(core)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in _texts(cls).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return schema


class AsWritten:
    """Marks a record inside another whose JSON only this package writes: it is read without its `before` validators.

    Other shapes than the written one are for Python alone then. Such a validator needs all below it as Python values
    first, which takes as long as reading them.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read JSON by the fields, and Python as ever."""
        schema = handler(source)
        return json_or_python_schema(_without_before(handler.resolve_ref_schema(schema)), schema)


def _without_before(schema: Any) -> Any:
    while schema["type"] == "function-before":
        schema = schema["schema"]
    schema = schema | ({"ref": schema["ref"] + "-as-written"} if "ref" in schema else {})
    return schema | {"schema": _without_before(schema["schema"])} if "schema" in schema else schema


@cache
def _texts(kind: type[Record]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not issubclass(base, Record) or base is Record:
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                texts[field.target.id] = inspect.cleandoc(str(below.value.value))
    return texts


@cache
def _all_fields(kind: type[Record]) -> set[str]:
    """Return the names of a record's fields: one set for all, since nothing changes a frozen record's."""
    return set(kind.model_fields)


def trusted(kind: type[R], fields: dict[str, Any]) -> R:
    """Make a record of fields that are known to fit, all of them, without checking them again."""
    # For the paths that make millions: a verdict takes 1.4 us instead of 3.3. Elsewhere the class is called.
    record = kind.__new__(kind)
    keep = object.__setattr__
    keep(record, "__dict__", fields)
    keep(record, "__pydantic_fields_set__", _all_fields(kind))
    keep(record, "__pydantic_extra__", None)
    keep(record, "__pydantic_private__", None)
    return record


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile: among very many new objects that takes half of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


WHEN_EMPTY = {"chunks": "; give what was retrieved, or [] if nothing was"}
"""What to write into a required field that may be empty."""


_WANTED: Final = {
    "string_type": "a text",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "a truth value",
}
"""What a field must hold, by pydantic's word for what it does not."""


_RANGES: Final[Mapping[str, str]] = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "too_long": "must hold at most {max_length} items",
    "too_short": "must hold at least {min_length} items",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "missing": "this field is required",
    "extra_forbidden": "unknown field; remove it or put it into `metadata`",
    "string_unicode": "holds half of a character (a lone surrogate); replace it",
    "finite_number": "must be a finite number, not NaN or infinity",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "uuid_parsing": "must be a UUID",
    "uuid_type": "must be a UUID",
    "string_pattern_mismatch": "must match {pattern}",
    "json_invalid": "not JSON: {error}",
}
"""What is wrong with a field, by pydantic's word for it, with what pydantic knows of it."""


def fault_in_words(fault: Mapping[str, Any]) -> str:
    """Say what is wrong with a field, of one of pydantic's errors, where it or a framework gives them."""
    if fault["type"] == "uuid_parsing" and fault["loc"][-1:] == ("uuid",):  # or the other way to name a run
        return "must be a run's whole id, or label:NAME"
    if (wanted := _WANTED.get(fault["type"])) is not None:
        return f"holds {value_kind(fault['input'])}, not {wanted}"
    if (words := _RANGES.get(fault["type"])) is not None:
        ends = fault.get("ctx", {}).items()
        known = {name: f"{value:,.12g}" if isinstance(value, int | float) else value for name, value in ends}
        return words.format_map(known).replace(" 1 items", " 1 item").replace(" 1 characters", " 1 character")
    message = str(fault["msg"]).removeprefix("Value error, ")
    return (message[:1].lower() + message[1:]).replace("input should be", "must be", 1)


def faults_of(error: ValidationError) -> list[tuple[str | None, str]]:
    """Return the field and what is wrong with it, of each of pydantic's errors."""
    faults: list[tuple[str | None, str]] = []
    for each in error.errors(include_url=False):
        field = ""
        for part in each["loc"]:
            field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else str(part)
        more = WHEN_EMPTY.get(field, "") if each["type"] == "missing" else ""
        faults.append((field or None, fault_in_words(each) + more))
    return faults


def data_error(error: ValidationError, *, file: str | None = None, line: int | None = None) -> DataError:
    """Turn pydantic's error into one line that names file, line and field (the first, and how many more)."""
    (field, message), *rest = faults_of(error)
    if rest:
        message += f" (and {len(rest)} more error{'s' if len(rest) > 1 else ''} in this record)"
    return DataError(message, file=file, line=line, field=field)
