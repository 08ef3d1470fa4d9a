import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.errors import ConfigError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.llm.options import Options
from judge_eval.runs.folder.records import Intervals
from judge_eval.runs.judging.merge import merge
from judge_eval.runs.judging.sources import shard_of
from judge_eval.schema import Trace
from tests.support.application import CliRunner, app


def dataset(count: int = 60) -> list[Trace]:
    """Make a small dataset."""
    return [
        Trace.parse(
            {
                "id": f"q{n}",
                "query": f"What is thing {n}?",
                "reference": f"Thing {n} is blue.",
                "chunks": [f"Thing {n} is blue.", f"Thing {n + 1} is red.", f"Nothing is known of {n}."],
            }
        )
        for n in range(count)
    ]


def judged(data: list[Trace], out: Path, shard: tuple[int, int] | None = None, **settings: object) -> EvalRun:
    """Judge it, or a shard of it."""
    given = {"metrics": ["AP@5", "NDCG@5"], "cache": False, **settings}
    with Evaluator("fake/overlap", **given) as evaluator:  # type: ignore[arg-type]
        return evaluator.evaluate(data, out=out, shard=shard)


def plain(run: EvalRun) -> dict[str, object]:
    """The manifest without ids, times and the digest over them."""
    result = run.manifest.model_dump(mode="json")
    for name in ("id", "created", "finished", "digest"):
        del result[name]
    return result


def test_merged_shards_equal_the_run_of_one_machine(tmp_path: Path) -> None:
    """The merged results are byte for byte those of one run; its manifest differs in ids and times only."""
    data = dataset()
    whole = judged(data, tmp_path / "whole")
    shards = [judged(data, tmp_path / "shards", (index, 3)) for index in (1, 2, 3)]
    assert all(0 < len(run.results) < len(data) for run in shards)
    merged = merge([run.folder for run in reversed(shards) if run.folder], tmp_path / "merged")
    assert merged.folder is not None
    assert whole.folder is not None
    assert (merged.folder / "results.jsonl").read_bytes() == (whole.folder / "results.jsonl").read_bytes()
    assert plain(merged) == plain(whole)
    assert plain(EvalRun.load(merged.folder)) == plain(whole)


def test_shards_keep_their_traces_when_others_are_added() -> None:
    """A trace's shard depends on its id alone, and every shard gets its share."""
    counts = [0] * 4
    for n in range(2000):
        counts[shard_of(f"q{n}", 4) - 1] += 1
    assert min(counts) > 400
    assert [shard_of("q7", 4), shard_of("ü", 4), shard_of("\ud800", 4)] == [4, 1, 1]


def test_shards_without_traces_merge_too(tmp_path: Path) -> None:
    """With more shards than traces some are empty; they are runs all the same, and merge."""
    data = dataset(2)
    shards = [judged(data, tmp_path / "shards", (index, 9)) for index in range(1, 10)]
    assert sum(not len(run.results) for run in shards) >= 7
    merged = merge([run.folder for run in shards if run.folder], tmp_path / "merged")
    assert [result.trace_id for result in merged.results] == ["q0", "q1"]


def test_shard_resumes_its_own_run_only(tmp_path: Path) -> None:
    """A shard is never resumed into another shard's folder, and says which shards differ."""
    data = dataset(12)
    first = judged(data, tmp_path, (1, 2))
    with (
        Evaluator("fake/overlap", metrics=["AP@5", "NDCG@5"], cache=False) as evaluator,
        pytest.raises(RunError, match=r"the shards differ \(1/2 there; 2/2 here\)"),
    ):
        evaluator.evaluate(data, resume=first.folder or "", shard=(2, 2))


def test_merge_names_what_does_not_fit(tmp_path: Path) -> None:
    """Missing, doubled, whole, differently judged and unfinished shards are refused by name."""
    data = dataset(12)
    first, two, three = (str(judged(data, tmp_path, (index, 3)).folder) for index in (1, 2, 3))
    other = str(judged(dataset(13), tmp_path, (3, 3)).folder)
    graded = str(judged(data, tmp_path, (3, 3), prompt="support/graded").folder)
    whole = str(judged(data, tmp_path).folder)
    cases = {
        "missing: shard 3/3": [first, two],
        f"shard 2/3 is given twice: {two}, {two}": [first, two, two, three],
        "the data differ": [first, two, other],
        "the judge differs in": [first, two, graded],
        "judged the whole dataset": [first, two, whole],
        "no runs to merge": [],
    }
    for words, folders in cases.items():
        with pytest.raises(RunError) as caught:
            merge(folders, tmp_path / "merged")
        assert words in str(caught.value)
    manifest = Path(three) / "manifest.json"
    document = json.loads(manifest.read_text())
    document |= {"status": "interrupted", "files": {}, "digest": None}
    manifest.write_text(json.dumps(document, indent=2))
    with pytest.raises(RunError, match="did not finish"):
        merge([first, two, three], tmp_path / "merged")
    assert not list((tmp_path / "merged").glob("*")) if (tmp_path / "merged").exists() else True


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("fake/always", {}, "the model differs in model"),
        ("fake/hash", {"options": Options(params={"seed": 1})}, "the model differs in params"),
        ("fake/hash", {"metrics": ["AP@5"]}, "the metrics differ"),
        ("fake/hash", {"intervals": Intervals(method="bca")}, "the intervals differ"),
        ("fake/hash", {"prompt": "relevance/binary"}, "the judge differs in prompt"),
    ],
)
def test_shards_judged_otherwise_are_refused(tmp_path: Path, model: str, settings: dict[str, Any], words: str) -> None:
    """Another model, its parameters, metrics, intervals or prompt: refused, with what differs named."""
    data, folders = dataset(8), []
    for index, name, more in ((1, "fake/hash", {}), (2, model, settings)):
        given: dict[str, Any] = {"metrics": ["AP@5", "NDCG@5"], "cache": False, **more}
        with Evaluator(name, **given) as evaluator:
            run = evaluator.evaluate(data, out=tmp_path / "runs", shard=(index, 2))
        folders.append(run.folder or Path())
    with pytest.raises(RunError, match=words):
        merge(folders, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_merge_refuses_a_shard_that_lost_lines(tmp_path: Path) -> None:
    """A shard whose results were cut is noticed and nothing is left of the merge."""
    data = dataset(12)
    folders = [judged(data, tmp_path, (index, 2)).folder or Path() for index in (1, 2)]
    results = folders[0] / "results.jsonl"
    results.write_bytes(b"".join(results.read_bytes().splitlines(True)[1:]))
    with pytest.raises(RunError, match="holds 3 results, and its manifest counts 4"):
        merge(folders, tmp_path / "merged")
    assert list((tmp_path / "merged").iterdir()) == []


@pytest.mark.slow
def test_merged_runs_are_merged(tmp_path: Path) -> None:
    """Shards merged in two steps, in any order, give the run of one machine byte for byte."""
    data = dataset(40)
    whole = judged(data, tmp_path / "whole")
    first, two, three, four = (judged(data, tmp_path / "shards", (index, 4)).folder or Path() for index in (1, 2, 3, 4))
    with pytest.raises(RunError, match=r"missing: shard 1/4, 3/4 \(`partial=True` \(`--partial`\) merges without\)"):
        merge([four, two], tmp_path / "parts")
    left = merge([four, two], tmp_path / "parts", partial=True)
    right = merge([three, first], tmp_path / "parts", partial=True)
    assert left.folder is not None
    assert right.folder is not None
    assert str(left.manifest.dataset.shard) == "2+4/4"
    assert left.aggregates["AP@5"].n == left.manifest.tally.traces == len(left.results)
    for folders in ([left.folder, right.folder], [first, left.folder, three], [left.folder, three, first]):
        merged = merge(folders, tmp_path / "merged")
        assert merged.folder is not None
        assert (merged.folder / "results.jsonl").read_bytes() == (whole.folder or Path()).joinpath(
            "results.jsonl"
        ).read_bytes()
        assert plain(EvalRun.load(merged.folder)) == plain(whole)
    with pytest.raises(RunError, match=r"shard 2/4 is given twice: .*missing: shard 1/4, 3/4"):
        merge([left.folder, two], tmp_path / "wrong")
    with pytest.raises(RunError, match="or holds all shards already"):
        merge([whole.folder or Path()], tmp_path / "wrong")


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage",
        b'{"v":1,"position":PLACE,"trace_id":"q"',
        b'{"v":1,"position":PLACE,"scores":{},"bounds":{},"trace":{"metadata":{},"tags":null}}',
        b'{"v":1,"position":PLACE,"scores":[],"bounds":{},"trace":{"metadata":{},"tags":[]}}',
        b'{"v":1,"position":PLACE,"scores":{"AP@5":"high"},"bounds":{},"trace":{"metadata":{},"tags":[]}}',
        b'["position":PLACE, 1]',
        b"\xff\x00",
    ],
)
def test_a_garbage_line_is_refused(tmp_path: Path, garbage: bytes) -> None:
    """The file is told, and nothing is left of the merge."""
    folders = [judged(dataset(12), tmp_path, (index, 2)).folder or Path() for index in (1, 2)]
    results = folders[1] / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    place = str(json.loads(lines[2])["position"]).encode()
    results.write_bytes(b"".join([*lines[:2], garbage.replace(b"PLACE", place) + b"\n", *lines[3:]]))
    with pytest.raises(RunError, match=r"results\.jsonl(:3)?: ") as caught:
        merge(folders, tmp_path / "merged")
    assert str(results) in str(caught.value)
    merged = tmp_path / "merged"
    assert not merged.exists() or not list(merged.iterdir())


def test_a_shard_whose_results_were_changed_is_refused(tmp_path: Path) -> None:
    """A line that reads well but is not the one that was written does not fit the manifest's digest."""
    folders = [judged(dataset(12), tmp_path, (index, 2)).folder or Path() for index in (1, 2)]
    results = folders[0] / "results.jsonl"
    results.write_bytes(results.read_bytes().replace(b'"grade":1', b'"grade":0', 1))
    with pytest.raises(RunError, match=r"results\.jsonl"):
        merge(folders, tmp_path / "merged")


def test_impossible_shards_are_refused(tmp_path: Path) -> None:
    """A shard beyond the last, or one of a stream that can be read only once, is a configuration error."""
    for shard in ((0, 3), (4, 3)):
        with pytest.raises(ConfigError, match="from 1 to n"):
            judged(dataset(2), tmp_path, shard)
    with Evaluator("fake/overlap", cache=False) as evaluator, pytest.raises(ConfigError, match="stream"):
        evaluator.evaluate(iter(dataset(2)), shard=(1, 2))


def test_shards_and_merge_on_the_command_line(tmp_path: Path) -> None:
    """`run --shard` and `runs merge` give the whole run; a shard that is none exits with 2."""
    file = tmp_path / "data.jsonl"
    file.write_text("".join(trace.model_dump_json() + "\n" for trace in dataset(20)))
    runner, out = CliRunner(), str(tmp_path / "runs")
    base = ["run", str(file), "--model", "fake/overlap", "--cache", "none", "--out", out, "--json", "-q"]
    ids = []
    for shard in ("1/2", "2/2"):
        done = runner.invoke(app, [*base, "--shard", shard])
        assert done.exit_code == 0, done.output
        document = json.loads(done.stdout)
        ids.append(document["id"])
        assert document["dataset"]["shard"]["count"] == 2
    merged = runner.invoke(app, ["runs", "merge", *ids, "--out", out, "--json", "--label", "all"])
    assert merged.exit_code == 0, merged.output
    document = json.loads(merged.stdout)
    assert document["tally"]["traces"] == 20
    assert document["label"] == "all"
    assert document["dataset"]["shard"] is None
    assert runner.invoke(app, [*base, "--shard", "3/2"]).exit_code == 2


def test_merged_shards_name_the_same_traces_as_one_run(tmp_path: Path) -> None:
    """What a run says of its traces names them in the dataset's order, however they were sharded."""
    tomatoes = ["San Marzano tomatoes.", "We use San Marzano tomatoes."]
    rows = [
        {"id": f"t{n}", "query": f"Which, {n}?", "reference": tomatoes[0], "relevant_total": 1, "chunks": tomatoes}
        for n in range(12)
    ]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Evaluator("fake/overlap", cache=False) as evaluator:
        whole = evaluator.evaluate(data)
        parts = [evaluator.evaluate(data, out=tmp_path, shard=(k, 3)).folder for k in (3, 1, 2)]
    assert whole.manifest.tally.beyond == ("t0", "t1", "t2", "t3", "t4")
    merged = merge([part for part in parts if part is not None], tmp_path / "merged")
    assert merged.manifest.tally.beyond == whole.manifest.tally.beyond
    some = merge([part for part in parts[:2] if part is not None], tmp_path / "some", partial=True)
    assert list(some.manifest.tally.beyond) == sorted(some.manifest.tally.beyond, key=lambda name: int(name[1:]))
