"""A gate that the traces leave undecided, as people and CI servers see it: exit codes, annotations, reports."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from tests.support.blocks_of_pages import data_of
from tests.support.desk import Desk


@pytest.fixture
def runs(desk: Desk) -> Desk:
    """Two runs of 20 questions; the second finds the answer of one of them no more."""
    rows = [
        {"id": f"t{k}", "query": f"q{k}", "reference": "the sky is blue",
         "chunks": [{"id": "a", "text": "the sky is blue" if k < 18 else "nothing"}, {"id": "b", "text": f"other {k}"}]}
        for k in range(20)
    ]  # fmt: skip
    for name, text in (("main", "the sky is blue"), ("pr", "nothing here")):
        rows[0]["chunks"][0]["text"] = text  # type: ignore[index]
        (desk.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert desk("run", f"{name}.jsonl", "-m", "fake/overlap", "--label", name, "-q").code == 0
    return desk


GATE = ("compare", "label:main", "label:pr", "--max-drop", "AP@5=0.03")


@pytest.mark.parametrize(("undecided", "code"), [((), 0), (("warn",), 0), (("pass",), 0), (("fail",), 1)])
def test_exit_code_of_an_undecided_gate(runs: Desk, undecided: tuple[str, ...], code: int) -> None:
    """It passes, with a warning or without, unless `--undecided fail`; a gate that is broken fails under all."""
    flags = [word for value in undecided for word in ("--undecided", value)]
    assert runs(*GATE, *flags).code == code
    assert runs(*GATE[:3], "--fail-under", "AP@5=0.95", *flags).code == 1


def test_github_shows_a_warning_or_an_error(runs: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """An annotation names limit and reason, on one line; without GitHub, or with `pass`, there is none."""
    assert "::warning" not in runs(*GATE).err
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (line,) = [line for line in runs(*GATE).err.splitlines() if line.startswith("::")]
    assert line.startswith("::warning title=undecided%3A max-drop AP@5=0.03::AP@5 fell by 0.0500")
    assert "it sees drops of" in line
    assert "(80%25 power)" in line
    (line,) = [line for line in runs(*GATE, "--undecided", "fail").err.splitlines() if line.startswith("::")]
    assert line.startswith("::error title=undecided%3A max-drop AP@5=0.03::")
    assert "::" not in runs(*GATE, "--undecided", "pass").err


def test_an_annotation_holds_no_other_command(runs: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's name with line breaks and commands stays within the one annotation."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    evil = "x\n::add-mask::secret\r::error::no"
    assert runs("run", "pr.jsonl", "-m", "fake/overlap", "--label", evil, "-q").code == 0
    done = runs("compare", "latest", "label:main", "--non-inferior", "AP@5=0.001")
    commands = [line for line in done.err.splitlines() if line.lstrip().startswith("::")]
    assert len(commands) == 1
    assert commands[0].startswith("::error title=undecided%3A non-inferior AP@5=0.001::")


def test_the_reports_say_undecided_and_why(runs: Desk) -> None:
    """JUnit has a skipped case with the reason; the comment and the page begin with a neutral mark and the warning."""
    assert runs(*GATE, "-o", "gate.xml", "-o", "gate.md", "-o", "gate.json").code == 0
    (case,) = ET.parse(runs.folder / "gate.xml").iter("testcase")
    (skipped,) = case
    assert skipped.tag == "skipped"
    assert "it sees drops of" in skipped.attrib["message"]
    comment = (runs.folder / "gate.md").read_text()
    assert comment.partition("\n\n")[2].startswith(
        "**Gate passed with a warning, 1 of 1 undecided**\n\n- **\u26aa undecided"
    )
    (check,) = json.loads((runs.folder / "gate.json").read_text())["checks"]
    assert (check["outcome"], check["passed"], check["warns"]) == ("undecided", True, True)
    assert 0.1 < check["sees"] < 0.4
    assert runs("report", "label:pr", "--baseline", "label:main", *GATE[3:]).code == 0
    gate = data_of((runs.folder / "report.html").read_text())["gate"]
    assert gate["title"] == "Gate passed with a warning, 1 of 1 undecided"
    assert runs(*GATE, "--undecided", "pass", "-o", "gate.md").code == 0
    quiet = (runs.folder / "gate.md").read_text()
    assert "\u26aa" not in quiet
    assert "Gate passed, 1 of 1 undecided" in quiet


def test_the_setting_comes_from_the_environment_too(runs: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI sets it once for all commands."""
    monkeypatch.setenv("JUDGE_EVAL_UNDECIDED", "fail")
    assert runs(*GATE).code == 1


def test_a_dry_run_says_what_the_gate_will_see(runs: Desk) -> None:
    """Before anything is paid, from the spread of the baseline; without a baseline or a limit it says nothing."""
    done = runs("run", "pr.jsonl", "-m", "fake/overlap", "--dry-run", "--baseline", "label:main", *GATE[3:])
    assert done.code == 0
    (line,) = [line for line in done.out.splitlines() if line.startswith("gate ")]
    seen = re.fullmatch(
        r"gate max-drop AP@5=0.03, 20 questions: it will see drops of about ([0-9.]+) or more \(80% power\) if few "
        r"questions change, of ([0-9.]+) if many do; it takes about ([0-9,]+) questions to show that an unchanged run "
        r"keeps it, ([0-9,]+) if many change",
        line,
    )
    assert seen is not None
    few, many, least, most = (float(text.replace(",", "")) for text in seen.groups())
    assert 0.1 < few < many < 0.6
    assert 20 < least < most
    assert "gate " not in runs("run", "pr.jsonl", "-m", "fake/overlap", "--dry-run", "--fail-under", "AP@5=0.3").out
