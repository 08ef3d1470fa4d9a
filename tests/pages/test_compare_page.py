from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from judge_eval.compare.compare import compare
from judge_eval.compare.comparison import Comparison
from judge_eval.server.server_settings import ServerSettings
from judge_eval.views.note_sentences import notes_of_runs
from tests.support.blocks_of_pages import blocks_of, data_of
from tests.support.reports import compare_report, run_report
from tests.support.serving import ask, judge, rows, scripted, serving

JSON = dict[str, Any]
Data = list[JSON]


def nameless(order: int) -> Data:
    """Make six questions without ids, so that other chunks make other ids."""
    chunks = [["the answer is {}", "no", "nothing"][::order] for _ in range(6)]
    return [
        {"query": f"what is {k}?", "reference": f"the answer is {k}", "chunks": [c.format(k) for c in row]}
        for k, row in enumerate(chunks)
    ]


def turned(data: Data, every: int = 2) -> Data:
    """Reverse what some of the questions retrieved."""
    return [{**row, "chunks": row["chunks"][::-1]} if i % every == 0 else row for i, row in enumerate(data)]


def without_ids(out: Path) -> tuple[EvalRun, EvalRun]:
    """Make runs whose traces are paired by what they ask."""
    return judge(nameless(1), out), judge(nameless(-1), out)


def other_judge(out: Path) -> tuple[EvalRun, EvalRun]:
    """Make runs of two judges."""
    return judge(rows(), out), scripted(turned(rows()), out, lambda text: {"verdict": len(text) % 3 == 0})


def failed_verdicts(out: Path) -> tuple[EvalRun, EvalRun]:
    """Make a run with failed verdicts."""
    broken = scripted(rows(), out, lambda t: "no JSON" if len(t) % 7 == 0 else {"verdict": len(t) % 2 == 0})
    return judge(rows(), out), broken


def clusters(out: Path) -> tuple[EvalRun, EvalRun]:
    """Make runs whose traces carry clusters."""
    data = [{**row, "metadata": {"cluster": str(i // 3)}} for i, row in enumerate(rows())]
    return judge(data, out), judge(turned(data), out)


def unpaired(out: Path) -> tuple[EvalRun, EvalRun]:
    """Make runs of which either has traces of its own, one id asking something else."""
    changed = [{**row, "query": "Another?"} if i == 4 else row for i, row in enumerate(turned(rows()))]
    return judge(rows()[:30], out), judge(changed[3:], out)


def duplicate_questions(out: Path) -> tuple[EvalRun, EvalRun]:
    """Make runs without ids in which a question occurs twice."""
    data = nameless(1)
    data[1] = {**data[0], "chunks": ["no", "the answer is 0"]}
    return judge(data, out), judge(turned(data, 1), out)


def nothing_in_common(out: Path) -> tuple[EvalRun, EvalRun]:
    """Make runs of other questions."""
    return judge(rows()[:3], out), judge(rows()[3:5], out)


KINDS_OF_RUNS = [without_ids, other_judge, failed_verdicts, clusters, unpaired, duplicate_questions]


def numbers(page: JSON) -> JSON:
    """Return what a compare page says, by the names of the record."""
    return {
        "differences": {m["name"]: (m["n"], m["baseline"], m["candidate"], m["difference"], m["interval"],
                                    m["p"], m["p_holm"], m["wins"], m["ties"], m["losses"],
                                    m["detectable"]) for m in page["metrics"]},
        "paired": (page["common"], page["only_a"], page["only_b"]),
        "changed": {kind: n for kind, n in page["changes"].items() if kind != "same"},
        "doubts": (list(page["warnings"]), list(page["notes"])),
    }  # fmt: skip


def expected(record: Comparison) -> JSON:
    """Return the same of a comparison."""
    return {
        "differences": {d.metric: (d.n, d.baseline_mean, d.candidate_mean, d.difference,
                                   d.interval and list(d.interval), d.p, d.p_holm, d.wins, d.ties,
                                   d.losses, d.detectable) for d in record.differences},
        "paired": (record.paired[0], record.only_baseline[0], record.only_candidate[0]),
        "changed": record.changed[0],
        "doubts": (list(notes_of_runs(record, record.warnings)), list(notes_of_runs(record, record.notes))),
    }  # fmt: skip


def test_reordered_traces_without_ids_are_paired_on_the_page(tmp_path: Path) -> None:
    """Six questions whose ids were made from their chunks are six pairs for the command line and the page."""
    old, new = without_ids(tmp_path)
    page = data_of(compare_report(old, new))
    assert page["common"] == compare(old, new).paired[0] == 6
    assert page["metrics"][0]["difference"] == compare(old, new)["AP@5"].difference < 0
    changed = blocks_of(compare_report(old, new))
    assert [trace["change"] for trace in changed] == ["retrieval"] * 6
    assert [trace["a"]["id"] for trace in changed] == [result.trace_id for result in old.results]
    assert {row["change"] for row in data_of(run_report(new, old))["rows"]} == {"retrieval"}


@pytest.mark.slow
@pytest.mark.parametrize("made", KINDS_OF_RUNS)
def test_a_page_says_what_the_comparison_says(made: Callable[[Path], tuple[EvalRun, EvalRun]], tmp_path: Path) -> None:
    """File and server show the record of `compare` to the last digit, whatever makes the runs differ."""
    old, new = made(tmp_path)
    record = compare(old, new)
    assert numbers(data_of(compare_report(old, new))) == expected(record)
    assert numbers(data_of(compare_report(old, new, most=3))) == expected(record)
    with serving(ServerSettings(tmp_path)) as url:
        api = f"{url}/api/v1"
        assert numbers(ask(f"{api}/compare?baseline={old.id}&candidate={new.id}")[1]) == expected(record)
        changed = ask(f"{api}/runs/{new.id}/rows?filter=changed&baseline={old.id}")[1]
        assert changed["total"] == sum(record.changed[0].values())
        served = ask(f"{api}/runs/{new.id}/page?baseline={old.id}")[1]
    for pages in (data_of(run_report(new, old)), served):
        pairs = [metric["pair"] for metric in pages["metrics"]]
        assert [p["p_holm"] for p in pairs] == [record[p["name"]].p_holm for p in pairs]
        assert [p["difference"] for p in pairs] == [record[p["name"]].difference for p in pairs]


@pytest.mark.slow
def test_a_metric_the_candidate_was_not_scored_by_is_compared(tmp_path: Path) -> None:
    """The page compares by the baseline's metrics, computed where the candidate lacks one."""
    from judge_eval.runs.scoring.rescore import rescore

    old, new = other_judge(tmp_path)
    old, new = rescore(old, ["HitRate@1", "AP@5"]), rescore(new, ["MRR", "AP@5"])
    assert numbers(data_of(compare_report(old, new))) == expected(compare(old, new))
    page = data_of(run_report(new, old))
    assert ["pair" in metric for metric in page["metrics"]] == [True, False]
    assert set(page["rows"][0]["scores"]) == {"MRR", "AP@5"}


def test_a_metric_the_candidate_cannot_be_scored_by_is_left_out(tmp_path: Path) -> None:
    """Where a metric of the baseline is undefined for the candidate, the page compares by those of both."""
    from judge_eval.runs.scoring.rescore import rescore

    bare = [{key: row[key] for key in ("id", "query", "reference", "chunks")} for row in rows()]
    known = [{**row, "relevant_total": 9} for row in bare]
    old, new = rescore(judge(known, tmp_path), ["Recall@5", "AP@5"]), judge(turned(bare), tmp_path)
    page = data_of(compare_report(old, new))
    assert numbers(page) == expected(compare(old, new, metrics=["AP@5"]))


def test_runs_with_no_trace_in_common_have_a_page(tmp_path: Path) -> None:
    """The page says which traces only one of the runs has, and shows no number."""
    page = data_of(compare_report(*nothing_in_common(tmp_path)))
    assert (page["common"], page["only_a"], page["only_b"], page["metrics"]) == (0, 3, 2, [])
    assert "3 traces (docs-001, docs-002, docs-003) only in the baseline" in page["warnings"][0]
