"""The table of model servers: the address, the key and the peculiarities of each, by name."""

import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlsplit

from pydantic import Field

from judge_eval.errors import ConfigError
from judge_eval.record import Record
from judge_eval.safe_text import read_toml
from judge_eval.spelling import option
from judge_eval.trust import check_address, check_owned, hosts_of, user_config

KeyHeader: TypeAlias = Literal["authorization", "api-key", "x-api-key", "x-goog-api-key"]
CloudService: TypeAlias = Literal["", "google", "bedrock", "bedrock-mantle"]
"""Whose credentials are used without a key: Google's, or AWS's for the service of this name."""
_PLACE = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = re.compile(r"[A-Za-z0-9._-]+")
"""What a variable inside an address may hold: a region, a project, an account."""
_MODEL = "{model}"
_TABLE = "providers.toml"


class ProviderEntry(Record):
    """A provider as the table states it; `providers.toml` says what each field means."""

    name: str = ""
    base_url: str | tuple[str, ...]
    base_url_env: str = ""
    any_server: bool = False
    key_env: str = Field("", pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")
    key_command: tuple[str, ...] = ()
    """The command that prints the key, word by word; in the user's own configuration alone."""
    keyless: bool = False
    key_header: KeyHeader = "authorization"
    credentials: CloudService = ""
    wire: str = "openai-chat"
    decisions: str = ""
    unsupported: tuple[str, ...] = ()
    batches: bool = False
    prices: str = ""
    few_slots: bool = False
    bounds_texts: bool = False
    start: str = ""
    note: str = ""
    docs: str = ""
    file: str = Field("", exclude=True)
    """The project's file that states it, whose host must be trusted; "" for the package's and the user's."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The address as the table states it, or several of which the first that can be filled in counts."""
        return (self.base_url,) if isinstance(self.base_url, str) else self.base_url

    @property
    def has_decision_models(self) -> bool:
        """Whether its decision models are asked under its name; an address may be given to it that has none."""
        return bool(self.decisions) and not self.any_server

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that may be called, whoever names the provider; a project cannot add one."""
        if self.file:
            return ()
        filled = (_fill(address, "model")[0] for address in self.addresses)
        return tuple(dict.fromkeys(host for address in filled for host in hosts_of(address)))

    def address(self, model: str) -> str:
        """Return the base URL for a model."""
        for template in self.addresses:
            filled, missing = _fill(template, model)
            if filled:
                if self.file:
                    check_address(filled, self.file)
                return filled
        raise ConfigError(
            f"the address of {self.name!r} is not known: set {' and '.join(missing)}, or name it with "
            f"{option('base_url')}"
        )


class Dialect(Record):
    """How decision models are asked, as the table states it; `providers.toml` says what each field means."""

    name: str = ""
    path: str = Field(pattern=r"^(/|(\.\./)*)([A-Za-z0-9_.-]+|\{model\})(/([A-Za-z0-9_.-]+|\{model\}))*$")
    most: int = Field(400, ge=1, le=10_000)
    input: Literal["parts", "message", "text", "state"]
    questions: Literal["list", "map"]
    id: str = "name"
    text: str = "instructions"
    statement: str
    scale: str = "score"
    levels: str = "levels"
    levels_as: Literal["objects", "texts"] = "texts"
    answers: Literal["list", "map"]
    envelope: str = ""
    probability: tuple[str] | tuple[str, str, str]
    shares: Literal["rows", "by_grade"]
    tokens: tuple[str, str] = ("input_tokens", "output_tokens")
    key_header: KeyHeader | Literal[""] = ""


def _fill(template: str, model: str) -> tuple[str, tuple[str, ...]]:
    """Put the variables into an address; return "" and the variables that are missing if some are."""
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match[0] == _MODEL:
            return quote(model, safe="")
        variable, condition, values = match[1].partition("=")
        if condition and os.environ.get(variable, "").strip() not in values.split("|"):
            missing.append(variable)
            return ""
        *names, last = (variable if condition else match[1]).split("|")
        default = "" if _VARIABLE.fullmatch(last) else last
        names += [] if default else [last]
        text = next((text for name in names if (text := os.environ.get(name, "").strip())), "")
        if not text:
            missing.extend([] if default else [" or ".join(names)])
            return default
        if match.start() == 0:
            return _whole_address(text, default)
        if not _PART.fullmatch(text):
            raise ConfigError(f"{' or '.join(names)} cannot be part of an address: write letters, digits, . _ -")
        return text

    filled = _PLACE.sub(value, template)
    return ("" if missing else filled), tuple(dict.fromkeys(missing))


def _whole_address(text: str, default: str) -> str:
    """Complete an address of a variable, such as `0.0.0.0:11434`, by the scheme and port of the default."""
    if "://" in text:
        return text.rstrip("/")
    model = urlsplit(default or "https://host")
    parts = urlsplit(f"//{text.rstrip('/')}")
    host = "127.0.0.1" if parts.hostname in (None, "0.0.0.0") else parts.netloc.rpartition("@")[2]  # noqa: S104
    if parts.hostname == "0.0.0.0" and parts.port:  # noqa: S104
        host += f":{parts.port}"
    elif not parts.port and model.port:
        host += f":{model.port}"
    return f"{model.scheme}://{host}{parts.path}"


@cache
def package_tables() -> Mapping[str, Mapping[str, Any]]:
    """Read the package's own tables, as `providers.toml` explains them."""
    tables: dict[str, Mapping[str, Any]] = tomllib.loads((files("judge_eval") / _TABLE).read_text(encoding="utf-8"))
    return tables


@cache
def built_in() -> Mapping[str, ProviderEntry]:
    """Return the package's providers by name, in the order of the table."""
    return _entries(package_tables()["provider"], _TABLE)


@cache
def built_in_dialects() -> Mapping[str, Dialect]:
    """Return the package's dialects of decision models by name."""
    return _dialects(package_tables()["dialect"], _TABLE)


_project_dialects: dict[str, Dialect] = {}
_project: dict[str, ProviderEntry] = {}
"""What the configuration of the current command's project states."""


def begin_project(tables: Mapping[str, Any] | None = None, file: Path | str = "") -> None:
    """Forget an earlier project's providers, and take those of this one's `[provider.NAME]` tables."""
    _project.clear()
    _project_dialects.clear()
    _project_dialects.update(_dialects((tables or {}).get("dialect", {}), str(file)))
    for name, entry in _entries((tables or {}).get("provider", {}), str(file)).items():
        if name in built_in():
            raise ConfigError(f"{file}: provider.{name}: the package has a provider of this name; choose another")
        if entry.key_command:
            raise ConfigError(
                f"{file}: provider.{name}: a project's file may not name a command that is run; write the "
                f"provider into {user_config()}, or give {option('key_command', 'COMMAND')}"
            )
        _project[name] = entry.replace(file=str(file))


def _user_table(name: str) -> Any:
    path = user_config()
    if not path.is_file():
        return {}
    check_owned(path)
    return read_toml(path).get(name, {})


def known_dialects() -> dict[str, Dialect]:
    """Return the dialects by name: the package's first, then the user's and the project's."""
    return {
        **built_in_dialects(), **_dialects(_user_table("dialect"), str(user_config())), **_project_dialects,
    }  # fmt: skip


def _dialects(tables: Any, where: str) -> dict[str, Dialect]:
    dialects = {}
    for name, table in tables.items() if isinstance(tables, dict) else [("NAME", None)]:
        place = f"{where}: dialect.{name}"
        if not isinstance(table, dict) or "name" in table:
            raise ConfigError(f"{place}: write a table [dialect.NAME], without a name in it")
        if where != _TABLE and name in built_in_dialects():
            raise ConfigError(f"{place}: the package has a dialect of this name; choose another")
        dialects[name] = Dialect.of_settings({**table, "name": name}, place)
    return dialects


def known_providers() -> dict[str, ProviderEntry]:
    """Return the providers by name: the package's, those of the user's configuration, and the project's."""
    return {**_project, **built_in(), **_entries(_user_table("provider"), str(user_config()))}


def any_server() -> ProviderEntry:
    """Return the entry of the provider whose name stands for any server."""
    return next(entry for entry in built_in().values() if entry.any_server)


def entry_named(name: str) -> ProviderEntry:
    """Return a provider's entry; that of any server for a name that no table states."""
    return known_providers().get(name) or any_server()


def addresses_named() -> list[str]:
    """Return the addresses that the environment states for providers, by their `base_url_env`."""
    variables = (each.base_url_env for each in known_providers().values() if each.base_url_env)
    return [address for variable in variables for address in os.environ.get(variable, "").split()]


def _entries(tables: Any, where: str) -> dict[str, ProviderEntry]:
    entries = {}
    if not isinstance(tables, dict):
        raise ConfigError(f"{where}: provider is not a table; write [provider.NAME] for each")
    for name, table in tables.items():
        place = f"{where}: provider.{name}"
        if not isinstance(table, dict) or "/" in name:
            raise ConfigError(f"{place}: write a table [provider.NAME], without a slash in its name")
        reserved = {"name", "file"} if where == _TABLE else {"name", "file", "base_url_env", "any_server"}
        if odd := reserved & table.keys():
            raise ConfigError(f"{place}: no setting {min(odd)!r}")
        own = where != _TABLE and built_in().get(name)  # whose settings the user's own may replace
        known = own.model_dump(exclude_defaults=True) if own else {}
        entry = ProviderEntry.of_settings({**known, **table, "name": name}, place)
        shown = [match[0] for address in entry.addresses for match in _PLACE.finditer(address)]
        if where != _TABLE and "base_url" in table and any(text != _MODEL for text in shown):
            raise ConfigError(f"{place}: an address in a configuration takes no variable but {_MODEL}")
        entries[name] = entry
    return entries
