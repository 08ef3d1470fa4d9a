"""Labels that are planned from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.stats_planning import simulated_run
from tests.support.desk import Desk


@pytest.mark.slow
def test_the_command_plans_draws_and_corrects(desk: Desk) -> None:
    """`sample --target` says what each way takes, writes chances, and its file goes to `correct --sequential`."""
    run, truth = simulated_run(np.random.default_rng(6), 120, (1.0, 2.0), (0.95, 0.95), "P@5")
    data = [r.trace.model_dump(mode="json", exclude_none=True) for r in run.results]
    (desk.folder / "traces.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data), encoding="utf-8")
    assert desk("run", "traces.jsonl", "-m", "fake/hash", "--metrics", "P@5", "-q").code == 0
    planned = desk("sample", "latest", "--target", "P@5=0.09", "--by", "none", "-o", "todo.jsonl")
    assert planned.code == 0, planned.err
    assert "P@5 +-0.09 was planned with 90% of verdicts right" in planned.err
    assert "all with the same chance" in planned.err
    rows = [json.loads(line) for line in (desk.folder / "todo.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        for chunk in row["chunks"]:
            chunk["label"] = truth.grades[row["id"], chunk["id"]]
    (desk.folder / "done.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = desk("correct", "latest", "--labels", "done.jsonl", "--sequential")
    assert done.code == 0, done.err
    assert "hold at every look" in done.out
    assert [row["id"] for row in rows] != sorted(row["id"] for row in rows)
    assert "is not reached" in desk("sample", "latest", "--target", "P@5=0.001", "-o", "x.jsonl").err
    both = desk("sample", "latest", "--target", "P@5=0.1", "-n", "5", "-o", "x.jsonl")
    assert both.code == 2
