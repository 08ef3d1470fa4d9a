from typing import Any

from judge_eval import Evaluator, FakeBackend, Trace
from judge_eval.metrics import parse_metric
from judge_eval.runs.folder.records import Aggregate, Intervals
from judge_eval.runs.scoring.aggregate import FilledColumn, aggregate
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.views.run_remarks import remarks_of


def of_known(values: list[float], **options: Any) -> Aggregate:
    """Aggregate values of which none is open."""
    return aggregate(values, FilledColumn.of(values, values, values), **options)


def test_an_interval_ends_where_the_metric_ends() -> None:
    """Student's interval of few values may leave [0, 1]; what is shown does not, and the mean stays."""
    plain = of_known([0.0, 1.0, 1.0])
    assert plain.interval is not None
    assert plain.interval[0] < 0
    assert plain.interval[1] > 1
    limits, tags = parse_metric("AP@5").limits, [["a"], ["a"], []]
    always_t = Intervals(method="t")
    ended = of_known([0.0, 1.0, 1.0], limits=limits, tags=tags, intervals=always_t)
    assert ended.interval == (0.0, 1.0)
    assert ended.mean == plain.mean
    suited = of_known([0.0, 1.0, 1.0], limits=limits, tags=tags)
    assert suited.method == "blaker"
    assert suited.interval is not None
    assert 0.0 < suited.interval[0] < suited.interval[1] < 1.0
    assert suited.tags["a"].interval is not None
    assert suited.tags["a"].interval[1] - suited.tags["a"].interval[0] > 0.5


def test_a_metric_without_a_greatest_value_ends_at_zero_alone() -> None:
    """DCG has no greatest value: only the lower end is cut."""
    result = of_known([0.0, 9.0, 9.0], limits=parse_metric("DCG@5").limits)
    free = of_known([0.0, 9.0, 9.0])
    assert result.interval is not None
    assert free.interval is not None
    assert result.interval == (0.0, free.interval[1])


def test_a_judge_that_finds_more_than_is_said_to_exist_is_named() -> None:
    """Traces with more relevant verdicts than `relevant_total` are counted, named, and leave no range."""
    traces = [
        Trace.parse(
            {
                "id": f"t{k}",
                "query": f"question {k}",
                "reference": "r",
                "relevant_total": 1,
                "chunks": [{"id": f"c{j}", "text": f"text {k} {j}"} for j in range(3)],
            }
        )
        for k in range(8)
    ]
    table = {(f"t{k}", f"c{j}"): int(k < 7 or j == 0) for k in range(8) for j in range(3)}
    names = ["map", "Recall", "set_F", "AP(norm=total)"]
    with Evaluator(FakeBackend.table(table), metrics=names, cache=False) as evaluator:
        run = evaluator.evaluate(traces)
    tally = run.manifest.tally
    assert (tally.beyond_total, tally.beyond) == (7, ("t0", "t1", "t2", "t3", "t4"))
    for name in names:
        assert run[name] == (0.9375 if name == "set_F" else 1.0)
        interval = run.aggregate(name).interval
        assert interval is not None
        assert 0 <= interval[0] <= interval[1] <= 1
    message = "7 traces have more relevant verdicts than relevant_total says (t0, t1, t2, t3, t4, ...)"
    assert f"{message}; those found are counted" in [remark.text for remark in remarks_of(run.manifest)]
    assert rescore(run, ["P@3"]).manifest.tally.beyond_total == 7
