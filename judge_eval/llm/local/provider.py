"""The provider `local`: what kind of model a name stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from judge_eval.errors import ConfigError, advise
from judge_eval.llm.local.classifier import Classifier
from judge_eval.llm.local.embeddings import EmbeddingModel
from judge_eval.llm.local.model import LocalModel
from judge_eval.llm.local.places import is_embedding, place_of
from judge_eval.registry import Provider


def _create(model: str, /, *, params: Mapping[str, Any] | None = None, base_url: str | None = None) -> LocalModel:
    del base_url  # the environment may name one, for the models of servers
    place = place_of(model)
    make: Callable[..., LocalModel] = partial(EmbeddingModel, model, place)
    known: tuple[str, ...] = ("max_tokens",)
    if isinstance(place, Path) and not is_embedding(place):
        make, known = partial(Classifier, model, place), ("label", "max_tokens")
    for name in params or {}:
        if name not in known:
            raise ConfigError(f"a local model takes no parameter {name!r}; {advise(name, known)}")
    return make(**(params or {}))


create = Provider(_create, writes_text=False, takes_grades=False, takes_logprobs=False, uncalibrated=True)
"""Makes the `local` backend."""
