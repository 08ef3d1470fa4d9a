import json
from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun, FakeBackend
from judge_eval.compare.compare import compare
from judge_eval.errors import RunError
from judge_eval.runs.columns.parquet import write_parts
from judge_eval.runs.columns.table_reader import verdict_table
from judge_eval.runs.columns.verdict_table import WHYS, find_ids, table_from
from judge_eval.runs.folder.integrity import file_digest, with_digests
from judge_eval.runs.folder.labels import Label, add_label
from judge_eval.runs.folder.run import load_manifest
from judge_eval.runs.folder.run_files import TRACES, VERDICTS
from judge_eval.runs.judging.verify import verify
from judge_eval.schema import NoVerdict
from judge_eval.study.agree import agree
from tests.support.application import CliRunner, app
from tests.support.columnar import NAMES, made, read_only_parts, same
from tests.support.likely import likely_run
from tests.support.runs import evaluator, traces

pytestmark = pytest.mark.foreign


def test_parts_hold_the_columns_of_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read from the parts is what is packed from the results: scores, grades, labels, clusters."""
    run = made(tmp_path)
    packed = table_from(run.results, run.manifest.metrics, "cluster")
    assert (packed.grades < 0).sum() == 1
    write_parts(run)
    read_only_parts(monkeypatch)
    again = EvalRun.load(run.folder or "")
    same(verdict_table(again, run.manifest.metrics, "cluster"), packed)
    # The places of results come from the parts too, and lead to the same results.
    assert [r.trace_id for r in again.results] == NAMES
    assert again.results[17] == run.results[17]


def test_parts_hold_the_probabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the judge held likely comes from the parts as from the results, missing where it told nothing."""
    kept = likely_run(12, silent=2, out=tmp_path)
    run = EvalRun.load(kept.folder or "")
    packed = table_from(run.results, ("AP@5",), "cluster")
    assert int(np.isnan(packed.probabilities).sum()) == 24
    agreed = agree(run, None)
    write_parts(run)
    read_only_parts(monkeypatch)
    again = EvalRun.load(kept.folder or "")
    same(verdict_table(again, ("AP@5",), "cluster"), packed)
    assert agree(again, None) == agreed
    assert agreed.reliability is not None


def put_digests(folder: Path, *, own: bool) -> None:
    """Put the digests of the Parquet files into the manifest, with a new digest of its `own` or the old one."""
    manifest = load_manifest(folder)
    parts = {name: file_digest(folder / name) for name in (TRACES, VERDICTS)}
    made = with_digests(manifest, {**manifest.files, **parts})
    changed = made if own else made.replace(digest=manifest.digest)
    (folder / "manifest.json").write_text(changed.model_dump_json())


def test_compare_and_agree_say_the_same_from_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison and an agreement are equal, whether read from the results or from the parts."""
    first, two = made(tmp_path / "a", 1), made(tmp_path / "b", 2)
    compared, agreed = compare(first, two), agree(first, None)
    assert compared.traces
    for run in (first, two):
        write_parts(run)
    read_only_parts(monkeypatch)
    first, two = (EvalRun.load(run.folder or "") for run in (first, two))
    assert compare(first, two) == compared
    assert agree(first, None) == agreed
    add_label(first.folder or Path(), Label(trace_id="t04", chunk_id="a", label=1))
    add_label(first.folder or Path(), Label(trace_id="t09", chunk_id="b", label=1))
    assert agree(first, None) != agreed


@pytest.mark.parametrize("damage", ["garbage", "one missing", "mixed"])
def test_stale_or_damaged_parts_are_not_read(tmp_path: Path, damage: str) -> None:
    """Parts of other results, and torn ones, are passed over: the results count."""
    run = made(tmp_path / "a")
    folder = run.folder or Path()
    write_parts(run)
    if damage == "garbage":
        (folder / VERDICTS).write_bytes((folder / VERDICTS).read_bytes()[:-100])
    elif damage == "one missing":
        (folder / TRACES).unlink()
    else:
        other = made(tmp_path / "b", 5)
        write_parts(other)
        (folder / VERDICTS).write_bytes(((other.folder or Path()) / VERDICTS).read_bytes())
    again = EvalRun.load(folder)
    same(
        verdict_table(again, run.manifest.metrics, "cluster"),
        table_from(EvalRun.load(folder).results, run.manifest.metrics, "cluster"),
    )


def test_edited_parts_are_not_believed(tmp_path: Path) -> None:
    """Parts that claim to be of these results, but hold other scores than were written, are passed over."""
    import pyarrow
    import pyarrow.parquet

    run = made(tmp_path)
    folder = run.folder or Path()
    write_parts(run)
    table = pyarrow.parquet.read_table(folder / TRACES)
    name = run.manifest.metrics[0]
    place = table.schema.get_field_index(name)
    edited = table.set_column(place, name, pyarrow.array([1.0] * len(table)))
    pyarrow.parquet.write_table(edited.replace_schema_metadata(table.schema.metadata), folder / TRACES)
    again = EvalRun.load(folder)
    same(
        verdict_table(again, run.manifest.metrics, "cluster"),
        table_from(again.results, run.manifest.metrics, "cluster"),
    )


@pytest.mark.parametrize("own", [False, True])
def test_edited_parts_with_new_digests_are_found(tmp_path: Path, own: bool) -> None:
    """Parts that were edited together with their digests: `verify` tells the row, and the manifest is refused."""
    import pyarrow
    import pyarrow.parquet

    run = made(tmp_path)
    folder = run.folder or Path()
    write_parts(run)
    assert verify(folder).condition == "whole"
    table = pyarrow.parquet.read_table(folder / VERDICTS)
    grades = [0 if grade == 1 else grade for grade in table.column("grade").to_pylist()]
    place = table.schema.get_field_index("grade")
    edited = table.set_column(place, table.schema.field("grade"), pyarrow.array(grades, pyarrow.int8()))
    pyarrow.parquet.write_table(edited, folder / VERDICTS)
    put_digests(folder, own=own)
    verification = verify(folder)
    assert verification.condition == "changed"
    wrong = table.column("grade").to_pylist().index(1) + 1
    assert f"verdicts.parquet: row {wrong} does not follow from the results" in map(str, verification.findings)
    if not own:
        with pytest.raises(RunError, match="its contents are not what was written"):
            EvalRun.load(folder)


def test_parts_without_a_digest_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without digests of the parts in the manifest, the results are read."""
    run = made(tmp_path)
    folder = run.folder or Path()
    before = (folder / "manifest.json").read_bytes()
    write_parts(run)
    (folder / "manifest.json").write_bytes(before)
    read_only_parts(monkeypatch)
    with pytest.raises(AssertionError, match="the results were read"):
        verdict_table(EvalRun.load(folder), run.manifest.metrics, "cluster")


def test_other_metrics_and_clusters_come_from_the_results(tmp_path: Path) -> None:
    """What the parts do not hold is taken from the results."""
    run = made(tmp_path)
    write_parts(run)
    assert not verdict_table(run, ("AP@3",), "team").clusters.any()
    result = compare(run, run, metrics=["HitRate@1"])
    assert result["HitRate@1"].finding == "same"


def test_columnar_on_the_command_line(tmp_path: Path) -> None:
    """`run --columnar`, `runs merge --columnar` and `runs columnar` leave two tables that others can read."""
    import pyarrow.parquet

    data, out = tmp_path / "data.jsonl", str(tmp_path / "runs")
    data.write_text("".join(trace.model_dump_json() + "\n" for trace in traces(20)))
    runner = CliRunner()
    base = ["run", str(data), "--model", "fake/overlap", "--cache", "none", "--out", out, "--json", "-q"]
    ids = []
    for shard in ("1/2", "2/2"):
        done = runner.invoke(app, [*base, "--columnar", "--shard", shard])
        assert done.exit_code == 0, done.output
        ids.append(json.loads(done.stdout)["id"])
    merged = runner.invoke(app, ["runs", "merge", *ids, "--out", out, "--json"], env={"JUDGE_EVAL_COLUMNAR": "1"})
    assert merged.exit_code == 0, merged.output
    plain = runner.invoke(app, base)
    assert plain.exit_code == 0
    document = runner.invoke(app, ["runs", "columnar", json.loads(plain.stdout)["id"], "--out", out])
    assert document.exit_code == 0, document.output
    assert len(document.stdout.split()) == 2
    folders = list(Path(out).iterdir())
    assert len(folders) == 4
    assert all((folder / name).exists() for folder in folders for name in (TRACES, VERDICTS))
    table = pyarrow.parquet.read_table(document.stdout.split()[1]).to_pylist()
    assert len(table) == 60
    assert {"trace_id", "rank", "chunk_id", "grade", "relevant"} <= set(table[0])


def test_runs_in_memory_have_no_parts() -> None:
    """A run without a folder says what to do."""
    with pytest.raises(RunError, match="into a folder"):
        write_parts(evaluator(FakeBackend.table({}, default=1)).evaluate(traces(2)))


def test_every_reason_has_a_code() -> None:
    """Each reason why there is no verdict is one of the codes, so that none is lost in the columns."""
    result = NoVerdict.model_json_schema()["properties"]["why"]
    assert set(result["enum"]) == set(WHYS)


def test_ids_that_share_their_first_bits_are_told_apart() -> None:
    """Ids are found by all of their 128 bits, also where others begin alike."""
    among = np.array([[1, 5], [1, 7], [0, 9], [1, 6]], dtype=np.uint64)
    wanted = np.array([[1, 6], [1, 8], [0, 9], [2, 5], [1, 7]], dtype=np.uint64)
    assert find_ids(wanted, among).tolist() == [3, -1, 2, -1, 1]
    assert find_ids(wanted[:0], among).tolist() == []
    assert find_ids(wanted, among[:0]).tolist() == [-1] * 5
