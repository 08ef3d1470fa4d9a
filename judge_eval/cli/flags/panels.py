"""From flags, or a file, to a panel of judges."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judge_eval.cli.flags.options import Mode
from judge_eval.cli.flags.values import prompt_name
from judge_eval.errors import ConfigError, advise

if TYPE_CHECKING:
    from judge_eval.backends.stack import Options
    from judge_eval.judges import Judge, Vote

_FIELDS = ("name", "model", "prompt", "mode", "base_url", "params", "sample")


def read_panel(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Read a panel's file: `vote` and `quorum`, and a table `[[member]]` for each member.

    A member has `model`, and where they differ from the run's `prompt` (an id or `file:PATH`), `mode`,
    `base_url`, `params`, `sample`, and a `name`.

    Raises:
        ConfigError: The file cannot be read, or holds something else.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    members = data.pop("member", [])
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise ConfigError(f"{path}: write a table [[member]] for each member")
    for key in data:
        if key not in ("vote", "quorum"):
            raise ConfigError(f"{path}: no setting {key!r}; {advise(key, ['member', 'quorum', 'vote'])}")
    for place, member in enumerate(members, 1):
        for key in member:
            if key not in _FIELDS:
                raise ConfigError(f"{path}: member {place}: no setting {key!r}; {advise(key, _FIELDS)}")
    return members, data


def split_member(text: str, known: Sequence[str]) -> dict[str, Any]:
    """Split `provider/model:prompt`; a model may hold colons itself, a prompt may be `file:PATH`.

    Args:
        text: The flag's value.
        known: The ids of prompts; what stands behind the last colon is a prompt only if it is one of these.
    """
    model, found, path = text.partition(":file:")
    if found:
        return {"model": model, "prompt": f"file:{path}"}
    model, colon, prompt = text.rpartition(":")
    if colon and (prompt.partition("@")[0] in known or "/" in prompt):
        return {"model": model, "prompt": prompt}
    return {"model": text}


def make_panel(
    members: Sequence[dict[str, Any]],
    *,
    prompt: str,
    mode: Mode,
    relevant: int | None,
    vote: Vote,
    quorum: int,
    options: Options,
) -> tuple[dict[str, str], Judge, Options]:
    """Make the models by route, the panel, and the options of single members.

    Members that ask the same model in the same way share a route, so that their calls share its limits.

    Raises:
        ConfigError: A member has no model, or the members do not fit together.
    """
    from judge_eval.judges import Member, Panel
    from judge_eval.judges.choose import make_judge

    models: dict[str, str] = {}
    special: dict[str, Options] = {}
    made: list[Member] = []
    for place, told in enumerate(members, 1):
        model = told.get("model")
        if not isinstance(model, str) or not model:
            raise ConfigError(f"member {place} of the panel names no model; write model = 'openai/NAME'")
        own = options
        if told.get("base_url") is not None:
            own = replace(own, base_url=str(told["base_url"]))
        if told.get("params"):
            own = replace(own, params={**own.params, **told["params"]})
        route = next((r for r, m in models.items() if m == model and special.get(r, options) == own), None)
        if route is None:
            route = model if model not in models else f"{model} #{place}"
            models[route] = model
            if own is not options:
                special[route] = own
        given = str(told.get("prompt", prompt))
        how = str(told.get("mode", mode.value))
        if how not in tuple(Mode):
            raise ConfigError(f"member {place} of the panel: no mode {how!r}; known: listwise, pointwise")
        sample = told.get("sample", 0)
        if not isinstance(sample, int) or sample < 0:
            raise ConfigError(f"member {place} of the panel: sample is {sample!r}; it is a number from 0")
        judge = make_judge(
            prompt_name(given), "listwise" if how == "listwise" else "pointwise", relevant, sample
        )
        name = str(told.get("name") or f"{model}:{given}")
        if any(member.name == name for member in made):
            name = f"{name} #{place}"
        made.append(Member(name, judge, route))
    return models, Panel(made, vote=vote, quorum=quorum), replace(options, members=special)
