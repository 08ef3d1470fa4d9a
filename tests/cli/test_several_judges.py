"""`probe` and `judge` by a panel, or by samples of one judge."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.command import Shell
from tests.support.desk import Desk

ROWS = [
    {"id": "t1", "query": "Which?", "reference": "San Marzano.", "chunks": ["San Marzano tomatoes.", "Basil."]},
    {"id": "t2", "query": "How hot?", "reference": "450 degrees.", "chunks": ["At 450 degrees.", "A stone."]},
]
PANEL = ("--member", "fake/overlap", "--member", "fake/inverted")
ALONE = ("--model", "fake/overlap")


@pytest.mark.parametrize(
    ("asked", "votes"),
    [
        (PANEL, {"fake/overlap:support/binary": [1, 0], "fake/inverted:support/binary": [0, 1]}),
        ((*ALONE, "--repeat", "2", "--vote", "mean"), {"sample 1": [1, 0], "sample 2": [1, 0]}),
    ],
)
def test_judge_asks_several(asked: tuple[str, ...], votes: dict[str, Any], desk: Desk) -> None:
    """One trace is judged as `run` judges it, with the vote of each."""
    (desk.folder / "trace.json").write_text(json.dumps(ROWS[0]))
    result = desk("judge", "trace.json", *asked, "--json", "--cache", "none")
    assert result.code == 0, result.err
    assert json.loads(result.out)["votes"] == votes


def test_probe_asks_several(desk: Desk) -> None:
    """Every member is asked about every case, and the report names the panel."""
    (desk.folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (desk.folder / "panel.toml").write_text('[[member]]\nmodel = "fake/overlap"\n[[member]]\nmodel = "fake/inverted"\n')
    (desk.folder / "three.toml").write_text('model = "fake/overlap"\nrepeat = 3\n')
    reports = [
        json.loads(desk("probe", "data.jsonl", *asked, "--only", "random", "--json", "--cache", "none").out)
        for asked in (ALONE, ("--judge", "panel.toml"), ("--judge", "three.toml"))
    ]
    alone, panel, repeated = reports
    assert panel["judge"] == "fake/overlap-1, fake/inverted-1 with a panel of 2 (majority)"
    assert alone["judge"].startswith("fake/overlap-1 with support/binary@")
    assert panel["calls"] > alone["calls"]
    assert repeated["calls"] == 3 * alone["calls"]


def test_a_prompt_file_of_a_member_is_named_as_one(shell: Shell) -> None:
    """A file behind a colon is no part of the model's name; the message says how it is written."""
    done = shell("run", "pizza.jsonl", "--member", "fake/overlap", "--member", "openai/smol:tiny.toml")
    assert done.code == 2
    assert "write :file:tiny.toml" in done.err
