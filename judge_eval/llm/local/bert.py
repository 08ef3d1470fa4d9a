"""BERT in NumPy: reads weights in safetensors, and turns the ids of a text's tokens into one vector."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from judge_eval.errors import ConfigError

Array: TypeAlias = npt.NDArray[np.float32]

_TYPES: Final[Mapping[str, np.dtype[Any]]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}
_SIZES: Final = {
    "hidden_size": 16_384,
    "num_attention_heads": 256,
    "num_hidden_layers": 256,
    "intermediate_size": 65_536,
    "max_position_embeddings": 100_000,
    "vocab_size": 10_000_000,
    "type_vocab_size": 16,
}
"""The sizes that a configuration must tell, with the most that each may be."""
# erf(x) = 1 - (a1 t + ... + a5 t^5) exp(-x^2), t = 1 / (1 + p x), x >= 0, to 1.5e-7.
# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
_ERF: Final = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_P: Final = 0.3275911


def read_safetensors(data: bytes) -> dict[str, Array]:
    """Read the tensors of numbers in a file, by name; others are left out.

    The format is a length (8 bytes, little-endian), a header in JSON with the type, the shape and the place of each
    tensor, and the numbers.

    Raises:
        ValueError: The file is not in the format.
    """
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError("it is shorter than its header says")
    header = json.loads(data[8 : 8 + size])
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    numbers, tensors = memoryview(data)[8 + size :], {}
    for name, entry in header.items():
        if name == "__metadata__" or not isinstance(entry, dict) or entry.get("dtype") not in _TYPES:
            continue
        kind, shape, (start, end) = _TYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        fits = all(type(each) is int and each >= 0 for each in (*shape, start, end)) and start <= end <= len(numbers)
        if not fits or math.prod(shape) * kind.itemsize != end - start:
            raise ValueError(f"the place of {name!r} does not fit its shape")
        values = np.frombuffer(bytes(numbers[start:end]), kind)  # a copy: BLAS takes no numbers off their alignment
        tensors[name] = values.astype(np.float32).reshape(shape)
    return tensors


class Bert:
    """The encoder of J. Devlin et al. (2019), of a model without a head.

    Args:
        data: The file of weights.
        config: The model's configuration, as in `config.json`.
        pool_first: Whether a text's vector is that of its first token; else it is the mean of all.

    Raises:
        ConfigError: The weights or the configuration are not those of such a model.
    """

    def __init__(self, data: bytes, config: Mapping[str, Any], *, pool_first: bool = False) -> None:
        for name, most in _SIZES.items():
            if type(config.get(name)) is not int or not 1 <= config[name] <= most:
                raise ConfigError(f"config.json: {name} must be a whole number from 1 to {most}")
        act, place = config.get("hidden_act", "gelu"), config.get("position_embedding_type", "absolute")
        if (act, place) != ("gelu", "absolute"):
            raise ConfigError(f"config.json: only gelu and absolute positions are known, not {act!r} and {place!r}")
        self.size, self.heads = config["hidden_size"], config["num_attention_heads"]
        if self.size % self.heads:
            raise ConfigError("config.json: hidden_size must be a multiple of num_attention_heads")
        self.layers, self.positions = config["num_hidden_layers"], config["max_position_embeddings"]
        self.words, self._first = config["vocab_size"], pool_first
        self._least = np.float32(config.get("layer_norm_eps", 1e-12))
        try:
            tensors = read_safetensors(data)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ConfigError(f"model.safetensors cannot be loaded: {error}") from None
        self._weights = {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
        self._check(config["intermediate_size"], config["type_vocab_size"])

    def _check(self, inner: int, types: int) -> None:
        size = self.size
        shapes: dict[str, tuple[int, ...]] = {
            "embeddings.word_embeddings.weight": (self.words, size),
            "embeddings.position_embeddings.weight": (self.positions, size),
            "embeddings.token_type_embeddings.weight": (types, size),
            "embeddings.LayerNorm.weight": (size,),
            "embeddings.LayerNorm.bias": (size,),
        }
        linear = {
            **{f"attention.self.{part}": (size, size) for part in ("query", "key", "value")},
            "attention.output.dense": (size, size),
            "intermediate.dense": (inner, size),
            "output.dense": (size, inner),
        }
        for layer in range(self.layers):
            at = f"encoder.layer.{layer}."
            for part, shape in linear.items():
                shapes |= {f"{at}{part}.weight": shape, f"{at}{part}.bias": shape[:1]}
            for part in ("attention.output.LayerNorm", "output.LayerNorm"):
                shapes |= {f"{at}{part}.weight": (size,), f"{at}{part}.bias": (size,)}
        for name, wanted in shapes.items():
            tensor = self._weights.get(name)
            if tensor is None or tensor.shape != wanted:
                fault = "is missing, or not of 16 or 32 bits" if tensor is None else f"has the shape {tensor.shape}"
                raise ConfigError(f"model.safetensors: {name} {fault}; the shape must be {wanted}")

    def vector(self, ids: Sequence[int]) -> Array:
        """Return the vector of a text, of length 1, from the ids of its tokens; NaN if it has no direction."""
        weights, count = self._weights, len(ids)
        x = weights["embeddings.word_embeddings.weight"][list(ids)]
        x = x + weights["embeddings.position_embeddings.weight"][:count]
        x = self._normed(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        with np.errstate(all="ignore"):  # what is not finite stays so, and is told
            for layer in range(self.layers):
                at = f"encoder.layer.{layer}."
                x = self._normed(x + self._attended(x, at), f"{at}attention.output.LayerNorm")
                inner = _gelu(self._linear(x, f"{at}intermediate.dense"))
                x = self._normed(x + self._linear(inner, f"{at}output.dense"), f"{at}output.LayerNorm")
            pooled = x[0] if self._first else x.mean(axis=0)
            vector: Array = pooled / np.linalg.norm(pooled)
        return vector

    def _attended(self, x: Array, at: str) -> Array:
        def by_head(part: str) -> Array:
            made = self._linear(x, f"{at}attention.self.{part}")
            return made.reshape(len(x), self.heads, -1).transpose(1, 0, 2)

        query, key, value = map(by_head, ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(self.size // self.heads))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        joined = (shares @ value).transpose(1, 0, 2).reshape(len(x), self.size)
        return self._linear(joined, f"{at}attention.output.dense")

    def _linear(self, x: Array, name: str) -> Array:
        made: Array = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return made

    def _normed(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + self._least)
        made: Array = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return made


def _gelu(x: Array) -> Array:
    """Return x times the normal distribution function of x."""
    far = np.abs(x) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(_P) * far)
    sums = np.zeros_like(t)
    for factor in _ERF:
        sums = (sums + np.float32(factor)) * t
    below = sums * np.exp(-far * far) / 2  # the normal distribution function of -|x|
    made: Array = x * np.where(x < 0, below, 1 - below)
    return made
