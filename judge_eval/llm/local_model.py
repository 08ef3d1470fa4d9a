"""Cross-encoders and models of natural language inference in ONNX, which judge in this process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from judge_eval.errors import ConfigError, advise
from judge_eval.installed import import_extra
from judge_eval.llm.backend import Identity
from judge_eval.ranges import Range
from judge_eval.registry import Provider
from judge_eval.spelling import option
from judge_eval.wire import Completion, DecisionAnswer, Request

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

_MODELS: Final = ("model.onnx", "onnx/model.onnx")
_AT_ONCE = 16  # windows of text in one pass of the model
_OVERLAP = 8  # the next window repeats this part of one: an eighth


class LocalModel:
    """A model in a folder that says how probably a chunk is relevant: nothing leaves this machine.

    The folder holds `model.onnx` (or `onnx/model.onnx`), `tokenizer.json` and `config.json`, as models on the
    Hugging Face Hub do. A model with a label "entailment" is shown the chunk as the premise and the reference (else
    the generated answer, else the question) as the hypothesis; any other model is shown the question with the
    reference, and the chunk. Claims are shown one by one in place of the reference. A chunk that is longer than the
    model reads is shown in overlapping windows, of which the most probable one counts. The probabilities are as
    calibrated as the model is.

    Args:
        model: The folder, or the name of a model on the Hub, which is downloaded once.
        label: The label whose probability counts; by default "entailment", else the last of two, else the only one.
        max_tokens: The most tokens that the model is shown at once, from 16 on.

    Raises:
        ConfigError: The extra `local` is not installed, or the files are missing or not those of such a model.
    """

    calls_nobody = True

    def __init__(self, model: str, *, label: str = "", max_tokens: int = 512) -> None:
        Range(16, 100_000).check(max_tokens, "max_tokens")
        if not isinstance(label, str):
            raise ConfigError(f"label {label!r} is not a text")
        self._folder = _folder_of(model)
        self._file = next((self._folder / each for each in _MODELS if (self._folder / each).is_file()), None)
        if self._file is None:
            raise ConfigError(f"{self._folder} holds no model.onnx; export the model to ONNX first")
        labels = _labels_of(self._folder)
        self._label, self._is_nli = _place_of(label, labels, self._folder), "entailment" in labels
        self._max_tokens, self._lock = max_tokens, threading.Lock()
        self._loaded: tuple[InferenceSession, Tokenizer] | None = None
        hashes = hashlib.sha256()
        for path in (self._file, self._folder / "tokenizer.json"):
            hashes.update(_digest(path))
        params = {"files": hashes.hexdigest()[:16], "label": self._label, "max_tokens": max_tokens}
        self.identity: Identity | None = Identity(
            "local", model, params=tuple((name, json.dumps(value)) for name, value in params.items())
        )

    async def complete(self, request: Request) -> Completion:
        """Say for each passage of a request how probably it is relevant."""
        asked = request.questionnaire
        if asked is None or any(question.levels for question in asked.questions):
            raise ConfigError(
                "a local model says how probable a statement is, and no more: judge in decision mode with two grades, "
                f"such as {option('prompt', 'support/decision')}"
            )
        return Completion("", answers=tuple(await asyncio.to_thread(self._answers, _pairs(request, self._is_nli))))

    async def aclose(self) -> None:
        """Forget the model."""
        self._loaded = None

    def _answers(self, pairs: Sequence[tuple[str, str]]) -> list[DecisionAnswer]:
        session, tokenizer = self._load()
        windows: list[Any] = []
        owners: list[int] = []
        for owner, (about, text) in enumerate(pairs):
            pieces = self._windows(tokenizer, about, text)
            windows += pieces
            owners += [owner] * len(pieces)
        best = np.zeros(len(pairs))
        for start in range(0, len(windows), _AT_ONCE):
            some = windows[start : start + _AT_ONCE]
            np.maximum.at(best, owners[start : start + _AT_ONCE], self._probabilities(session, some))
        return [DecisionAnswer((round(1 - p, 6), p)) for p in (round(float(each), 6) for each in best)]

    def _windows(self, tokenizer: Tokenizer, about: str, text: str) -> list[Any]:
        room = self._max_tokens // 2
        words = tokenizer.encode(about, add_special_tokens=False)
        if len(words.ids) > room:  # at least half of the model's room is the chunk's
            about = about[: words.offsets[room - 1][1]]
        pair = (text, about) if self._is_nli else (about, text)
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
        logits = np.asarray(session.run(None, inputs)[0], dtype=np.float64)
        if logits.ndim != 2 or not 0 <= self._label < logits.shape[1] or not np.isfinite(logits).all():
            raise ConfigError(f"{self._file} answers in the shape {logits.shape}, not with a number for each label")
        if logits.shape[1] == 1:
            return np.asarray(1 / (1 + np.exp(-logits[:, 0])))
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares[:, self._label] / shares.sum(axis=1))

    def _load(self) -> tuple[InferenceSession, Tokenizer]:
        with self._lock:
            if self._loaded is None:
                onnxruntime, tokenizers = _packages()
                onnxruntime.disable_telemetry_events()
                try:
                    tokenizer = tokenizers.Tokenizer.from_file(str(self._folder / "tokenizer.json"))
                    session = onnxruntime.InferenceSession(str(self._file), providers=["CPUExecutionProvider"])
                except Exception as error:  # both packages raise errors of their own kinds
                    raise ConfigError(f"{self._folder} cannot be loaded: {str(error)[:200]}") from None
                tokenizer.no_padding()
                cut = "only_first" if self._is_nli else "only_second"
                tokenizer.enable_truncation(self._max_tokens, stride=self._max_tokens // _OVERLAP, strategy=cut)
                self._loaded = session, tokenizer
            return self._loaded


def _pairs(request: Request, is_nli: bool) -> list[tuple[str, str]]:
    """Return for each question what the chunk is held against, and the chunk."""
    texts = [text if title is None else f"{title}\n{text}" for text, title in request.passages]
    if request.claims:  # each of them, and one passage
        return [(claim, text) for text in texts for claim in request.claims]
    against = request.reference or request.answer
    about = (against or request.query) if is_nli else " ".join(filter(None, (request.query, against)))
    return [(about, text) for text in texts]


def _packages() -> tuple[Any, Any]:
    needed = "a local model needs onnxruntime and tokenizers"
    onnxruntime, tokenizers = import_extra(needed, "local", "onnxruntime", "tokenizers")
    return onnxruntime, tokenizers


def _folder_of(model: str) -> Path:
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if model.count("/") != 1 or model.startswith((".", "~", "/")):
        raise ConfigError(
            f"there is no folder {model!r}; name one, or a model on the Hugging Face Hub (local/ORG/NAME)"
        )
    _packages()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, allow_patterns=[*_MODELS, "tokenizer.json", "config.json"]))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise ConfigError(f"{model} is not a folder, and cannot be downloaded: {str(error).splitlines()[0]}") from None


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


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def _create(model: str, /, *, params: Mapping[str, Any] | None = None, base_url: str | None = None) -> LocalModel:
    del base_url  # the environment may name one, for the models of servers
    known = ("label", "max_tokens")
    for name in params or {}:
        if name not in known:
            raise ConfigError(f"a local model takes no parameter {name!r}; {advise(name, known)}")
    return LocalModel(model, **(params or {}))


create = Provider(_create, writes_text=False, takes_logprobs=False)
"""Makes the `local` backend."""
