"""From flags, or a file, to a panel of judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from judge_eval.errors import ConfigError, advise
from judge_eval.given import prompt_name, read_toml

if TYPE_CHECKING:
    from judge_eval.backends.stack import Options
    from judge_eval.judges import Panel, Vote
    from judge_eval.judges.choose import Mode
    from judge_eval.schema import EvidencePolicy

_FIELDS = ("name", "model", "prompt", "mode", "base_url", "params", "sample")


def read_panel(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Read a panel's file: `vote` and `quorum`, and a table `[[member]]` for each member.

    A member has `model`, and where they differ from the run's `prompt` (an id or `file:PATH`), `mode`,
    `base_url`, `params`, `sample`, and a `name`.

    Raises:
        ConfigError: The file cannot be read, or holds something else.
    """
    data = read_toml(path)
    members = data.pop("member", [])
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise ConfigError(f"{path}: write a table [[member]] for each member")
    for key in data:
        if key not in ("vote", "quorum"):
            raise ConfigError(f"{path}: no setting {key!r}; {advise(key, ['member', 'quorum', 'vote'])}")
    for number, member in enumerate(members, 1):
        for key in member:
            if key not in _FIELDS:
                raise ConfigError(f"{path}: member {number}: no setting {key!r}; {advise(key, _FIELDS)}")
    return members, data


def split_member(text: str, known: Sequence[str]) -> dict[str, Any]:
    """Split `provider/model:prompt`; a model may hold colons itself, a prompt may be `file:PATH`.

    Args:
        text: The flag's value.
        known: The ids of prompts; what stands behind the last colon is a prompt only if it is one of these.
    """
    model, is_file, path = text.partition(":file:")
    if is_file:
        return {"model": model, "prompt": f"file:{path}"}
    model, colon, prompt = text.rpartition(":")
    if colon and (prompt.partition("@")[0] in known or "/" in prompt):
        return {"model": model, "prompt": prompt}
    return {"model": text}


def panel_of(
    members: Sequence[str],
    file: Path | None,
    *,
    prompt: str,
    mode: Mode | None,
    vote: str,
    relevant: int | None,
    evidence: EvidencePolicy | None,
    options: Options,
) -> tuple[dict[str, str], Panel, Options]:
    """Make the panel that flags and a file describe: its models by route, and the options of single members.

    Members that ask the same model in the same way share a route, so that their calls share its limits.

    Args:
        members: The values of --member.
        file: The panel's file, whose members come first.
        prompt: The prompt of members that name none.
        mode: How those put chunks to the judge that do not say.
        vote: How the grades become one, where the file does not say.
        relevant: The least grade that counts as relevant.
        evidence: What becomes of a member's relevant verdict without sound evidence.
        options: How the judges are called.

    Raises:
        ConfigError: The file cannot be read, a member has no model, or the members do not fit together.
    """
    from judge_eval.judges import Member, Panel, Vote
    from judge_eval.judges.choose import MODES, make_judge, mode_for
    from judge_eval.prompts import prompt_ids

    listed, table = read_panel(file) if file is not None else ([], {})
    listed += [split_member(text, prompt_ids()) for text in members]
    vote = table.get("vote", vote)
    if vote not in get_args(Vote):
        raise ConfigError(f"{file}: no vote {vote!r}; known: {', '.join(get_args(Vote))}")
    quorum = table.get("quorum", 1)
    if not isinstance(quorum, int):
        raise ConfigError(f"{file}: the quorum is {quorum!r}; it is a whole number")
    models: dict[str, str] = {}
    special: dict[str, Options] = {}
    made: list[Member] = []
    for number, given in enumerate(listed, 1):
        model = given.get("model")
        if not isinstance(model, str) or not model:
            raise ConfigError(f"member {number} of the panel names no model; write model = 'openai/NAME'")
        own = options
        if given.get("base_url") is not None:
            own = replace(own, base_url=str(given["base_url"]))
        if given.get("params"):
            own = replace(own, params={**own.params, **given["params"]})
        route = next((r for r, m in models.items() if m == model and special.get(r, options) == own), None)
        if route is None:
            route = model if model not in models else f"{model} #{number}"
            models[route] = model
            if own is not options:
                special[route] = own
        own_prompt, own_mode = str(given.get("prompt", prompt)), given.get("mode") or mode or mode_for(model)
        if own_mode not in MODES:
            known = advise(str(own_mode), MODES)
            raise ConfigError(f"member {number} of the panel: no mode {own_mode!r}; {known}")
        if str(own_mode).startswith("claims"):
            raise ConfigError("a panel does not judge by claims: rows are not put to a vote")
        sample = given.get("sample", 0)
        if not isinstance(sample, int) or sample < 0:
            raise ConfigError(f"member {number} of the panel: sample is {sample!r}; it is a number from 0")
        judge = make_judge(
            prompt_name(own_prompt),
            cast("Mode", own_mode),
            relevant,
            sample,
            evidence,
        )
        name = str(given.get("name") or f"{model}:{own_prompt}")
        if any(member.name == name for member in made):
            name = f"{name} #{number}"
        made.append(Member(name, judge, route))
    return models, Panel(made, vote=cast("Vote", vote), quorum=quorum), replace(options, members=special)
