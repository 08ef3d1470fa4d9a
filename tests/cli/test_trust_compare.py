from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from judge_eval.compare.comparison import Comparison
from judge_eval.export.ci_reports import MARKER
from tests.support.command import FIXTURES, judge_eval
from tests.support.golden import check_golden as assert_golden

NAMES = [f"t{k:02d}" for k in range(40)]


def dataset(path: Path, better: int = 0) -> Path:
    """Write traces whose one relevant chunk stands at rank 2, in the first `better` of them at rank 1."""
    rows = []
    for k, name in enumerate(NAMES):
        chunks = [
            {"id": "other", "text": "Trains leave from the northern platform."},
            {"id": "good", "text": f"The lamp of house {k} is violet."},
        ]
        row = {"id": name, "query": f"Which colour has the lamp of house {k}?", "reference": f"violet {k}"}
        rows.append(json.dumps({**row, "chunks": chunks[::-1] if k < better else chunks}))
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of the main branch and one whose retriever was improved on 30 traces."""
    folder = tmp_path_factory.mktemp("compare")
    for label, better in (("main", 0), ("better", 30)):
        data = dataset(folder / f"{label}.jsonl", better)
        done = judge_eval(folder, "run", data.name, "-m", "fake/overlap", "--label", label, "-q", "-k", "AP@2,P@2")
        assert done.returncode == 0, done.stderr
    return folder


def test_a_run_compared_with_itself_costs_nothing_and_differs_in_nothing(folder: Path) -> None:
    """A second run of the same data takes zero calls, and "no difference" is what the comparison says."""
    done = judge_eval(
        folder, "run", "main.jsonl", "-m", "fake/overlap", "-q", "-k", "AP@2", "--baseline", "label:main",
        "--max-drop", "AP@2=0", "--undecided", "fail", "--label", "again", "--out", "runs",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "0 calls" in done.stdout
    assert "40  all the same" in done.stdout
    assert "again: no trace changed" in done.stdout


def test_compare_reads_as_it_should(folder: Path) -> None:
    """What people read of an improvement, word for word."""
    done = judge_eval(folder, "compare", "label:main", "label:better")
    assert done.returncode == 0, done.stderr
    assert_golden("trust_compare.txt", done.stdout)


def test_compare_as_json_names_every_improved_trace(folder: Path) -> None:
    """The JSON is the record; the 30 improved traces are named, and no others."""
    same = Comparison.model_validate_json(judge_eval(folder, "compare", "label:main", "label:better", "--json").stdout)
    assert same["AP@2"].finding == "higher"
    assert {t.trace_id for t in same.traces} == set(NAMES[:30])


def test_the_gate_fails_with_a_sentence_and_exit_code_one(folder: Path) -> None:
    """Which limit, by how much, against what, and the traces that moved most; the reports say the same."""
    done = judge_eval(
        folder, "run", "main.jsonl", "-m", "fake/overlap", "-q", "-k", "AP@2", "--baseline", "label:better",
        "--max-drop", "AP@2=0.03", "--fail-under", "P@2=0.4", "-o", "report.md", "--label", "pr",
    )  # fmt: skip
    assert done.returncode == 1
    assert "failed: max-drop AP@2 fell by 0.3750" in done.stderr
    assert "which is more than 0.03 (against better)" in done.stderr
    assert "  t00: -0.5000 (+. to .+) Which colour has the lamp of house 0?" in done.stderr
    assert "passed: fail-under P@2 is 0.5000" in done.stderr
    report = (folder / "report.md").read_text()
    assert report.startswith(MARKER)
    assert_golden("trust_report.md", report)


def test_junit_has_a_case_for_every_limit(folder: Path) -> None:
    """One test case a limit: failed where it is broken, or where non-inferiority is not shown."""
    done = judge_eval(
        folder, "compare", "label:better", "label:main", "--max-drop", "AP@2=0.03", "--max-drop", "P@2=0.03",
        "--non-inferior", "P@2=0.01", "-o", "gate.xml",
    )  # fmt: skip
    assert done.returncode == 1
    root = ET.parse(folder / "gate.xml").getroot()
    cases = {case.attrib["name"]: case.find("failure") for case in root.iter("testcase")}
    assert list(cases) == ["max-drop AP@2=0.03", "non-inferior P@2=0.01", "max-drop P@2=0.03"]
    assert [failure is None for failure in cases.values()] == [False, False, True]
    assert "undecided" in str(cases["non-inferior P@2=0.01"].attrib["message"])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-drop", "AP@2=0.1"], 'needs something to compare with; give `baseline="RUN"` (`--baseline RUN`)'),
        (["--fail-under", "AP@2"], "write METRIC=VALUE"),
        (["--fail-under", "AP@2=0.1", "--baseline", "label:mian"], "did you mean 'main'?"),
        (["-o", "x.pdf"], "the suffix selects the format"),
    ],
)
def test_a_gate_that_cannot_work_stops_before_anything_is_asked(folder: Path, arguments: list[str], said: str) -> None:
    """Usage errors have exit code 2, and no run is started."""
    before = len(list((folder / "runs").iterdir()))
    done = judge_eval(folder, "run", "main.jsonl", "-m", "fake/overlap", "--out", "runs", *arguments)
    assert done.returncode == 2
    assert said in done.stderr.replace("\n", " ")
    assert len(list((folder / "runs").iterdir())) == before


def test_label_and_address_come_from_the_ci_server(folder: Path, tmp_path: Path) -> None:
    """In a pull request's job the run is labelled and linked without a flag; a flag goes first."""
    github = {
        "GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "o/r", "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_SERVER_URL": "https://github.com",
    }  # fmt: skip
    for flags, label in (([], "PR #7"), (["--label", "mine"], "mine")):
        done = judge_eval(
            tmp_path, "run", folder / "main.jsonl", "-m", "fake/overlap", "-q", "--json", *flags, environment=github
        )
        manifest = json.loads(done.stdout)
        assert (manifest["label"], manifest["href"]) == (label, "https://github.com/o/r/pull/7")


@pytest.mark.slow
def test_tags_and_intervals_are_shown(tmp_path: Path) -> None:
    """`show --tags` breaks the metrics down; `score --interval bca` makes the other interval."""
    done = judge_eval(tmp_path, "run", FIXTURES / "docs_qa.jsonl", "-m", "fake/overlap", "-q", "-k", "AP@5")
    assert done.returncode == 0
    shown = judge_eval(tmp_path, "show", "latest", "--tags").stdout
    assert "p20" in shown
    assert "interval by" in shown
    line = next(line for line in shown.splitlines() if line.startswith("appliance "))
    assert line.split()[:3] == ["appliance", "AP@5", "0.2333"]
    document = json.loads(judge_eval(tmp_path, "score", "latest", "--interval", "bca", "--json").stdout)
    assert document["aggregates"]["AP@5"]["method"] == "bca"


def test_what_a_limit_needs_is_checked_before_anything_is_paid(folder: Path) -> None:
    """A limit on recall without `relevant_total` ends the command before the first call, with no run kept."""
    before = len(list((folder / "runs").iterdir()))
    done = judge_eval(
        folder, "run", "main.jsonl", "-m", "fake/overlap", "-q", "--out", "runs", "--fail-under", "Recall@2=0.5"
    )
    assert done.returncode == 2
    assert "relevant_total" in done.stderr
    assert len(list((folder / "runs").iterdir())) == before
