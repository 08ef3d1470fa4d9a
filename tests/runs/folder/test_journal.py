import json
import shutil
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from judge_eval.errors import RunError
from judge_eval.eval_run import EvalRun
from judge_eval.files import write_atomically
from judge_eval.runs.columns.verdict_table import ScoreColumns
from judge_eval.runs.folder.journal import MANIFEST, Journal, ResultsFile, encode, read_result
from judge_eval.runs.folder.records import RESULTS, Dataset, Manifest, TraceResult, json_schemas
from judge_eval.runs.folder.run import load_manifest
from judge_eval.schema import Call, Judgment, Verdict
from tests.support.command import ROOT
from tests.support.runs import traces

MANIFEST_ = Manifest(
    id="0f" * 16,
    created=datetime(2026, 1, 2, tzinfo=UTC),
    dataset=Dataset(name="data"),
    judge={},
    backend={},
    metrics=("MRR",),
)


def result(position: int, score: float | None = 1.0) -> TraceResult:
    """Make the result of one trace."""
    trace = traces(position + 1, chunks=1)[position]
    outcome = Verdict(chunk_id=trace.chunks[0].id, grade=1, relevant=True)
    return TraceResult(
        position=position,
        trace_id=trace.id,
        digest=trace.digest,
        outcomes=(outcome,),
        scores={"MRR": score},
        bounds={} if score is not None else {"MRR": (0.0, 1.0)},
        trace=trace,
    )


def positions(folder: Path) -> list[int]:
    """Read the positions of a run's results."""
    return [match.position for match in ResultsFile(folder / RESULTS)]


def test_results_without_their_calls_are_the_same_otherwise(tmp_path: Path) -> None:
    """Calls are left out by where they stand in a line, whatever the texts around them hold."""
    odd = ',"calls":[{"key":"x"}],"votes":{},"trace":{"chunks":['
    call = Call(key="0" * 64, chunk_ids=(odd, "b"), model=odd)
    given = [
        result(0),
        result(1).replace(calls=(call, call), votes={odd: (1,)}),
        result(2, None).replace(calls=(call,)),
    ]
    part = Judgment(trace_id="q1", outcomes=given[1].outcomes, calls=(call,), votes={odd: (1,)})
    given.append(result(3).replace(calls=(call,), parts={"a": part, "b": part}))
    given[2] = given[2].replace(
        outcomes=(Verdict(chunk_id=given[2].trace.chunks[0].id, grade=1, relevant=True, reason=odd),)
    )
    journal = Journal(tmp_path / "run", MANIFEST_)
    journal.append(given)
    journal.close()
    actual = ResultsFile(tmp_path / "run" / RESULTS)
    assert list(actual) == given
    assert list(actual.at(np.arange(4), calls=False)) == [each.replace(calls=()) for each in given]


def test_results_come_back_as_they_went_in(tmp_path: Path) -> None:
    """What was appended is read back, in the dataset's order, one by one or in slices."""
    journal = Journal(tmp_path / "run", MANIFEST_)
    journal.append([result(2), result(0)])
    journal.append([result(1, None)])
    journal.close()
    actual = ResultsFile(tmp_path / "run" / RESULTS)
    assert list(actual) == [result(0), result(1, None), result(2)]
    assert (len(actual), actual[-1], actual[0:2]) == (3, result(2), [result(0), result(1, None)])


def test_only_the_written_shape_of_a_trace_is_read_from_a_run() -> None:
    """Other shapes, such as chunks that are texts, are for people's data and for Python; no run holds them."""
    fields = json.loads(encode(result(0)))
    fields["trace"]["chunks"] = [chunk["text"] for chunk in fields["trace"]["chunks"]]
    assert TraceResult.parse(fields).trace.chunks[0].id == "c1"
    with pytest.raises(RunError, match="not a result of a run"):
        read_result(json.dumps(fields).encode(), Path("results.jsonl"), 1)


def test_a_torn_last_line_is_passed_over_and_cut_off(tmp_path: Path) -> None:
    """A line that a kill tore off is not read, and the next sitting writes in its place."""
    journal = Journal(tmp_path, MANIFEST_)
    journal.append([result(0), result(1)])
    journal.close()
    path = tmp_path / RESULTS
    path.write_bytes(path.read_bytes() + encode(result(2))[:-10])
    assert positions(tmp_path) == [0, 1]
    again = Journal(tmp_path, MANIFEST_)
    again.append([result(2)])
    again.close()
    assert path.read_bytes() == b"".join(encode(result(n)) for n in range(3))


def test_of_two_lines_about_one_trace_the_later_counts(tmp_path: Path) -> None:
    """A trace judged again replaces its first line, in what is read and in the sorted file."""
    journal = Journal(tmp_path, MANIFEST_)
    results = [result(1), result(0, None), result(0, 0.5)]
    journal.append(results)
    assert [match.scores["MRR"] for match in ResultsFile(tmp_path / RESULTS)] == [0.5, 1.0]
    columns = ScoreColumns(["MRR"])
    for each in results:
        columns.add(each)
    scored = columns.done().in_order()
    assert scored.column("MRR").tolist() == scored.low[:, 0].tolist() == [0.5, 1.0]
    journal.sort()
    journal.append([result(2)])
    journal.close()
    assert (tmp_path / RESULTS).read_bytes() == encode(result(0, 0.5)) + encode(result(1)) + encode(result(2))


@pytest.mark.slow
def test_only_one_process_writes_a_run(tmp_path: Path) -> None:
    """Another process is refused while a run is being written, and let in afterwards."""
    script = (
        "import sys; from pathlib import Path; from judge_eval.runs.folder.journal import Journal\n"
        "from judge_eval.runs.folder.run import load_manifest\n"
        "from judge_eval.errors import RunError\n"
        "folder = Path(sys.argv[1])\n"
        "try: Journal(folder, load_manifest(folder)).close()\n"
        "except RunError as error: print(error); sys.exit(7)\n"
    )

    def other() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60
        )

    journal = Journal(tmp_path, MANIFEST_)
    refused = other()
    assert (refused.returncode, "another process is writing this run" in refused.stdout) == (7, True)
    journal.close()
    assert other().returncode == 0


def test_a_run_that_cannot_be_opened_is_let_go(tmp_path: Path) -> None:
    """A damaged journal is refused with its line, and its lock is free at once."""
    journal = Journal(tmp_path, MANIFEST_)
    journal.append([result(0)])
    journal.close()
    whole = (tmp_path / RESULTS).read_bytes()
    (tmp_path / RESULTS).write_bytes(whole + b'{"v": 1}\n')
    with pytest.raises(RunError, match=r"results.jsonl:2: not a result of a run") as caught:
        Journal(tmp_path, MANIFEST_)
    (tmp_path / RESULTS).write_bytes(whole)
    Journal(tmp_path, MANIFEST_).close()
    assert caught.value


@pytest.mark.slow
def test_a_full_disk_loses_nothing_that_was_written(tmp_path: Path) -> None:
    """Where no more can be written the error says so, and every whole line stays."""
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from judge_eval.runs.folder.journal import Journal\n"
        "from judge_eval.errors import RunError\n"
        "from tests.runs.folder.test_journal import MANIFEST_, result\n"
        "journal = Journal(Path(sys.argv[1]), MANIFEST_)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "try:\n"
        "    for n in range(50): journal.append([result(n)])\n"
        "except RunError as error: print(n, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    count, _, message = done.stdout.partition(" ")
    assert "cannot be written" in message, done.stderr
    assert "`resume`" in message
    assert int(count) > 0
    assert positions(tmp_path) == list(range(int(count)))
    assert (tmp_path / RESULTS).read_bytes().endswith(b"\n")


def test_a_folder_that_was_deleted_meanwhile_is_named_as_gone(tmp_path: Path) -> None:
    """A run whose folder is deleted while it is judged ends with a message that says so."""
    with closing(Journal(tmp_path / "run", MANIFEST_)) as journal:
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(RunError, match=r"is missing: it was deleted or moved while the run was judged"):
            journal.write_manifest(MANIFEST_)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A file in the way is told as such."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written: "):
        Journal(tmp_path / "file" / "run", MANIFEST_)


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    """A write that fails leaves the old file and no other."""
    path = tmp_path / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    with pytest.raises(OSError, match="No such file"):
        write_atomically(tmp_path / "gone" / "file", b"new")
    assert [match.name for match in tmp_path.iterdir()] == ["file"]


def test_a_reader_refuses_later_versions(tmp_path: Path) -> None:
    """A run of a later format is not read as if it were ours, even where its fields look the same."""
    journal = Journal(tmp_path, MANIFEST_)
    journal.append([result(0)])
    journal.close()
    for name in (MANIFEST, RESULTS):
        path = tmp_path / name
        path.write_bytes(path.read_bytes().replace(b'"v": 1', b'"v": 2').replace(b'"v":1', b'"v":2'))
    with pytest.raises(RunError, match="another version of the format"):
        load_manifest(tmp_path)
    with pytest.raises(RunError, match=r"results.jsonl:1: written by a later version \(format 2\)"):
        list(ResultsFile(tmp_path / RESULTS))


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    """A missing or damaged manifest and missing results are errors that name the file."""
    with pytest.raises(RunError, match=r"it has no manifest.json"):
        EvalRun.load(tmp_path)
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(RunError, match="not a run's manifest"):
        EvalRun.load(tmp_path)
    (tmp_path / MANIFEST).write_text(MANIFEST_.model_dump_json(indent=2))
    with pytest.raises(RunError, match=r"results.jsonl: cannot be read: No such file"):
        list(EvalRun.load(tmp_path).results)


def test_the_schemas_of_the_files_are_told() -> None:
    """The JSON schemas cover the run's files and the dataset's lines, versions included."""
    schemas = json_schemas()
    assert set(schemas) == {"manifest", "result", "trace"}
    assert schemas["result"]["properties"]["v"]["maximum"] == 1
    assert schemas["trace"]["additionalProperties"] is False
