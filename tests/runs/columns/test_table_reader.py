from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun
from judge_eval.errors import RunError
from judge_eval.runs.columns.graded_trace import GradedTrace
from judge_eval.runs.columns.verdict_table import WHYS, find_ids, light_results, table_from, verdict_table
from judge_eval.runs.folder import journal
from judge_eval.runs.folder.journal import finished_manifest
from judge_eval.runs.folder.lines import ResultLine
from judge_eval.runs.folder.run import load_manifest
from judge_eval.schema import NoVerdict
from judge_eval.study.agree import agree
from tests.support.columnar import made, same
from tests.support.likely import likely_run


def test_the_fast_reader_takes_what_the_strict_one_takes(tmp_path: Path) -> None:
    """Failures, labels, clusters, tags and probabilities are the same in both, and so is what scoring reads."""
    for folder in (made(tmp_path / "a").folder, likely_run(12, silent=2, out=tmp_path / "b").folder):
        run = EvalRun.load(folder or "")
        same(verdict_table(run), table_from(run.results, run.manifest.metrics))
        light = list(light_results(run))
        assert all(isinstance(each, ResultLine) for each in light)
        strict = [GradedTrace.of(each.trace, each.outcomes) for each in run.results]
        assert [GradedTrace.of(each.trace, each.outcomes) for each in light] == strict


def changed(folder: Path, old: bytes, new: bytes, *, again: bool) -> EvalRun:
    """Change the fourth line of a run's results, with new digests or without any."""
    path = folder / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert old in lines[3]
    lines[3] = lines[3].replace(old, new, 1)
    path.write_bytes(b"".join(lines))
    manifest = load_manifest(folder)
    whole = finished_manifest(manifest, folder) if again else manifest.under_way("running")
    (folder / "manifest.json").write_text(whole.model_dump_json())
    return EvalRun.load(folder)


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        (b'"position":3', b'"position":3,"position":3', False),
        (b'"relevant":', b'"relevant":NaN,"was":', True),
        (b'"grade":', b'"grade":300,"was":', True),
    ],
)
def test_a_broken_line_is_refused_with_its_number(tmp_path: Path, old: bytes, new: bytes, again: bool) -> None:
    """A key that stands twice, NaN, and a grade beyond the limit: the strict reader names file and line."""
    run = changed(made(tmp_path).folder or Path(), old, new, again=again)
    with pytest.raises(RunError, match=r"results\.jsonl.*4.*not a result of a run"):
        verdict_table(run)


def test_a_run_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring a run by labels, by slice too, opens its results once, which checks them as well."""
    run = EvalRun.load(made(tmp_path).folder or "")
    opened: list[Path] = []
    plain = journal.open_plain

    def watched(path: Path, *mode: str) -> object:
        opened.append(path)
        return plain(path, *mode)  # type: ignore[arg-type]

    monkeypatch.setattr(journal, "open_plain", watched)
    agree(run, None, by=("tag", "length", "language"), most=0)
    assert [path.name for path in opened if path.name == "results.jsonl"] == ["results.jsonl"]
    assert np.array_equal(verdict_table(run).sizes, [len(result.outcomes) for result in run.results])


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
