"""A run to be read into a table."""

from dataclasses import fields
from pathlib import Path

import numpy as np

from judge_eval import EvalRun
from judge_eval.errors import RefusedError
from judge_eval.runs.columns.verdict_table import NAMED, VerdictTable
from judge_eval.schema import Trace
from tests.support.verdicts import judged, traces_of

NAMES = [f"t{k:02d}" for k in range(40)]


def made(out: Path, seed: int = 0) -> EvalRun:
    """Judge a small dataset with labels, clusters and failed verdicts, and open the run from its folder."""
    rng = np.random.default_rng(seed)
    data = [
        Trace.parse(
            {
                **trace.model_dump(),
                "metadata": {"cluster": f"k{place % 7}"} if place % 3 else {},
                "tags": ["odd"] if place % 2 else [],
                "chunks": [
                    {"id": c.id, "text": c.text, "label": int(rng.integers(2)) if rng.random() < 0.7 else None}
                    for c in trace.chunks
                ],
            }
        )
        for place, trace in enumerate(traces_of({name: "abcd"[: k % 5] for k, name in enumerate(NAMES)}))
    ]
    grades = {(t.id, c.id): int(rng.integers(2)) for t in data for c in t.chunks}
    run = judged(data, {**grades, ("t03", "b"): RefusedError("no")}, out=out, label=f"seed {seed}")
    assert run.folder is not None
    return EvalRun.load(run.folder)


def same(first: VerdictTable, other: VerdictTable) -> None:
    """Check that two tables hold the same; names may stand in another order."""
    assert first.metrics == other.metrics
    for each in fields(VerdictTable):
        one, two = getattr(first, each.name), getattr(other, each.name)
        if each.name in NAMED:
            assert [first.names[code] for code in one] == [other.names[code] for code in two], each.name
        elif each.name not in ("metrics", "names"):
            np.testing.assert_array_equal(one, two, err_msg=each.name)
