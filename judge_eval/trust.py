"""Which hosts may be called: those that the user named, and not those that only a file names."""

import ipaddress
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from judge_eval.errors import ConfigError
from judge_eval.files import replacing
from judge_eval.safe_text import public_url, read_toml, reads_one_way

VARIABLE = "JUDGE_EVAL_TRUST_HOSTS"
"""The environment variable with hosts that may be called although only a file names them."""
_KEY = "trust_hosts"  # its name in the user's own configuration
_VARIABLES = ("OPENAI_BASE_URL", "JUDGE_EVAL_BASE_URL", "JUDGE_EVAL_CACHE")
"""Variables whose addresses the user named."""
_LOCAL = frozenset({"file", "local", "memory"})  # schemes of addresses on this machine
_CHAIN = re.compile(r"::(?=[A-Za-z][A-Za-z0-9+.-]*(?:://|::))")
_ODD = re.compile(r"[\s\\\x00-\x1f\x7f]")
_LIST = re.compile(rf"^{_KEY}\s*=\s*\[[^\]]*\]", re.MULTILINE)

_named: set[str] = set()  # hosts that the options of the current command name
_ask: list[Callable[[str, str], bool]] = []
"""Asks the user whether a host that a file names is trusted; empty if nobody can answer."""


def begin_command(ask: Callable[[str, str], bool] | None = None) -> None:
    """Forget what an earlier command in this process named; `ask` is called with host and file."""
    _named.clear()
    _ask[:] = [] if ask is None else [ask]


def name_hosts(words: Iterable[str]) -> None:
    """Trust hosts that the user named for this command."""
    _named.update(*map(_hosts_in, words))


def name_addresses(places: Iterable[object]) -> None:
    """Trust the hosts of addresses that the user named for this command."""
    _named.update(*(hosts_of(place) for place in places if isinstance(place, str)))


def check_address(address: object, file: str | Path, owned: Collection[str] = ()) -> None:
    """Check that an address which a file names may be called: the user named its host, or it is this machine.

    It is a base URL, a database, a place in a storage, or a list of them; texts that are not addresses pass.
    `owned` are the hosts of the provider of the model that is called there.
    """
    for each in address if isinstance(address, list | tuple) else [address]:
        for host in hosts_of(each) if isinstance(each, str) else ():
            if is_loopback(host) or host in owned or host in _named | _kept():
                continue
            if any(ask(host, str(file)) for ask in _ask):
                _remember(host)
                continue
            raise ConfigError(
                f"{file} names the host {host}, which you have not named: nothing is sent there. If you "
                f"trust it, write `judge-eval --trust-host {host} ...` for this command, "
                f"set {VARIABLE}={host}, or write {_KEY} = [{json.dumps(host)}] into {user_config()}"
            )


def unnamed_hosts(address: object, owned: Collection[str] = ()) -> list[str]:
    """Return the hosts of an address that the next command must be told to trust, like this one."""
    hosts, kept = hosts_of(address) if isinstance(address, str) else (), _kept()
    return [host for host in hosts if not (is_loopback(host) or host in owned or host in kept)]


def hosts_of(address: str) -> tuple[str, ...]:
    """Return the hosts that an address reaches, lower-case and without ports; empty for a local place."""
    # An address that programs may read in different ways is its own host, which nobody can have named.
    hosts: list[str] = []
    for piece in _CHAIN.split(address.strip()):
        scheme, mark, _ = piece.partition("://")
        if not mark or scheme.lower() in _LOCAL:
            continue
        try:
            parts = urlsplit(piece)
            if _ODD.search(piece) or not reads_one_way(piece):
                raise ValueError(piece)
            places = parts.netloc.rpartition("@")[2].split(",")
            named = [urlsplit(f"//{place}").hostname or "" for place in places]
        except ValueError:
            hosts.append(public_url(piece))
            continue
        is_database = scheme.lower().startswith("postgres")
        if is_database:  # its driver prefers these to the host before the path
            queried = [value for name, value in parse_qsl(parts.query) if name in ("host", "hostaddr")]
            named += [host.lower() for value in queried for host in value.split(",") if host[:1] != "/"]
            named += [f"service={value}" for name, value in parse_qsl(parts.query) if name == "service"]
        hosts += [host for host in named if host] or ([] if is_database else [f"{scheme}://"])
    return tuple(dict.fromkeys(hosts))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def user_config() -> Path:
    """Return the place of the user's own configuration."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "judge_eval" / "config.toml"


def check_owned(path: Path) -> None:
    """Check that no other user of this machine can change a file that says whom to call."""
    if os.name != "posix" or not path.exists():
        return
    own, folder = (0, os.geteuid()), path.absolute().parent
    place, sticky = folder.stat(), stat.S_ISVTX
    kept = place.st_mode & sticky and path.lstat().st_uid in own and place.st_uid in own
    for name, is_open in (
        (path, path.stat().st_mode & stat.S_IWOTH),
        (folder, place.st_mode & stat.S_IWOTH and not kept),
    ):
        if is_open:
            raise ConfigError(f"{path} is not read: other users can write {name}; use `chmod o-w`, or move the file")


def _hosts_in(words: str) -> set[str]:
    hosts: set[str] = set()
    for word in filter(None, re.split(r"[\s,]+", words)):
        hosts.update(hosts_of(word if "://" in word else f"host://{word}"))
    return hosts


def _kept() -> set[str]:
    """Return the hosts that the user named in the environment and in the configuration."""
    hosts = _hosts_in(" ".join([os.environ.get(VARIABLE, ""), *_configured()]))
    for name in _VARIABLES:
        for address in os.environ.get(name, "").split():
            hosts.update(hosts_of(address))
    return hosts


def _configured() -> list[str]:
    path = user_config()
    if not path.is_file():
        return []
    check_owned(path)
    hosts = read_toml(path).get(_KEY, [])
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise ConfigError(f'{path}: {_KEY} must be a list of hosts, such as ["judge.example.com"]')
    return hosts


def _remember(host: str) -> None:
    path, hosts = user_config(), [*_configured(), host]
    line = f"{_KEY} = {json.dumps(hosts)}"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    changed, count = _LIST.subn(lambda _: line, text, count=1)
    with replacing(path, mode=0o600) as file:
        file.write((changed if count else f"{line}\n{text}").encode())
