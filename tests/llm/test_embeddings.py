"""Embedding models in safetensors, which run in this process; the tests make tiny ones of their own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import Chunk, Evaluator, Options, Trace
from judge_eval.errors import ConfigError
from judge_eval.llm.local.bert import read_safetensors
from judge_eval.schema import Claim
from judge_eval.views.run_remarks import remarks_of
from tests.support.command import Shell
from tests.support.hub import COMMIT, serving_models

pytestmark = pytest.mark.foreign

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "which", "tree", "oak", "wall", "car", "blue", "sky", "?"]
SIZES = {
    "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16,
    "max_position_embeddings": 32, "vocab_size": len(WORDS), "type_vocab_size": 2,
}  # fmt: skip
TRACE = Trace(id="a", query="which tree ?", reference="oak", chunks=[
    Chunk(id="same", text="which tree ? oak"), Chunk(id="other", text="blue sky"),
    Chunk(id="late", text="car " * 28 + "blue sky which tree ? oak"),
    Chunk(id="titled", title="which tree ?", text="oak"),
])  # fmt: skip


def tensors(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Draw the weights of a tiny model."""
    size, inner, rng = 8, 16, np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), size),
        "embeddings.position_embeddings.weight": (32, size),
        "embeddings.token_type_embeddings.weight": (2, size),
    }
    for layer in range(2):
        at = f"encoder.layer.{layer}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= {f"{at}{name}.weight": (size, size), f"{at}{name}.bias": (size,)}
        shapes |= {f"{at}intermediate.dense.weight": (inner, size), f"{at}intermediate.dense.bias": (inner,)}
        shapes |= {f"{at}output.dense.weight": (size, inner), f"{at}output.dense.bias": (size,)}
    drawn = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    drawn["embeddings.position_embeddings.weight"] *= 0.02  # so that a text later in a window is nearly the same
    norms = ["embeddings.LayerNorm"]
    norms += [
        f"encoder.layer.{n}.{part}" for n in range(2) for part in ("attention.output.LayerNorm", "output.LayerNorm")
    ]
    for name in norms:
        drawn |= {f"{name}.weight": np.ones(size, np.float32), f"{name}.bias": np.zeros(size, np.float32)}
    return drawn


def safetensors(values: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """Write tensors in the format."""
    header, data = {}, b""
    for name, value in values.items():
        kind = {"float32": "F32", "float16": "F16", "int64": "I64"}[value.dtype.name]
        header[name] = {
            "dtype": kind, "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes],
        }  # fmt: skip
        data += value.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def make(folder: Path, *, weights: dict[str, np.ndarray[Any, Any]] | None = None, **config: Any) -> Path:
    """Write a tiny model."""
    tokenizers = pytest.importorskip("tokenizers")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(safetensors(weights or tensors()))
    words = tokenizers.models.WordLevel({each: place for place, each in enumerate(WORDS)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"architectures": ["BertModel"], **SIZES, **config}))
    return folder


def judged(model: Path | str, trace: Trace = TRACE, **settings: Any) -> Any:
    """Judge the trace."""
    params = settings.pop("params", {})
    with Evaluator(
        f"local/{model}", metrics=["P@4"], options=Options(params=params), **{"cache": False, **settings}
    ) as e:
        return e.evaluate([trace])


def cosines(run: Any) -> list[float]:
    """Return what the run says of each chunk."""
    return [outcome.confidence for outcome in run.results[0].outcomes]


def test_a_chunk_is_compared_with_question_and_reference(tmp_path: Path) -> None:
    """The same words have the cosine 1, also under a title and nearly so at the end of a long chunk; others less."""
    run = judged(make(tmp_path / "m"), params={"max_tokens": 16})
    same, other, late, titled = cosines(run)
    assert same == titled == 1.0
    assert 0 <= other < late < 1
    assert run.results[0].outcomes[0].relevant
    assert (run.manifest.tally.cost, run.manifest.backend["params"]["pooling"]) == (0.0, '"mean"')
    assert "a cosine of 0.5" in remarks_of(run.manifest)[0].text


def test_claims_take_the_place_of_the_reference(tmp_path: Path) -> None:
    """Each claim is held against each chunk by itself."""
    claims = (Claim(id="1", text="blue sky"), Claim(id="2", text="oak"))
    run = judged(make(tmp_path / "m"), TRACE.model_copy(update={"claims": claims}), mode="claims")
    assert "1" in [each.claim for each in run.results[0].outcomes[1].supports]


def test_folder_archive_and_package_are_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same files give the same numbers from wherever they come; a package is found without being imported."""
    folder = make(tmp_path / "m")
    expected = cosines(judged(folder))
    archive = tmp_path / "site" / "tiny_model" / "model.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in folder.iterdir():
            packed.write(file, f"inside/{file.name}")
    assert cosines(judged(archive)) == expected
    (archive.parent / "__init__.py").write_text("raise SystemExit('imported')")
    for name, files in (("zipped", ["tiny_model/model.zip"]), ("plain", ["plain_model/model.safetensors"])):
        info = tmp_path / "site" / f"{name}_tiny-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-tiny\nVersion: 1.0\n")
        (info / "RECORD").write_text("".join(f"{each},,\n" for each in ["tiny_model/__init__.py", *files]))
    make(tmp_path / "site" / "plain_model")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    assert cosines(judged("zipped-tiny")) == expected
    assert cosines(judged("plain-tiny")) == expected
    with pytest.raises(ConfigError, match=r"the package pytest holds no model\.safetensors"):
        judged("pytest")


def test_half_precision_and_the_first_token(tmp_path: Path) -> None:
    """16 bits give nearly the same; `1_Pooling/config.json` may ask for the first token, which is another model."""
    whole = judged(make(tmp_path / "m"), cache=tmp_path / "cache")
    halves = make(tmp_path / "half", weights={name: value.astype(np.float16) for name, value in tensors().items()})
    assert cosines(judged(halves)) == pytest.approx(cosines(whole), abs=0.01)
    (tmp_path / "m" / "1_Pooling").mkdir()
    (tmp_path / "m" / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    first = judged(tmp_path / "m", cache=tmp_path / "cache")
    assert first.manifest.tally.calls == 1
    assert cosines(first)[1:] != cosines(whole)[1:]


def test_a_vector_that_is_not_finite_is_no_verdict(tmp_path: Path) -> None:
    """Only the chunks whose words break have none."""
    weights = tensors()
    weights["embeddings.word_embeddings.weight"][WORDS.index("sky")] = np.nan
    run = judged(make(tmp_path / "m", weights=weights))
    assert [outcome.kind for outcome in run.results[0].outcomes] == ["verdict", "no_verdict", "no_verdict", "verdict"]
    assert run.results[0].outcomes[1].detail == "the model answered with a vector that is not finite"


def without(name: str) -> Callable[[Path], Any]:
    """Return what takes a tensor out of a model."""
    return lambda folder: make(folder, weights={key: value for key, value in tensors().items() if key != name})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), r"tokenizer\.json is missing"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), r"tokenizer\.json cannot be loaded"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x80\x04K\x01."), "shorter than its header"),
        (lambda folder: make(folder, hidden_size="8"), "hidden_size must be a whole number"),
        (lambda folder: make(folder, num_attention_heads=3), "must be a multiple"),
        (
            lambda folder: make(folder, num_hidden_layers=3),
            r"encoder\.layer\.2\.attention\.self\.query\.weight is missing",
        ),
        (lambda folder: make(folder, vocab_size=9), r"has the shape \(12, 8\); the shape must be \(9, 8\)"),
        (lambda folder: make(folder, hidden_act="relu"), "only gelu"),
        (lambda folder: make(folder, architectures=["XLMRobertaModel"]), "only embeddings by BertModel are read"),
        (without("embeddings.LayerNorm.bias"), r"LayerNorm\.bias is missing"),
    ],
)
def test_files_that_are_wrong_are_named(tmp_path: Path, change: Callable[[Path], Any], message: str) -> None:
    """One error says which file, and what is wrong with it."""
    folder = make(tmp_path / "m")
    change(folder)
    with pytest.raises(ConfigError, match=message):
        judged(folder)


@given(st.binary(max_size=80))
def test_bytes_that_are_no_weights_are_one_error(data: bytes) -> None:
    """Whatever a file holds, it has tensors or is refused; nothing is unpickled."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        read_safetensors(len(data).to_bytes(8, "little") + data)


def test_the_command_line_names_what_is_not_there(tmp_path: Path) -> None:
    """A package that is not installed and a parameter of other models are errors of one sentence."""
    (tmp_path / "data.jsonl").write_text(TRACE.model_dump_json())
    shell = Shell(tmp_path)
    missing = shell("run", "data.jsonl", "--model", "local/no-such-model")
    assert (missing.code, "no installed package of this name" in missing.err) == (2, True)
    label = shell("run", "data.jsonl", "--model", f"local/{make(tmp_path / 'm')}", "-p", "label=x")
    assert (label.code, "takes no parameter 'label'" in label.err) == (2, True)


ASKING = """
import json, sys
from judge_eval import Evaluator, Options, Trace
from judge_eval.errors import JudgeEvalError
trace, told, short = Trace.model_validate_json(sys.argv[1]), {}, Options(params={"max_tokens": 16})
for name in sys.argv[2:]:
    try:
        with Evaluator("local/org/" + name, metrics=["P@4"], cache=False, options=short) as e:
            told[name] = [outcome.confidence for outcome in e.evaluate([trace]).results[0].outcomes]
    except JudgeEvalError as error:
        told[name] = str(error)
print(json.dumps(told))
"""


def asked_of_hub(folder: Path, *names: str, **environment: str) -> dict[str, Any]:
    """Judge by models of the Hub in a process of its own with copies in a folder; return cosines or errors."""
    where = Shell(folder).environment(HF_HOME=str(folder / "hf"), HF_HUB_DISABLE_XET="1", **environment)
    done = subprocess.run(
        [sys.executable, "-c", ASKING, TRACE.model_dump_json(), *names],
        env=where, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_model_of_the_hub_is_downloaded_once(tmp_path: Path) -> None:
    """Four files come, at one commit, others do not; the cosines are those of the folder, also without a network."""
    served = make(tmp_path / "served" / "org" / "tiny")
    (served / "1_Pooling").mkdir()
    (served / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    for name in ("pytorch_model.bin", "onnx/model.onnx", "README.md"):
        (served / name).parent.mkdir(exist_ok=True)
        (served / name).write_bytes(b"not wanted")
    expected = pytest.approx(cosines(judged(served, params={"max_tokens": 16})))
    with serving_models(tmp_path / "served") as (endpoint, sent):
        assert asked_of_hub(tmp_path, "tiny", HF_ENDPOINT=endpoint) == {"tiny": expected}
        assert sorted(path.removeprefix(f"/org/tiny/resolve/{COMMIT}/") for path in sent) == [
            "1_Pooling/config.json", "config.json", "model.safetensors", "tokenizer.json",
        ]  # fmt: skip
        asked_of_hub(tmp_path, "tiny", HF_ENDPOINT=endpoint)
        assert len(sent) == 4
    assert asked_of_hub(tmp_path, "tiny", HF_HUB_OFFLINE="1") == {"tiny": expected}


def test_what_a_model_of_the_hub_lacks_is_named(tmp_path: Path) -> None:
    """Files that are missing or broken, models that are not there, and a Hub that is not reached: one message each."""
    root = tmp_path / "served" / "org"
    for name in ("no-tokenizer", "no-weights", "no-config", "broken", "other-sizes", "cut"):
        make(root / name)
    (root / "no-tokenizer" / "tokenizer.json").unlink()
    (root / "no-weights" / "model.safetensors").unlink()
    (root / "no-config" / "config.json").unlink()
    (root / "broken" / "model.safetensors").write_bytes(b"<html>Sign in</html>")
    make(root / "other-sizes", num_hidden_layers=3)
    with serving_models(tmp_path / "served", cut=("/cut/resolve/" + COMMIT + "/model.safetensors",)) as (endpoint, _):
        names = [*(each.name for each in root.iterdir()), "absent"]
        told = asked_of_hub(tmp_path, *names, HF_ENDPOINT=endpoint)
    assert "tokenizer.json is missing" in told["no-tokenizer"]
    assert "model.safetensors is missing" in told["no-weights"]
    assert "holds no model.onnx" in told["no-config"]
    assert "model.safetensors cannot be loaded" in told["broken"]
    assert "encoder.layer.2." in told["other-sizes"]
    assert told["cut"].startswith("org/cut is not a folder, and cannot be downloaded: ")
    assert told["absent"].startswith("org/absent is not a folder, and cannot be downloaded: 404")
    for offline in ({"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": endpoint}):
        told = asked_of_hub(tmp_path, "never-seen", **offline)
        assert told["never-seen"].startswith("org/never-seen is not a folder, and cannot be downloaded: "), told
