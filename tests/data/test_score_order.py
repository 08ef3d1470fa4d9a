from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from judge_eval import Trace, evaluate
from judge_eval.cli import main
from judge_eval.cli.printing import output
from judge_eval.data.remarks import ScoreOrder
from judge_eval.runs.scoring.counting import Progress
from tests.support.command import Shell

QUESTION = "the score rises with the rank: are the chunks best first?"


def asked(*lists: Sequence[float | None]) -> tuple[str, ...]:
    """What is asked of traces with these scores."""
    order = ScoreOrder()
    for n, scores in enumerate(lists):
        chunks = [{"id": f"c{k}", "text": f"text {k}", "score": score} for k, score in enumerate(scores)]
        order.add(Trace.parse({"id": f"t{n}", "query": "q", "chunks": chunks}))
    return order.sentences()


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ([(0.1, 0.5, 0.9)] * 3, "in all 3 traces"),
        ([(0.1, 0.5, 0.9)] * 18 + [(0.9, 0.1)] * 2, "in 18 of 20 traces"),
        ([(0.1, 0.5, 0.9)] * 2, None),
        ([(0.1, 0.9)] * 8 + [(0.9, 0.1)] * 2, None),
        ([(0.9, 0.5, 0.1)] * 5, None),
        ([(0.5, 0.5)] * 5, None),
        ([(0.1, None, 0.9)] * 5, None),
        ([(None, None)] * 5, None),
        ([(0.1,)] * 5, None),
    ],
)
def test_scores_that_rise_are_asked_about(lists: list[Sequence[float | None]], said: str | None) -> None:
    """In at least three traces and nine of ten of those with unlike scores on all chunks; else nothing is said."""
    assert asked(*lists) == (() if said is None else (f"{said} with scores {QUESTION}",))


def test_it_stands_in_validate_run_and_report(tmp_path: Path) -> None:
    """The same sentence is in `validate`, in a run's summary, and in its manifest, from which pages take it."""
    rows = [
        {
            "query": f"question {n}",
            "reference": "the answer",
            "chunks": [{"id": f"c{k}", "text": f"text {k} of {n}", "score": k / 10} for k in range(3)],
        }
        for n in range(4)
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shell, sentence = Shell(tmp_path), f"in all 4 traces with scores {QUESTION}"
    checked = shell("validate", "data.jsonl")
    assert sentence in checked.out + checked.err
    judged = shell("run", "data.jsonl", "--model", "fake/overlap", "-o", "run.md")
    assert f"{sentence}\n" in judged.out  # no full stop behind the question
    assert sentence in (tmp_path / "run.md").read_text()
    assert evaluate(rows, "fake/overlap", cache=False).manifest.dataset.remarks == (sentence,)


@pytest.mark.parametrize("verb", ["probe", "claims"])
def test_every_verb_that_judges_writes_lines_of_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """Off a terminal verbs without a run tell how far they are too, and with -q they do not."""
    monkeypatch.setattr(output, "LINE_EVERY", 0.0)
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": f"q{n}",
            "query": f"when {n}?",
            "reference": f"at {n}",
            "chunks": [{"id": "c", "text": f"at {n}", "label": 1}],
        }
        for n in range(3)
    ]
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = []
    for quiet in ((), ("-q",)):
        command = (
            verb,
            "data.jsonl",
            "--model",
            "fake/overlap",
            *quiet,
            *(("-o", "c.jsonl", "--force") * (verb == "claims")),
        )
        with pytest.raises(SystemExit):
            main(command)
        lines.append([line for line in capsys.readouterr().err.splitlines() if " traces, " in line])
    assert lines[0]
    assert not lines[1]


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal a line of progress is written every so many seconds, and none if it is to be quiet."""
    at = Progress(
        traces=3, total=40, verdicts=12, failed=0, seconds=60.0, calls=12, hits=0, retries=0, folder=None, cost=0.5
    )
    now = [100.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    with output.watching(False) as watch:
        assert watch is not None
        for now[0] in (110.0, 129.0, 131.0, 140.0, 162.0):
            watch(at)
    assert capsys.readouterr().err.splitlines() == ["3 of 40 traces, 12 verdicts, 0.2/s, about $0.50"] * 2
    with output.watching(True) as watch:
        assert watch is None
