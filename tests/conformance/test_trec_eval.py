from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval.data.collection import read_qrels, read_run
from judge_eval.errors import UnknownNameError
from judge_eval.metrics import GradeTable, Metric, parse_metric

CASES = [
    # version, expected, qrels, run, relevant (-l), complete (-c)
    ("v10", "out.test", "qrels.test", "results.test", 1, False),
    ("v10", "out.comment.test", "qrels.comment.test", "results.comment.test", 1, False),
    ("v10", "out.test.a", "qrels.test", "results.test", 1, False),
    ("v10", "out.test.aq", "qrels.test", "results.test", 1, False),
    ("v10", "out.test.aqc", "qrels.test", "results.trunc", 1, True),
    ("v10", "out.test.aql", "qrels.rel_level", "results.test", 2, False),
    ("v9.0.8", "out.test", "qrels.test", "results.test", 1, False),
    ("v9.0.8", "out.test.a", "qrels.test", "results.test", 1, False),
    ("v9.0.8", "out.test.aq", "qrels.test", "results.test", 1, False),
    ("v9.0.8", "out.test.aqc", "qrels.test", "results.trunc", 1, True),
    ("v9.0.8", "out.test.aql", "qrels.rel_level", "results.test", 2, False),
]
OTHER_NAMES = {
    "runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "gm_map", "gm_bpref", "utility", "11pt_avg",
    "binG", "G", "ndcg_rel", "Rndcg", "num_nonrel_judged_ret", "rbp", "rbp_resid",
}  # fmt: skip
OTHER_PREFIXES = ("iprec_at_recall_", "Rprec_mult_", "unj_", "relstring")


def metric_of(name: str) -> Metric | None:
    """The metric of that name, None for a measure that is not offered."""
    try:
        return parse_metric(name)
    except UnknownNameError:
        assert name in OTHER_NAMES or name.startswith(OTHER_PREFIXES), f"{name} should be offered"
        return None


@pytest.mark.parametrize(("version", "expected", "qrels", "run", "relevant", "complete"), CASES)
def test_equals_trec_evals_own_output(
    conformance_data: Path, version: str, expected: str, qrels: str, run: str, relevant: int, complete: bool
) -> None:
    """Every measure that is offered prints as trec_eval prints it, per query and overall."""
    inputs = conformance_data / "trec_eval" / "v10"
    table = GradeTable.from_trec(
        read_qrels(inputs / qrels), read_run(inputs / run), relevant=relevant, complete=complete
    )
    assert table.ids is not None
    compared = set()
    for line in (conformance_data / "trec_eval" / version / expected).read_text().splitlines():
        name, query, printed = line.split(None, 2)
        metric = metric_of(name)
        if metric is None:
            continue
        values = metric.compute(table)
        value = values.mean() if query == "all" else values[list(table.ids).index(query)]
        assert f"{value:.4f}" == printed, f"{name} of {query}"
        compared.add(name)
    assert len(compared) >= (13 if expected in ("out.test", "out.comment.test") else 58)
