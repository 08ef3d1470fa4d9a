"""Sends requests to a server over HTTP, and reads replies within bounds."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, quote, urljoin, urlsplit

from judge_eval.digest import canonical_json, digest_json
from judge_eval.errors import CallError, ConfigError, RefusedError, TransientError, UnknownNameError
from judge_eval.foreign import read_json, within
from judge_eval.llm.backend import Identity
from judge_eval.llm.http.bounded import Received, unreadable
from judge_eval.llm.http.chat_format import status_of
from judge_eval.llm.http.cloud_credentials import AwsSigner, google_token
from judge_eval.llm.http.connection import Connection, Endpoint
from judge_eval.llm.http.events import read_events
from judge_eval.llm.http.failures import beginning, raise_failure, rate_signal, request_id
from judge_eval.llm.http.key_command import KeySource
from judge_eval.llm.http.key_command import key_command as of_words
from judge_eval.llm.http.secrets import Scrubber, credentials_in
from judge_eval.llm.limit import RateSignal
from judge_eval.llm.options import Options
from judge_eval.providers import ProviderEntry, entry_named, known_providers
from judge_eval.safe_text import reads_one_way
from judge_eval.spelling import option
from judge_eval.trust import is_loopback
from judge_eval.wire import Completion, filled

_PORTS = {"http": 80, "https": 443}
_OF_ORGANISATION = {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}
_NOT_SENT = {
    "ConnectError", "ConnectTimeout", "PoolTimeout", "ClientConnectorError", "ClientConnectorDNSError",
    "ClientConnectorCertificateError", "ClientConnectorSSLError", "ConnectionTimeoutError",
    "ConnectionRefusedError", "gaierror", "UnsupportedProtocol", "LocalProtocolError", "ProxyError",
    "ClientHttpProxyError",
}  # fmt: skip
_SENT = {"ClientOSError", "ServerDisconnectedError", "ConnectionResetError", "BrokenPipeError"}
"""In the chain, these mean that a connection stood."""


@dataclass(frozen=True)
class Address:
    """A base URL: the one that is called, and the one that may be shown."""

    url: str = field(repr=False)
    """As given, without user name and password."""
    public: str
    """Lower-case host, no default port, no credentials, no query, no slash at the end."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Credentials and values of the query, never to be shown."""
    loopback: bool = False
    authorization: str | None = field(default=None, repr=False)
    """The header that carries user name and password, which stands in the place of the key's."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a base URL; raises `ConfigError` unless it is an unambiguous http or https URL."""
        if not reads_one_way(url):
            raise ConfigError("the base URL can be read in more than one way; write %40 for @ where no credentials end")
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:
            raise ConfigError("the base URL cannot be read; write it as in https://host/v1") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ConfigError("the base URL must start with http:// or https://, as in https://host/v1")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        netloc = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
        public = f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}"
        who = credentials_in(url.strip())
        if who is not None and not all(who[:2]):
            raise ConfigError(
                "the base URL holds a user name or a password alone; write both, as in "
                "https://user:password@host/v1, or set the key in the environment"
            )
        secrets = [text for text in (*(who or ()), parts.username, parts.password) if text]
        secrets += [who[2].partition(" ")[2]] if who else []
        secrets += [v for name, v in parse_qsl(parts.query) if len(v) > 3 and name.lower() != "api-version"]
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        header = who[2] if who else None
        return cls(bare, public, tuple(dict.fromkeys(secrets)), is_loopback(parts.hostname), header)

    def under(self, path: str) -> str:
        """Return the URL of a path from the base URL, or with a slash at its beginning from the host."""
        parts = urlsplit(self.url)
        joined = urljoin(f"http://host{parts.path.rstrip('/')}/", path)
        return parts._replace(path=urlsplit(joined).path).geturl()


def read_key(variable: str, address: Address, keyless: bool = False) -> str:
    """Read the key from the environment; a local server, or one with a password, does not need one."""
    key = os.environ.get(variable, "").strip() if variable else ""
    if not key:
        if address.loopback or address.authorization or keyless:
            return "none"
        raise ConfigError(f"no key: set the environment variable {variable} to the key for {address.public}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"the key in {variable} contains characters that no key has; set it again")
    return key


def timed_out(timeout: float, place: str) -> TransientError:
    """Make the error of a call that took too long."""
    return TransientError(f"no answer from {place} within {timeout:g} s", kind="timeout")


def unreachable(error: BaseException, timeout: float, place: str, scrub: Callable[[str], str]) -> TransientError:
    """Make the error of a call without a reply; the chain of causes says whether it was sent."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    names = [name for link in chain for name in (klass.__name__ for klass in type(link).__mro__)]
    connected = _SENT.intersection(type(link).__name__ for link in chain)
    sent = bool(connected) or not _NOT_SENT.intersection(names)
    innermost = scrub(" ".join(next((words for link in reversed(chain) if (words := _words(link))), "").split()))
    innermost = innermost.encode("utf-8", "replace").decode()  # no file holds a lone surrogate
    if sent and not connected and any("Timeout" in name for name in names):
        return timed_out(timeout, place)
    what = "connection lost" if sent else "cannot connect"
    return TransientError(
        f"{what}: {place}: {innermost[:200] or type(chain[-1]).__name__}", kind="connection", sent=sent
    )


def _words(error: BaseException) -> str:
    """Return what an error says; of the system's errors the system's words, without number and address."""
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno).lower()
    return str((isinstance(error, socket.gaierror) and error.strerror) or error)


def _sdk_headers() -> dict[str, str]:
    """Return what OpenAI's SDK sends besides the key."""
    of_user = {name: value for variable, name in _OF_ORGANISATION.items() if (value := os.environ.get(variable))}
    return {"user-agent": f"AsyncOpenAI/Python {version('openai')}", **of_user}


def address_of(base_url: str | None, provider: ProviderEntry, model: str) -> Address:
    """Read a base URL, else the provider's own."""
    own = os.environ.get(provider.base_url_env) if provider.base_url_env else None
    return Address.parse(base_url or own or provider.address(model))


def entry_of(provider: str) -> ProviderEntry:
    """Return an entry of the table of providers; raises `UnknownNameError` if a named one is not in it."""
    if provider and provider not in (known := known_providers()):
        raise UnknownNameError("provider", provider, known)
    return entry_named(provider)


class HttpBackend:
    """A backend that posts bodies to one address (`path` under the base URL) of a server, without retries.

    `provider` is whose server it is, by its name in the table; empty for any server. `calling` are fields of `Options`.
    """

    identity: Identity
    """Provider, model, public base URL and every parameter asked for."""

    def __init__(
        self,
        path: str,
        model: str,
        *,
        provider: str = "",
        key_header: str = "",
        headers: Mapping[str, str] = MappingProxyType({}),
        **calling: Any,
    ) -> None:
        self._options = options = Options(**calling)
        self.entry = entry_of(provider)
        """What the table of providers says of the server."""
        self._address = address_of(options.base_url, self.entry, model)
        if "{model}" in path and ".." in model:
            raise ConfigError(f"the model {model!r} cannot be part of an address")
        self.key_env = options.key_env or self.entry.key_env
        """The environment variable that holds the key; "" if there is none."""
        words = tuple(options.key_command) or (() if options.key_env else self.entry.key_command)
        keyless = not (words or options.key_env or os.environ.get(self.key_env, "").strip())
        cloud = self.entry.credentials if keyless and self._address.authorization is None else ""
        self._command: KeySource | None = of_words(words) if words else google_token() if cloud == "google" else None
        self._signer = AwsSigner(cloud) if cloud and self._command is None else None
        self._endpoint = Endpoint(
            url=self._address.under(path.replace("{model}", quote(model, safe="@/:"))),
            place=self._address.public,
            key_header=key_header or self.entry.key_header,
            headers={**_sdk_headers(), **headers},
            authorization=self._address.authorization,
            concurrency=options.concurrency,
            timeout=options.timeout,
            max_reply=options.max_reply,
            signer=self._signer,
        )
        self._clients: dict[asyncio.AbstractEventLoop, Connection] = {}
        self.listener: Callable[[RateSignal], None] | None = None
        """Called with what the server advertises of its limits."""

    @property
    def place(self) -> str:
        """The server's address as it may be shown."""
        return self._address.public

    @property
    def target(self) -> str:
        """The URL that bodies are posted to."""
        return self._endpoint.url

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine."""
        return self._address.loopback

    @property
    def has_few_slots(self) -> bool:
        """Whether the server may answer few calls at a time: one of this machine, or one of which the table says so."""
        return self._address.loopback or self.entry.few_slots

    @property
    def variant(self) -> str:
        """A digest of the base URL's query; "" without one."""
        query = urlsplit(self._address.url).query
        return hashlib.sha256(query.encode("utf-8", "replace")).hexdigest()[:16] if query else ""

    @property
    def scope(self) -> str:
        """The name of the quota: a digest of base URL, key and model."""
        key = os.environ.get(self.key_env, "")
        parts = (self.place + self.variant, hashlib.sha256(key.encode("utf-8", "replace")).hexdigest())
        return digest_json([*parts, self.identity.model])

    def check(self) -> None:
        """Raise `ConfigError` if the key of the environment is missing or cannot be sent; no command is run."""
        if self._command is None and self._signer is None:
            self._key()

    @property
    def key_source(self) -> str:
        """Where the key comes from, and whether it is set."""
        if self._command is not None:
            return self._command.shown
        if self._signer is not None:
            return self._signer.shown
        if self._address.authorization is not None:
            return "user name and password of the base URL"
        if not self.key_env:
            return "none"
        there = "set" if os.environ.get(self.key_env, "").strip() else "not set"
        needed = self.entry.keyless or self._address.loopback
        return f"{self.key_env} ({there}{', and not needed' if needed else ''})"

    def facts(self) -> list[tuple[str, str]]:
        """Tell what is sent where, for people."""
        header = self._endpoint.key_header.replace("authorization", "Authorization: Bearer")
        return [
            ("sent to", f"POST {Address.parse(self.target).public}"),
            ("key", self.key_source),
            ("header with the key", header),
            *([("documented at", self.entry.docs)] if self.entry.docs else []),
            *([("note", self.entry.note)] if self.entry.note else []),
        ]

    @cached_property
    def scrub(self) -> Scrubber:
        """What keeps the key out of replies; for replies from files, the key may be missing."""
        return Scrubber(os.environ.get(self.key_env, "").strip(), self._address.secrets)

    async def post(self, body: bytes, path: str = "") -> Received:
        """Send a body, to another path than usual if one is given, and read the reply.

        Whatever its status is returned, but a first 401 for a key of a command.
        """
        url = self._address.under(path) if path else ""
        if self._command is not None and self._command.expiring:
            await asyncio.to_thread(self._command.key)
        client = await self._client()
        used = client.key
        received = await self._posted(client, body, url)
        if received.status == 401 and self._command is not None:
            key = await asyncio.to_thread(self._command.renewed, used)
            if key != used:
                self._use(client, key)
                received = await self._posted(client, body, url)
        if self.listener is not None and (signal := rate_signal(received.headers)) is not None:
            self.listener(signal)
        return received

    def _use(self, client: Connection, key: str) -> None:
        if client.key != key:
            self.__dict__["scrub"] = Scrubber(key, (*self._address.secrets, client.key))
            client.use(key)

    async def _posted(self, client: Connection, body: bytes, url: str) -> Received:
        try:
            async with asyncio.timeout(self._options.timeout):
                return await client.post(body, url)
        except CallError:
            raise
        except TimeoutError:
            raise timed_out(self._options.timeout, self.place) from None
        except Exception as error:  # no list covers all that aiohttp raises
            failed = unreachable(error, self._options.timeout, self.place, self.scrub)
            if self.entry.start and not failed.sent and self._address.loopback:
                failed.detail += f" (is it running? `{self.entry.start}` starts it)"
            raise failed from None

    def _completion(
        self, received: Received, read: Callable[[Mapping[str, Any], Scrubber], Completion | None]
    ) -> Completion:
        """Read a reply; `read` returns the completion of its JSON, None if it holds none.

        Raises:
            TransientError: The body stands for an error that may pass.
            RefusedError: The request was declined, or answered by what is not a completion: it may have been billed.
            FatalCallError: No request can succeed.
            Declined: The server objects to the form of the request.
        """
        status, headers, content = received

        def odd(what: str) -> RefusedError:
            shown = beginning(content, self.scrub)
            return unreadable(f"HTTP {status} from {self.place} {what}: {shown}", f"HTTP {status} {what}")

        failed: Any = not 200 <= status < 300
        try:
            body = read_json(content)
        except ValueError:
            body = (not failed and read_events(content)) or content.decode("utf-8", "replace")
        if not failed and not isinstance(body, dict):
            raise odd("with no JSON object")
        if not failed:
            failed = body.get("error") or (body.get("success") is False and {"message": body.get("errors")})
            if failed := failed or within(body, "choices", 0, "error"):
                status, body = status_of(failed), {"error": failed}
        if failed:
            raise_failure(status, body, headers, self.place, self.scrub, self.key_env)
        if (completion := read(body, self.scrub)) is None:
            raise odd("without an answer")
        if number := request_id(headers, self.scrub):
            return filled(Completion, {**completion.__dict__, "request_id": number})
        return completion

    async def aclose(self) -> None:
        """Close the connections of this event loop; a later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _client(self) -> Connection:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            key = self._key()
            self.__dict__["scrub"] = Scrubber(key, self._address.secrets)
            client = self._clients[loop] = Connection(self._endpoint, key)
            for other in [each for each in list(self._clients) if each.is_closed()]:
                if (ended := self._clients.pop(other, None)) is not None:
                    await ended.aclose()
        elif self._command is not None or self._signer is not None:
            self._use(client, self._key())
        return client

    def _key(self) -> str:
        if self._command is not None:
            return self._command.key()
        if self._signer is not None:
            return self._signer.token or "none"
        return read_key(self.key_env, self._address, self.entry.keyless)


def identified(provider: str, model: str, place: str, params: Mapping[str, Any], variant: str = "") -> Identity:
    """Make the identity of a model from what is sent; raises `ConfigError` if no model is named."""
    if not model.strip():
        raise ConfigError(f"no model is named; write {option('model', f'{provider}/NAME')}")
    written = tuple(sorted((name, canonical_json(value)) for name, value in params.items()))
    return Identity(provider, model, place, written, variant)
