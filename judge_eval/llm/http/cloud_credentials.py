"""Google's and AWS's own credentials, which stand in the place of a key."""

import os
from collections.abc import Mapping
from datetime import UTC
from functools import cache
from importlib import import_module
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from judge_eval.errors import ConfigError
from judge_eval.installed import import_extra
from judge_eval.llm.http.key_command import KeySource, is_key
from judge_eval.llm.http.secrets import Scrubber

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class GoogleToken(KeySource):
    """A token of Google's application default credentials (extra `vertex`)."""

    shown = "of Google's default credentials"

    def _new(self) -> tuple[str, float]:
        needed = f"without {_VERTEX} Vertex needs google-auth"
        auth, transport = import_extra(needed, "vertex", "google.auth", "google.auth.transport.requests")
        _check_files(*_GOOGLE_FILES)
        try:
            credentials, _ = auth.default(scopes=[_SCOPE])
            credentials.refresh(transport.Request())
            end = credentials.expiry
            until = end.replace(tzinfo=UTC).timestamp() if end else float("inf")
        except Exception as error:  # files and answers of any content bring errors of any kind
            raise ConfigError(
                f"no token from Google: {_shown(error)} (run `gcloud auth application-default login`, or set {_VERTEX})"
            ) from None
        if not isinstance(credentials.token, str) or not is_key(credentials.token):
            raise ConfigError(f"what Google's default credentials brought is not a token; set {_VERTEX}")
        return credentials.token, until


class AwsSigner:
    """Signs requests by AWS's default credentials (extra `bedrock`)."""

    shown = "AWS's default credentials sign each request"

    def __init__(self, service: str) -> None:
        self._service = service
        self._credentials: Any = None
        self._region = ""

    @property
    def token(self) -> str:
        """The session's token, which goes along with a signature; raises `ConfigError` without credentials."""
        if self._credentials is None:
            (botocore,) = import_extra(f"without {_BEDROCK} Bedrock needs botocore", "bedrock", "botocore.session")
            _check_files(*_AWS_FILES)
            session = botocore.Session()
            try:
                region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
                credentials = session.get_credentials()
            except Exception as error:  # botocore raises errors of many kinds
                raise _unreadable(error) from None
            if credentials is None or not region:
                what = "credentials" if credentials is None else "region"
                raise ConfigError(f"AWS names no {what}; run `aws configure`, or set {_BEDROCK}")
            self._credentials, self._region = credentials, region
        return self._frozen().token or ""

    def _frozen(self) -> Any:
        """Return the credentials as they are now; they may be fetched anew."""
        try:
            return self._credentials.get_frozen_credentials()
        except Exception as error:
            raise _unreadable(error) from None

    def headers(self, url: str, content: bytes, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a POST with its signature."""
        auth: Any = import_module("botocore.auth")
        request: Any = import_module("botocore.awsrequest")
        kept = {name: value for name, value in headers.items() if name != "authorization"}
        signed = request.AWSRequest("POST", url, headers={"content-type": kept["content-type"]}, data=content)
        auth.SigV4Auth(self._frozen(), self._service, self._region).add_auth(signed)
        return {**kept, **{name.lower(): value for name, value in signed.headers.items()}}


def _unreadable(error: Exception) -> ConfigError:
    return ConfigError(f"AWS's credentials cannot be read: {_shown(error)}")


def _shown(error: Exception) -> str:
    """Return the beginning of an error's text without what looks like a key: it may quote a file or an answer."""
    return Scrubber("")(next(iter(str(error).splitlines()), type(error).__name__))[:200]


def _check_files(*variables: str) -> None:
    """Check that what variables name are files of some size: a device or a pipe would be read for ever."""
    for variable in variables:
        path = Path(os.environ.get(variable) or ".").expanduser()
        try:
            status = path.stat()
        except (OSError, ValueError):
            continue  # the libraries say what is missing
        if not (S_ISDIR(status.st_mode) or (S_ISREG(status.st_mode) and status.st_size <= _LARGEST)):
            raise ConfigError(f"{variable}: {path} is not a file of credentials (of at most {_LARGEST:,} bytes)")


_GOOGLE_FILES = ("GOOGLE_APPLICATION_CREDENTIALS",)
_AWS_FILES = (
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
)
_LARGEST = 1_000_000  # bytes of such a file
_VERTEX, _BEDROCK = "GOOGLE_OAUTH_ACCESS_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"


@cache
def google_token() -> GoogleToken:
    """Return the token that all servers share."""
    return GoogleToken()
