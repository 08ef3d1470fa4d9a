"""A cascade whose strong judge is asked by files: what a batch's folder keeps of its flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judge_eval.cli.flags.cascades import CASCADE_FIELDS, CascadeFlags, cascade_flagged
from judge_eval.errors import ConfigError
from judge_eval.given import read_params

if TYPE_CHECKING:
    from judge_eval.backends.stack import Options
    from judge_eval.batch.cheap import TwoJudges
    from judge_eval.batch.state import BatchSettings
    from judge_eval.cli.flags.judging import JudgingFlags


def kept_flags(judging: JudgingFlags) -> dict[str, Any]:
    """Return the flags of a cascade as a later step reads them; nothing where there is none.

    Raises:
        ConfigError: One of them holds a secret, which would be written down.
    """
    from judge_eval.backends.chat.secrets import refuse_credentials
    from judge_eval.batch.judging import storable_url

    if not judging.cascades:
        return {}
    refuse_credentials(read_params(judging.cascade_param or (), "--cascade-param"))
    if judging.cascade_url is not None and storable_url(judging.cascade_url) is None:
        raise ConfigError("--cascade-url is written down with the batch: leave credentials out of it")
    kept = {name: getattr(judging, name) for name in CASCADE_FIELDS}
    if judging.cascade_file is not None:
        kept["cascade_file"] = str(judging.cascade_file.absolute())
    kept["cascade_prompt"] = absolute_prompt(judging.cascade_prompt)
    # As they were given: a cascade's file has a prompt and a mode of its own where nothing was said.
    kept |= {"prompt": absolute_prompt(judging.prompt), "mode": judging.mode}
    return {name: value for name, value in kept.items() if value not in (None, False, [])}


def two_judges(settings: BatchSettings) -> Callable[[Options], TwoJudges] | None:
    """Return what makes the judges of a batch's cascade; None where one model judges alone."""
    return partial(_made, settings) if settings.cascade else None


def _made(settings: BatchSettings, options: Options) -> TwoJudges:
    from judge_eval.batch.cheap import TwoJudges

    kept: dict[str, Any] = dict(settings.cascade)
    prompt, mode = kept.pop("prompt", None), kept.pop("mode", None)
    if odd := kept.keys() - {field.name for field in fields(CascadeFlags)}:
        raise ConfigError(f"the batch was made by another version: it knows a cascade's {sorted(odd)[0]}")
    if "cascade_file" in kept:
        kept["cascade_file"] = Path(kept["cascade_file"])
    models, judge, how = cascade_flagged(
        CascadeFlags(**kept),
        model=settings.model or None,
        prompt=prompt,
        mode=mode,
        layout="question",
        evidence=settings.evidence,
        relevant=settings.relevant,
        options=options,
    )
    return TwoJudges(models, judge, how)


def absolute_prompt(prompt: str | None) -> str | None:
    """Return a prompt's name so that it means the same in any folder."""
    if prompt is None or not prompt.startswith("file:"):
        return prompt
    return f"file:{Path(prompt[5:]).absolute()}"
