"""The provider `local`: what kind of model a name stands for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from judge_eval.errors import ConfigError, advise
from judge_eval.llm.local.classifier import Classifier
from judge_eval.llm.local.embeddings import EmbeddingModel
from judge_eval.llm.local.model import LocalModel
from judge_eval.llm.local.places import is_embedding, place_of
from judge_eval.registry import Provider

_PARAMS: Final[Mapping[type[LocalModel], tuple[str, ...]]] = {
    Classifier: ("label", "max_tokens"),
    EmbeddingModel: ("max_tokens",),
}


def _create(model: str, /, *, params: Mapping[str, Any] | None = None, base_url: str | None = None) -> LocalModel:
    del base_url  # the environment may name one, for the models of servers
    place = place_of(model)
    kind = EmbeddingModel if is_embedding(place) or not isinstance(place, Path) else Classifier
    for name in params or {}:
        if name not in _PARAMS[kind]:
            raise ConfigError(f"a local model takes no parameter {name!r}; {advise(name, _PARAMS[kind])}")
    if isinstance(place, Path) and kind is Classifier:
        return Classifier(model, place, **(params or {}))
    return EmbeddingModel(model, place, **(params or {}))


create = Provider(_create, writes_text=False, takes_grades=False, takes_logprobs=False, uncalibrated=True)
"""Makes the `local` backend."""
