"""What a chat server is sent: the JSON of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from judge_eval.backends.chat.capabilities import Capabilities, contract, response_format
from judge_eval.backends.chat.secrets import refuse_credentials
from judge_eval.digest import canonical_json
from judge_eval.errors import ConfigError
from judge_eval.wire import Form, Request

_OURS = frozenset(
    {"model", "messages", "response_format", "max_tokens", "max_completion_tokens", "stream", "n", "tools"}
)


class Bodies:
    """Writes bodies; all of one but the messages, the cap and the sample is written once for each form.

    Args:
        model: The model's name, as the server knows it.
        params: Further fields, as `plain_params` returns them.
    """

    def __init__(self, model: str, params: Mapping[str, Any]) -> None:
        self._model, self.params = model, params
        self._tails: dict[tuple[bytes, Capabilities], tuple[str, str]] = {}

    def write(self, request: Request, can: Capabilities) -> bytes:
        """Write the body of a request, with what the server takes.

        Raises:
            ConfigError: The request is for decision models.
        """
        form = request.form
        known = self._tails.get((form.digest, can))
        if known is None:
            known = self._tails[form.digest, can] = self._tail(form, can)
        words, tail = known
        said = request.messages
        system = [message.content for message in said if message.role == "system"]
        messages = [{"role": each.role, "content": each.content} for each in said if each.role != "system"]
        if first := "\n\n".join(system) + words:  # some servers want exactly one
            messages.insert(0, {"role": "system", "content": first})
        more = f',"{can.cap}":{request.max_tokens}' if can.cap else ""
        if "seed" in self.params and "seed" not in can.without:
            more += f',"seed":{self.params["seed"] + request.sample}'
        try:
            written = json.dumps(messages, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # a lone surrogate has no UTF-8, but JSON can spell it
            written = json.dumps(messages, separators=(",", ":")).encode()
        return b'{"messages":' + written + (more + tail).encode()

    def _tail(self, form: Form, can: Capabilities) -> tuple[str, str]:
        """Write what is the same for every request of a form: words for the system text, and fields.

        Raises:
            ConfigError: The form is for decision models.
        """
        if hasattr(form, "ask"):
            raise ConfigError(
                f"{self._model} writes texts and is no decision model; judge in another mode "
                "(--mode pointwise), or name a decision model (--model decisions/NAME)"
            )
        fields: dict[str, Any] = {"model": self._model}
        fields |= {
            name: value for name, value in self.params.items() if name not in can.without and name != "seed"
        }
        wanted = response_format(can.mode, form.schema_name, form.schema)
        if wanted is not None:
            fields["response_format"] = wanted
        words = contract(form.schema) if can.mode in ("json_object", "prompt") else ""
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return words, "," + text[1:]


def plain_params(params: Mapping[str, Any], ours: frozenset[str] = _OURS) -> dict[str, Any]:
    """Take the parameters that can be sent; those of `ours` are the package's own.

    Raises:
        ConfigError: One is the package's own, holds a credential, or is no JSON.
    """
    taken = {name: value for name, value in params.items() if value is not None}
    refuse_credentials(taken)
    for name, value in taken.items():
        if name in ours:
            raise ConfigError(f"the parameter {name!r} is set by the package; remove it from params")
        try:
            canonical_json(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the parameter {name!r} is not JSON: {error}") from None
    if not isinstance(taken.get("seed", 0), int):
        raise ConfigError(f"the parameter 'seed' must be a whole number, not {taken['seed']!r}")
    return taken
