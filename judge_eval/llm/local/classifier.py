"""Cross-encoders and models of natural language inference in ONNX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from judge_eval.errors import ConfigError, advise
from judge_eval.installed import import_extra
from judge_eval.llm.local.model import OVERLAP, LocalModel
from judge_eval.llm.local.onnx_weights import weight_files
from judge_eval.llm.local.places import CONFIG, TOKENIZER, onnx_file, tokenizer_of
from judge_eval.spelling import option

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

_AT_ONCE = 16  # windows of text in one pass of the model


class Classifier(LocalModel):
    """A cross-encoder or a model of inference in a folder, which says how probably a chunk is relevant.

    The folder holds `model.onnx` (or `onnx/model.onnx`) with the weights that it names beside it, `tokenizer.json`
    and `config.json`, as models on the Hugging Face Hub do. A model with a label "entailment" is shown the chunk as
    the premise and the reference (else the generated answer, else the question) as the hypothesis; any other model
    is shown the question with the reference, and the chunk. A chunk that is longer than the model reads is shown in
    overlapping windows, of which the most probable one counts; one with a logit that is not finite has no verdict.
    The probabilities are as calibrated as the model is.

    Args:
        name: What the user called the model.
        folder: The folder.
        label: The label whose probability counts; by default "entailment", else the last of two, else the only one.
        max_tokens: The most tokens that the model is shown at once, from 16 on.

    Raises:
        ConfigError: The extra `local` is not installed, or the files are missing or not those of such a model.
    """

    output = "logit"

    def __init__(self, name: str, folder: Path, *, label: str = "", max_tokens: int = 512) -> None:
        if not isinstance(label, str):
            raise ConfigError(f"label {label!r} is not a text")
        self._folder, self._file = folder, onnx_file(folder)
        labels = _labels_of(self._folder)
        self._label, self.by_reference = _place_of(label, labels, self._folder), "entailment" in labels
        weights = [self._file.parent / each for each in weight_files(self._file)]
        files = (self._file, folder / TOKENIZER, folder / CONFIG, *weights)
        super().__init__(name, max_tokens, files, {"label": self._label})

    def shares(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return probabilities of the label."""
        session, tokenizer = self.loaded()
        windows: list[Any] = []
        owners: list[int] = []
        for owner, (about, text) in enumerate(pairs):
            pieces = self._windows(tokenizer, about, text)
            windows += pieces
            owners += [owner] * len(pieces)
        best = np.zeros(len(pairs))
        for start in range(0, len(windows), _AT_ONCE):
            some = windows[start : start + _AT_ONCE]
            with np.errstate(invalid="ignore"):  # NaN stays NaN
                np.maximum.at(best, owners[start : start + _AT_ONCE], self._probabilities(session, some))
        return list(map(float, best))

    def _windows(self, tokenizer: Tokenizer, about: str, text: str) -> list[Any]:
        room = self.max_tokens // 2
        words = tokenizer.encode(about, add_special_tokens=False)
        if len(words.ids) > room:  # at least half of the model's room is the chunk's
            about = about[: words.offsets[room - 1][1]]
        pair = (text, about) if self.by_reference else (about, text)
        first = tokenizer.encode(*pair)
        return [first, *first.overflowing]

    def _probabilities(
        self, session: InferenceSession, windows: Sequence[Any]
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        longest = max(len(window.ids) for window in windows)
        columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        inputs = {}
        for each in session.get_inputs():
            if each.name not in columns:
                raise ConfigError(f"{self._file} wants {each.name!r}, which a model of texts does not")
            rows = np.zeros((len(windows), longest), dtype=np.int64)
            for row, window in zip(rows, windows, strict=True):
                values = getattr(window, columns[each.name])
                row[: len(values)] = values
            inputs[each.name] = rows
        logits = np.array(session.run(None, inputs)[0], dtype=np.float64)
        if logits.ndim != 2 or not 0 <= self._label < logits.shape[1]:
            raise ConfigError(f"{self._file} answers in the shape {logits.shape}, not with a number for each label")
        logits[~np.isfinite(logits).all(axis=1)] = np.nan
        if logits.shape[1] == 1:
            return np.asarray(1 / (1 + np.exp(-logits[:, 0])))
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares[:, self._label] / shares.sum(axis=1))

    def _load(self) -> tuple[InferenceSession, Tokenizer]:
        needed = "a local model needs onnxruntime and tokenizers"
        onnxruntime, tokenizers = import_extra(needed, "local", "onnxruntime", "tokenizers")
        onnxruntime.disable_telemetry_events()
        tokenizer = tokenizer_of(self._folder, tokenizers)
        try:
            session = onnxruntime.InferenceSession(str(self._file), providers=["CPUExecutionProvider"])
        except Exception as error:  # the package raises errors of its own kinds
            raise ConfigError(f"{self._folder} cannot be loaded: {str(error)[:200]}") from None
        cut = "only_first" if self.by_reference else "only_second"
        tokenizer.enable_truncation(self.max_tokens, stride=self.max_tokens // OVERLAP, strategy=cut)
        return session, tokenizer


def _labels_of(folder: Path) -> list[str]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        named = config.get("id2label") or {str(each): str(each) for each in range(config.get("num_labels", 1))}
        return [named[str(place)].lower() for place in range(len(named))]
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{folder / 'config.json'} does not name the model's labels: {error}") from None


def _place_of(label: str, labels: Sequence[str], folder: Path) -> int:
    if label:
        if label.lower() not in labels:
            raise ConfigError(f"{folder} has no label {label!r}; {advise(label, labels)}")
        return labels.index(label.lower())
    if "entailment" in labels:
        return labels.index("entailment")
    if len(labels) > 2:
        raise ConfigError(
            f"{folder} has the labels {', '.join(labels)}; say which one counts ({option('param', 'label=NAME')})"
        )
    return len(labels) - 1
