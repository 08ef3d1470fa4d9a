"""Models in ONNX that judge in this process; the tests make tiny ones of their own."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval import Chunk, Evaluator, Options, Trace
from judge_eval.errors import ConfigError
from judge_eval.judges.cascade import cascade_of
from judge_eval.llm.local.onnx_weights import weight_files
from judge_eval.schema import Claim
from judge_eval.views.run_remarks import remarks_of
from tests.support.blocks import ROOT, blocks_of, shell
from tests.support.chat_server import ChatServer
from tests.support.command import Shell, judge_eval
from tests.support.hub import serving_models

pytestmark = pytest.mark.foreign

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "oak", "no"]
TRACES = [
    Trace(id="a", query="Which tree?", reference="oak", chunks=[
        Chunk(id="hit", text="it is an oak"), Chunk(id="miss", text="it is a wall"),
        Chunk(id="late", text="wall " * 300 + "oak"),
    ])
]  # fmt: skip


def make(folder: Path, labels: list[str], word: str = "oak", sign: float = 1.0, breaks_at: str = "") -> Path:
    """Write a model whose logits count the words `word` in the text that is shown second, or first if it does NLI."""
    onnx = pytest.importorskip("onnx")
    tokenizers = pytest.importorskip("tokenizers")
    from onnx import TensorProto, helper

    side = 0 if "entailment" in labels else 1
    one_logit = len(labels) == 1
    # With one label the logit is 4 n - 2; of several the first gets 2 and the last 4 n.
    slope = [4.0 * sign] if one_logit else [0.0] * (len(labels) - 1) + [4.0 * sign]
    base = [-2.0 * sign] if one_logit else [2.0] + [0.0] * (len(labels) - 1)
    nodes = [
        helper.make_node("Equal", ["input_ids", "word"], ["is_word"]),
        helper.make_node("Equal", ["token_type_ids", "side"], ["is_side"]),
        helper.make_node("And", ["is_word", "is_side"], ["both"]),
        helper.make_node("Cast", ["both"], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["ones"], ["there"], axes=[1], keepdims=1),
        helper.make_node("MatMul", ["there", "slope"], ["sloped"]),
        helper.make_node("Add", ["sloped", "base"], ["logits"]),
    ]
    if breaks_at:  # adds log(1 - 1) where the word stands
        nodes[-1].output[0] = "sums"
        nodes += [
            helper.make_node("Equal", ["input_ids", "fatal"], ["is_fatal"]),
            helper.make_node("Cast", ["is_fatal"], ["fatal_ones"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMax", ["fatal_ones"], ["doomed"], axes=[1], keepdims=1),
            helper.make_node("Sub", ["one", "doomed"], ["spared"]),
            helper.make_node("Log", ["spared"], ["log"]),
            helper.make_node("Add", ["sums", "log"], ["logits"]),
        ]
    shape = ["rows", "columns"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "token_type_ids")]
    constants = [
        helper.make_tensor("word", TensorProto.INT64, [1], [WORDS.index(word)]),
        helper.make_tensor("side", TensorProto.INT64, [1], [side]),
        helper.make_tensor("slope", TensorProto.FLOAT, [1, len(labels)], slope),
        helper.make_tensor("base", TensorProto.FLOAT, [len(labels)], base),
    ]
    if breaks_at:
        constants += [
            helper.make_tensor("fatal", TensorProto.INT64, [1], [WORDS.index(breaks_at)]),
            helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]),
        ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", len(labels)])
    graph = helper.make_graph(nodes, "tiny", inputs, [output], constants)
    folder.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    words = tokenizers.models.WordLevel({each: place for place, each in enumerate(WORDS)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {str(place): name for place, name in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps({"id2label": names}))
    return folder


def move_weights(folder: Path, place: str = "model.onnx_data") -> Path:
    """Put the weights of a model into a file beside it, as exporters do with large ones."""
    onnx = pytest.importorskip("onnx")
    from onnx.external_data_helper import set_external_data

    path = folder / "model.onnx"
    model, data = onnx.load(str(path)), b""
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor).tobytes()
        tensor.raw_data = values
        tensor.ClearField("float_data")
        tensor.ClearField("int64_data")
        set_external_data(tensor, place, len(data), len(values))
        tensor.ClearField("raw_data")
        data += values
    path.write_bytes(model.SerializeToString())
    weights = folder / place
    weights.write_bytes(data)
    return weights


def judged(folder: Path, **settings: Any) -> Any:
    """Judge the traces."""
    params = settings.pop("params", {})
    settings = {"cache": False, **settings, "options": Options(params=params)}
    with Evaluator(f"local/{folder}", metrics=["P@3"], **settings) as evaluator:
        return evaluator.evaluate(TRACES)


@pytest.mark.parametrize("labels", [["score"], ["contradiction", "entailment"], ["entailment", "neutral", "no"]])
def test_probabilities_are_those_of_the_model(tmp_path: Path, labels: list[str]) -> None:
    """One logit is a sigmoid, several are a softmax; a word at the end of a long chunk counts."""
    if labels[0] == "entailment":
        with pytest.raises(ConfigError, match="no label 'sure'"):
            judged(make(tmp_path / "m", labels), params={"label": "sure"})
        return
    run = judged(make(tmp_path / "m", labels), params={"max_tokens": 64})
    shares = [outcome.confidence for outcome in run.results[0].outcomes]
    assert shares == pytest.approx([0.880797, 0.119203, 0.880797], abs=1e-6)
    assert [outcome.relevant for outcome in run.results[0].outcomes] == [True, False, True]
    assert (run["P@3"], run.manifest.tally.cost) == (pytest.approx(2 / 3), 0.0)


def test_it_says_that_it_is_not_calibrated(tmp_path: Path) -> None:
    """Each view of a run bears the remark; a cascade that was fitted has another base."""
    run = judged(make(tmp_path / "m", ["score"]))
    assert [remark.about for remark in remarks_of(run.manifest)] == ["uncalibrated"]


def test_claims_are_held_against_chunks_one_by_one(tmp_path: Path) -> None:
    """A model of inference is shown the chunk and each claim."""
    folder = make(tmp_path / "m", ["contradiction", "entailment"])
    claims = (Claim(id="1", text="a tree"), Claim(id="2", text="a plant"))
    with Evaluator(f"local/{folder}", cache=False, mode="claims", metrics=["P@3"]) as evaluator:
        run = evaluator.evaluate([TRACES[0].model_copy(update={"claims": claims})])
    supported = [[each.claim for each in outcome.supports] for outcome in run.results[0].outcomes]
    assert supported == [["1", "2"], [], ["1", "2"]]


def test_another_model_in_the_same_folder_answers_anew(tmp_path: Path) -> None:
    """The cache tells models apart by their files."""
    folder, cache = make(tmp_path / "m", ["score"]), tmp_path / "cache"
    assert judged(folder, cache=cache).manifest.tally.calls == 1
    assert judged(folder, cache=cache).manifest.tally.calls == 0
    make(folder, ["score"], sign=-1.0)
    assert judged(folder, cache=cache)["P@3"] == pytest.approx(1 / 3)


def test_weights_beside_a_model_tell_it_apart(tmp_path: Path) -> None:
    """The same graph with other weights in its file of external data, or another `config.json`, answers anew."""
    cache = tmp_path / "cache"
    other = move_weights(make(tmp_path / "other", ["score"], sign=-1.0))
    folder = make(tmp_path / "m", ["score"])
    weights = move_weights(folder)
    assert (folder / "model.onnx").read_bytes() == (tmp_path / "other" / "model.onnx").read_bytes()
    run = judged(folder, cache=cache)
    assert (run["P@3"], run.manifest.tally.calls) == (pytest.approx(2 / 3), 1)
    assert judged(folder, cache=cache).manifest.tally.calls == 0
    shutil.copy(other, weights)
    assert judged(folder, cache=cache)["P@3"] == pytest.approx(1 / 3)
    (folder / "config.json").write_text('{"id2label": {"0": "score"}, "revision": 2}')
    assert judged(folder, cache=cache).manifest.tally.calls == 1
    weights.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        judged(folder)


def test_the_files_of_weights_are_those_that_onnx_names(tmp_path: Path) -> None:
    """Initialisers, constants and graphs inside nodes are looked through, as onnx does; a name may not lead outside."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    def outside(name: str, place: str) -> Any:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", place), ("offset", "4096"), ("length", "4")):
            tensor.external_data.add(key=key, value=value)
        return tensor

    def graph(name: str, place: str, *nodes: Any) -> Any:
        value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
        return helper.make_graph(list(nodes), name, [], [value], [outside(f"{name}_w", place)])

    constant = helper.make_node("Constant", [], ["c"], value=outside("c", "sub/constant.bin"))
    branches = {"then_branch": graph("a", "then.bin", constant), "else_branch": graph("b", "else.bin")}
    model = helper.make_model(graph("main", "main.bin", helper.make_node("If", ["x"], ["y"], **branches)))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert weight_files(path) == ("else.bin", "main.bin", "sub/constant.bin", "then.bin")
    for place in ("../secret", "/etc/passwd", "a/../../secret", "..\\secret"):
        path.write_bytes(helper.make_model(graph("main", place)).SerializeToString())
        with pytest.raises(ConfigError, match="names weights outside its folder"):
            weight_files(path)
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [])), str(path))
    assert weight_files(path) == ()


@given(st.binary(max_size=60))
def test_bytes_that_are_no_model_are_one_error(data: bytes) -> None:
    """Whatever a file holds, it names no weights or is refused in one sentence."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        with contextlib.suppress(ConfigError):
            weight_files(path)


def test_a_logit_that_is_not_finite_is_one_failed_verdict(tmp_path: Path) -> None:
    """The other texts of the trace keep their verdicts, and the one says what happened."""
    folder = make(tmp_path / "m", ["score"], breaks_at="no")
    trace = TRACES[0].model_copy(update={"chunks": (*TRACES[0].chunks, Chunk(id="odd", text="no " * 40))})
    with Evaluator(f"local/{folder}", metrics=["P@3"], cache=False, options=Options(params={"max_tokens": 64})) as each:
        run = each.evaluate([trace])
    *good, odd = run.results[0].outcomes
    assert [outcome.relevant for outcome in good] == [True, False, True]
    assert (odd.why, odd.detail) == ("unparsable", "the model answered with a logit that is not finite")


def test_a_model_of_the_hub_comes_with_its_weights(tmp_path: Path) -> None:
    """The files that the model names are downloaded, others are not, and a run without a network uses the copy."""
    served = make(tmp_path / "served" / "org" / "tiny", ["score"])
    move_weights(served, "weights [1].data")
    (served / "pytorch_model.bin").write_bytes(b"not wanted")
    (tmp_path / "data.jsonl").write_text(TRACES[0].model_dump_json())
    where = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
    run = ["run", "data.jsonl", "--model", "local/org/tiny", "--metrics", "P@3", "--cache", "none"]
    with serving_models(tmp_path / "served") as (endpoint, _):
        first = Shell(tmp_path)(*run, **where, HF_ENDPOINT=endpoint)
    assert (first.code, "0.6667" in first.out) == (0, True), first.err
    again = Shell(tmp_path)(*run, **where, HF_HUB_OFFLINE="1")
    assert (again.code, "0.6667" in again.out) == (0, True), again.err
    assert not list((tmp_path / "hf").rglob("pytorch_model.bin"))


def test_a_cascade_begins_with_it(tmp_path: Path) -> None:
    """What it is sure of is final, and the rest is asked of the strong judge."""
    folder = make(tmp_path / "m", ["score"])
    judge = cascade_of(f"local/{folder}", "fake/always", threshold=0.85)
    models = {"cheap": f"local/{folder}", "strong": "fake/always"}
    with Evaluator(models, judge=judge, cache=False, metrics=["P@3"]) as evaluator:
        run = evaluator.evaluate(TRACES)
    assert [outcome.stage for outcome in run.results[0].outcomes] == ["cheap"] * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "model.onnx").unlink(), "holds no model.onnx"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json cannot be read"),
        (lambda folder: (folder / "config.json").write_text("[]"), "does not name the model's labels"),
        (lambda folder: (folder / "model.onnx").write_bytes(b"x"), "cannot be loaded"),
        (lambda folder: make(folder, ["a", "b", "c"]), "say which one counts"),
    ],
)
def test_files_that_are_wrong_are_named(tmp_path: Path, change: Any, message: str) -> None:
    """The error says which file and what to do."""
    folder = make(tmp_path / "m", ["score"])
    change(folder)
    with pytest.raises(ConfigError, match=message):
        judged(folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompt": "support/graded"}, "with two grades"),
        ({"params": {"labels": "x"}}, "takes no parameter 'labels'"),
        ({"params": {"max_tokens": 3}}, "max_tokens"),
    ],
)
def test_what_it_cannot_do_is_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    """Grades and unknown parameters are errors, not verdicts."""
    with pytest.raises(ConfigError, match=message):
        judged(make(tmp_path / "m", ["score"]), **settings)


def test_the_command_line_runs_it(tmp_path: Path) -> None:
    """Without a server and a key; a folder that is not there is named."""
    folder = make(tmp_path / "m", ["score"])
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(trace.model_dump_json() for trace in TRACES))
    done = judge_eval(tmp_path, "run", data, "--model", f"local/{folder}", "--out", "runs")
    assert (done.returncode, "nobody has" in done.stdout) == (0, True)
    plan = judge_eval(tmp_path, "run", data, "--model", f"local/{folder}", "--dry-run", "--cache", "none")
    assert "cost: nothing, the judge calls no server" in plan.stdout
    missing = judge_eval(tmp_path, "run", data, "--model", f"local/{tmp_path / 'none'}")
    assert (missing.returncode, "there is no folder" in missing.stderr) == (2, True)


def test_the_page_is_true(tmp_path: Path) -> None:
    """Its block runs with a model in the folder that it names."""
    page = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    (block,) = [each for each in blocks_of(page) if each.mark == "local"]
    make(tmp_path / "models" / "my-cross-encoder", ["score"])
    shutil.copytree(ROOT / "fixtures", tmp_path / "fixtures")
    with ChatServer() as server:
        done = shell(block.code, tmp_path, server.url)
    assert done.returncode == 0, done.stderr
