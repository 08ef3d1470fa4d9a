"""Where the files of a local model are: a folder, an archive, an installed package, or the Hugging Face Hub."""

from __future__ import annotations

import json
import zipfile
from glob import escape
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final, TypeAlias

from judge_eval.errors import ConfigError
from judge_eval.installed import import_extra
from judge_eval.llm.local.onnx_weights import weight_files

ModelPlace: TypeAlias = Path | zipfile.Path
"""A file or a folder, which may be inside an archive."""

ONNX: Final = ("model.onnx", "onnx/model.onnx")
SAFETENSORS: Final = "model.safetensors"
TOKENIZER, CONFIG, POOLING = "tokenizer.json", "config.json", "1_Pooling/config.json"
_HOW = "name one, an installed package that holds one, or a model on the Hugging Face Hub (local/ORG/NAME)"


def place_of(model: str) -> ModelPlace:
    """Find the folder of a model by its name: a folder, a `.zip` file, a package, or `ORG/NAME` of the Hub.

    A package is looked up in the metadata of what is installed; it is not imported.

    Raises:
        ConfigError: There is no such place, or no model in it.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if path.suffix == ".zip" and path.is_file():
        return _in_archive(path)
    if "/" not in model and not model.startswith((".", "~")):
        return _in_package(model)
    if model.count("/") != 1 or model.startswith((".", "~", "/")):
        raise ConfigError(f"there is no folder {model!r}; {_HOW}")
    return _of_hub(model)


def is_embedding(place: ModelPlace) -> bool:
    """Tell whether a folder holds a BERT without a head, whose vectors are compared."""
    return config_of(place, CONFIG).get("architectures") == ["BertModel"]


def config_of(place: ModelPlace, name: str) -> dict[str, Any]:
    """Read a JSON file of a model; empty if it is not there or holds something else."""
    try:
        config = json.loads((place / name).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def tokenizer_of(place: ModelPlace, tokenizers: Any) -> Any:
    """Load the tokenizer of a model, which neither pads nor cuts.

    Raises:
        ConfigError: It cannot be loaded.
    """
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer((place / TOKENIZER).read_bytes())
    except Exception as error:  # the package raises errors of its own kinds
        raise ConfigError(f"{place / TOKENIZER} cannot be loaded: {str(error)[:200]}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _in_archive(path: Path) -> zipfile.Path:
    try:
        names = zipfile.ZipFile(path).namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    folders = [name.removesuffix(SAFETENSORS) for name in names if name.rpartition("/")[2] == SAFETENSORS]
    if not folders:
        raise ConfigError(f"{path} holds no {SAFETENSORS}")
    return zipfile.Path(path, min(folders, key=len))


def _in_package(name: str) -> ModelPlace:
    try:
        files = distribution(name).files or ()
    except (PackageNotFoundError, ValueError):
        raise ConfigError(f"there is no folder {name!r}, and no installed package of this name; {_HOW}") from None
    models = [Path(str(file.locate())) for file in files if file.name in (SAFETENSORS, "model.onnx")]
    for folder in [parent for model in models for parent in model.parents[:2]]:
        if (folder / CONFIG).is_file():
            return folder
    for file in files:
        if file.suffix == ".zip":
            return _in_archive(Path(str(file.locate())))
    raise ConfigError(f"the package {name} holds no {SAFETENSORS} or model.onnx beside a {CONFIG}")


def _of_hub(model: str) -> Path:
    import_extra("a local model needs onnxruntime and tokenizers", "local", "onnxruntime", "tokenizers")
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(model, allow_patterns=[TOKENIZER, CONFIG, POOLING]))
        commit = folder.name
        if is_embedding(folder):
            snapshot_download(model, allow_patterns=[SAFETENSORS], revision=commit)
            return folder
        snapshot_download(model, allow_patterns=[*ONNX], revision=commit)
        file = onnx_file(folder)
        if weights := [escape((file.parent / name).relative_to(folder).as_posix()) for name in weight_files(file)]:
            snapshot_download(model, allow_patterns=weights, revision=commit)
        return folder
    except ConfigError:
        raise
    except Exception as error:  # the package raises errors of its own kinds and those of its HTTP client
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(f"{model} is not a folder, and cannot be downloaded: {why}") from None


def onnx_file(folder: Path) -> Path:
    """Return the model of a folder; raises `ConfigError` if it holds none in ONNX."""
    file = next((folder / each for each in ONNX if (folder / each).is_file()), None)
    if file is None:
        also = f" (of models in {SAFETENSORS} only embeddings by BertModel are read)"
        beside = also if (folder / SAFETENSORS).is_file() else ""
        raise ConfigError(f"{folder} holds no model.onnx; export the model to ONNX first{beside}")
    return file
