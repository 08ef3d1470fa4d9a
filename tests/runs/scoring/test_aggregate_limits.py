from judge_eval.metrics import parse_metric
from judge_eval.runs.folder.records import Intervals
from judge_eval.runs.scoring.aggregate import aggregate


def test_an_interval_ends_where_the_metric_ends() -> None:
    """Student's interval of few values may leave [0, 1]; what is shown does not, and the mean stays."""
    plain = aggregate([0.0, 1.0, 1.0], {})
    assert plain.interval is not None
    assert plain.interval[0] < 0
    assert plain.interval[1] > 1
    limits, tags = parse_metric("AP@5").limits, [["a"], ["a"], []]
    always_t = Intervals(method="t")
    ended = aggregate([0.0, 1.0, 1.0], {}, limits=limits, tags=tags, intervals=always_t)
    assert ended.interval == (0.0, 1.0)
    assert ended.mean == plain.mean
    suited = aggregate([0.0, 1.0, 1.0], {}, limits=limits, tags=tags)
    assert suited.method == "wilson"
    assert suited.interval is not None
    assert 0.0 < suited.interval[0] < suited.interval[1] < 1.0
    assert suited.tags["a"].interval is not None
    assert suited.tags["a"].interval[1] - suited.tags["a"].interval[0] > 0.5


def test_a_metric_without_a_greatest_value_ends_at_zero_alone() -> None:
    """DCG has no greatest value: only the lower end is cut."""
    told = aggregate([0.0, 9.0, 9.0], {}, limits=parse_metric("DCG@5").limits)
    free = aggregate([0.0, 9.0, 9.0], {})
    assert told.interval is not None
    assert free.interval is not None
    assert told.interval == (0.0, free.interval[1])
