"""Embedding models: a chunk is as relevant as its vector is near that of the question and the reference."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan
from typing import Any

from judge_eval.errors import ConfigError
from judge_eval.installed import import_extra
from judge_eval.llm.local import places
from judge_eval.llm.local.bert import Array, Bert
from judge_eval.llm.local.model import OVERLAP, LocalModel


class EmbeddingModel(LocalModel):
    """Scores a chunk by the cosine of its vector and that of the question with the reference, at least 0.

    A folder (or archive) holds `model.safetensors`, `tokenizer.json` and `config.json` of a BERT without a head, as
    all-MiniLM-L6-v2 is; `1_Pooling/config.json` may say that a text's vector is that of its first token. A chunk that
    is longer than `max_tokens` is read in overlapping windows, of which the nearest counts. A cosine is a score and
    not a probability: labels tell from which value on chunks are relevant.

    Raises:
        ConfigError: The package tokenizers is not installed, or the files are missing or not those of such a model.
    """

    output = "vector"

    def __init__(self, name: str, place: places.ModelPlace, *, max_tokens: int = 256) -> None:
        import_extra("an embedding model needs tokenizers", "local", "tokenizers")
        self._place = place
        pooling = places.config_of(place, places.POOLING)
        self._first = pooling.get("pooling_mode_cls_token") is True
        if not self._first and pooling.get("pooling_mode_mean_tokens", True) is not True:
            raise ConfigError(f"{place / places.POOLING}: only the mean of tokens and the first token are known")
        files = [place / each for each in (places.SAFETENSORS, places.TOKENIZER, places.CONFIG)]
        if missing := next((file for file in files if not file.is_file()), None):
            raise ConfigError(f"{missing} is missing")
        super().__init__(name, max_tokens, files, {"pooling": "first" if self._first else "mean"})

    def shares(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return cosines as probabilities."""
        bert, tokenizer = self.loaded()
        vectors = {about: bert.vector(tokenizer.encode(about).ids) for about in {about for about, _ in pairs}}
        return [self._cosine(vectors[about], bert, tokenizer, text) for about, text in pairs]

    def _cosine(self, about: Array, bert: Bert, tokenizer: Any, text: str) -> float:
        first = tokenizer.encode(text)
        cosines = [float(about @ bert.vector(window.ids)) for window in (first, *first.overflowing)]
        return nan if any(map(isnan, cosines)) else min(1.0, max(0.0, *cosines))

    def _load(self) -> tuple[Bert, Any]:
        (tokenizers,) = import_extra("an embedding model needs tokenizers", "local", "tokenizers")
        config = places.config_of(self._place, places.CONFIG)
        try:
            bert = Bert((self._place / places.SAFETENSORS).read_bytes(), config, pool_first=self._first)
        except ConfigError as error:
            raise ConfigError(f"{self._place}: {error}") from None
        tokenizer = places.tokenizer_of(self._place, tokenizers)
        if max(tokenizer.get_vocab().values(), default=0) >= bert.words:
            raise ConfigError(f"{self._place}: tokenizer.json has more words than the model")
        room = min(self.max_tokens, bert.positions)
        tokenizer.enable_truncation(room, stride=room // OVERLAP)
        return bert, tokenizer
