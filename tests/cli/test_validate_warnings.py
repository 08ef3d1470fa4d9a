"""`validate` warns of what is probably not what was meant."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import FIXTURES, Shell

ROWS = [
    {"id": "q1", "query": "a?", "referense": "x", "chunks": [{"id": "a", "text": "t", "lable": 1}]},
    {"Id": "q2", "query": "b?", "reference": "x", "tag": ["a"], "metadata": {"references": 1}, "chunks": []},
]


def written(folder: Path) -> str:
    """Write the rows and return the file's name."""
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return "t.jsonl"


def test_fields_that_are_nearly_ours_are_told(tmp_path: Path) -> None:
    """A misspelt field is named with the one that was meant; what a trace has already is not asked for."""
    result = Shell(tmp_path)("validate", written(tmp_path))
    assert result.code == 0
    assert "2 valid traces" in result.out
    for theirs, ours in (
        ("referense", "reference"),
        ("chunks[].lable", "chunks[].label"),
        ("Id", "id"),
        ("tag", "tags"),
    ):
        sentence = f"{theirs!r} is not one of our fields and is kept as metadata; did you mean {ours!r}? (1 trace)"
        assert f"warning: {sentence}" in " ".join(result.err.split())
    assert "'references'" not in result.err


def test_what_a_run_would_refuse_is_told(tmp_path: Path) -> None:
    """Defaults and settings warn; what is asked for here by a flag is an error with file and line."""
    shell, data = Shell(tmp_path), written(tmp_path)
    result = shell("validate", data)
    refused = "would refuse 1 trace (the first is 'q1'): the prompt support/binary needs the reference"
    assert refused in result.err
    assert "Recall" not in result.err
    by_setting = shell("validate", data, JUDGE_EVAL_METRICS="Recall@5", JUDGE_EVAL_PROMPT="relevance/binary")
    assert by_setting.code == 0
    assert "would refuse 2 traces (the first is 'q1'): Recall@5 needs to know" in by_setting.err
    assert "needs the reference" not in by_setting.err
    by_flag = shell("validate", data, "--prompt", "support/binary", "--metrics", "Recall@5")
    assert by_flag.code == 2
    assert "t.jsonl:1: reference: the prompt support/binary needs" in by_flag.out
    assert "t.jsonl:2: relevant_total: Recall@5 needs" in by_flag.out


def test_good_data_are_not_warned_of(tmp_path: Path) -> None:
    """The dataset that comes with the package has nothing to warn of."""
    result = Shell(tmp_path)("validate", FIXTURES / "docs_qa.jsonl")
    assert (result.code, result.err) == (0, "")
