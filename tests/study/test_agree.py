from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from judge_eval import Evaluator, Trace
from judge_eval.data.labels import Labels, read_labels
from judge_eval.errors import DataError, RefusedError
from judge_eval.metrics.metric import SPECS
from judge_eval.record import KEPT
from judge_eval.stats import agreement_figures, cohen_kappa
from judge_eval.study.agree import agree, agree_all
from judge_eval.study.calibrate import calibrate
from judge_eval.study.matching import labels_of
from judge_eval.study.systems import rank_systems
from tests.support.notes import note_sentences
from tests.support.verdicts import judged, traces_of

FIXTURES = Path(__file__).parents[2] / "fixtures"
NAMES = [f"t{k:02d}" for k in range(16)]
TEXTS = dict.fromkeys(NAMES, "abcd")


def drawn(seed: int, top: int = 1) -> dict[tuple[str, str], int]:
    """Draw a grade for every chunk."""
    rng = np.random.default_rng(seed)
    return {(n, c): int(rng.integers(top + 1)) for n in NAMES for c in "abcd"}


def test_labels_of_the_dataset_are_used_without_a_file() -> None:
    """The figures are those of `agreement_figures` on verdicts and the dataset's labels."""
    with Evaluator("fake/overlap", cache=False) as evaluator:
        run = evaluator.evaluate(FIXTURES / "docs_qa.jsonl")
    output = agree(run, labels_of(run))
    both = [(r, o, c) for r in run.results for o, c in zip(r.outcomes, r.trace.chunks, strict=True)]
    both = [row for row in both if row[1].kind == "verdict"]
    judge = [outcome.grade for _, outcome, _ in both if outcome.kind == "verdict"]
    human = [chunk.label for _, _, chunk in both]
    traces = [result.trace_id for result, _, _ in both]
    expected = agreement_figures(judge, np.array(human, dtype=float), traces, categories=[0, 1])
    assert output.figures["kappa"].value == expected["kappa"].value
    interval = expected["kappa"].interval
    assert interval is not None
    assert output.figures["kappa"].interval == (interval.low, interval.high)
    assert output.n == len(judge)
    assert sum(map(sum, output.confusion)) == len(judge)
    assert output.worst[0].distance >= output.worst[-1].distance > 0


def test_the_traces_that_differ_come_worst_first() -> None:
    """They come by distance, then by how many grades differ; those that agree throughout do not come."""
    judge = {"a": (3, 0), "b": (3, 1), "c": (2, 2), "d": (0, 1)}
    human = {"a": (0, 0), "b": (3, 1), "c": (1, 1), "d": (1, 1)}
    verdicts, labels = (
        {(t, c): grade for t, row in table.items() for c, grade in zip("xy", row, strict=True)}
        for table in (judge, human)
    )
    run = judged(traces_of(dict.fromkeys(judge, "xy")), verdicts, prompt="support/graded")
    result = agree(run, Labels(labels))
    assert [(d.trace_id, d.distance, d.bias, d.unequal, d.n) for d in result.worst] == [
        ("a", 1.5, 1.5, 1, 2),
        ("c", 1.0, 1.0, 2, 2),
        ("d", 0.5, -0.5, 1, 2),
    ]


def test_jsonl_csv_and_qrels_hold_the_same_labels(tmp_path: Path) -> None:
    """Every format reads to the same labels; empty ones and negative grades are none."""
    grades = {("t1", "a"): 1, ("t1", "b"): 0, ("t2", "a"): 1}
    files = {
        "rows.jsonl": "\n".join(
            json.dumps({"trace_id": t, "chunk_id": c, "label": g})
            for (t, c), g in [*grades.items(), (("t3", "a"), None)]
        ),
        "traces.jsonl": json.dumps(
            {"id": "t1", "query": "q", "chunks": [{"id": "a", "label": 1}, {"id": "b", "label": 0}]}
        )
        + "\n"
        + json.dumps({"id": "t2", "chunks": [{"id": "a", "label": 1}, {"id": "b"}]}),
        "labels.csv": '\ufefftrace_id,chunk_id,text,label\nt1,a,x,1\nt1,b,"y, z",0\nt2,a,x,1\nt3,a,x,\n',
        "qrels.txt": "t1 0 a 1\nt1 0 b 0\nt2 0 a 1\nt3 0 a -1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_labels(tmp_path / name).grades == grades, name


def test_negative_grades_are_counted_or_refused(tmp_path: Path) -> None:
    """In qrels a negative grade is trec_eval's "in the pool, unjudged" and counted; elsewhere a fault."""
    (tmp_path / "q").write_text("t00 0 a 1\nt00 0 b -1\nt00 0 c -2\nt01 0 a 0\n")
    labels = read_labels(tmp_path / "q")
    assert (labels.grades, labels.unjudged) == ({("t00", "a"): 1, ("t01", "a"): 0}, 2)
    result = agree(judged(traces_of(TEXTS), {}), labels)
    assert result.n == 2
    assert note_sentences(result.notes) == ("2 judgments below 0 are not labels: in the pool, but not judged",)
    data = {"query": "q", "chunks": [{"text": "x", "label": -1}]}
    with pytest.raises(DataError, match=r"chunks\[0\].label: .*-1 is not a label"):
        Trace.parse(data)
    kept = Trace.model_validate(data, context=KEPT)
    assert kept.chunks[0].label == -1


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("a.jsonl", '{"trace_id": "t", "chunk_id": "c", "label": "maybe"}', "a.jsonl:1: label"),
        ("a.jsonl", '{"trace_id": "t", "label": 1}', "a.jsonl:1: chunk_id"),
        ("a.jsonl", "nonsense", "a.jsonl:1: not JSON"),
        ("a.csv", "trace_id,chunk_id,label\nt,c,1\nt,c,0\n", "a.csv:3: chunk 'c' of trace 't' is labelled 1 and 0"),
        ("a.csv", "trace_id,chunk_id,label\nt,c,-1\n", "a.csv:2: label"),
        ("a.csv", "trace_id,chunk_id,label\nt,c,\n", "holds no label"),
        ("a.csv", "trace_id,chunk_id,label,probability\nt,c,1,2\n", "a.csv:2: probability"),
        ("a.qrels", "t 0 c yes\n", "a.qrels:1: grade"),
    ],
)
def test_unreadable_labels_are_refused_with_their_place(tmp_path: Path, name: str, text: str, where: str) -> None:
    """A label is never guessed; file, line and field are named."""
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=where):
        read_labels(tmp_path / name)


def test_failed_verdicts_are_counted_and_in_no_figure() -> None:
    """A labelled chunk without a verdict is no disagreement: it is counted apart."""
    grades = drawn(1)
    run = judged(traces_of(TEXTS), {**grades, ("t00", "a"): RefusedError("no")})
    result = agree(run, Labels(dict(grades), sources=("here",)))
    assert (result.failed, result.n) == (1, 63)
    assert result.figures["accuracy"].value == 1.0


def test_judges_are_measured_against_each_other() -> None:
    """The second run's verdicts take the labels' place; kappa is symmetric."""
    first, two = judged(traces_of(TEXTS), drawn(1)), judged(traces_of(TEXTS), drawn(2))
    there, back = agree(first, two), agree(two, first)
    expected = cohen_kappa(list(drawn(1).values()), list(drawn(2).values()))
    assert there.figures["kappa"].value == pytest.approx(expected)
    assert there.figures["kappa"].value == pytest.approx(back.figures["kappa"].value)
    assert there.figures["bias"].value == pytest.approx(-(back.figures["bias"].value or 0))


def test_binary_and_graded_are_brought_to_one_scale() -> None:
    """A binary judge against graded labels: the labels are made binary at 2, and a note says so."""
    labels = Labels(drawn(3, 3), sources=("here",))
    run = judged(traces_of(TEXTS), {key: int(grade >= 2) for key, grade in labels.grades.items()})
    result = agree(run, labels)
    assert result.figures["kappa"].value == 1.0
    assert "labels were converted to binary: relevant from 2" in note_sentences(result.notes)[0]
    assert agree(run, labels, threshold=3).figures["kappa"].value != 1.0


def test_many_judges_have_one_alpha() -> None:
    """Alpha of three equal judges is 1, and an odd one lowers it; labels can be a rater more."""
    same = [judged(traces_of(TEXTS), drawn(1)) for _ in range(3)]
    assert agree_all(same)["alpha_nominal"].value == 1.0
    odd = agree_all([*same[:2], judged(traces_of(TEXTS), drawn(9))], Labels(drawn(1)))
    value = odd["alpha_nominal"].value
    assert value is not None
    assert 0 < value < 1


def test_systems_are_ranked_by_judge_and_labels() -> None:
    """A perfect judge ranks systems as the labels do; an inverted one the other way round."""
    orders = {"best": "abcd", "middle": "bacd", "worst": "dcba"}
    truth = {c: int(c == "a") for c in "abcd"}
    labels = Labels({(n, c): g for n in NAMES for c, g in truth.items()})
    for sign, tau in ((1, 1.0), (-1, -1.0)):
        grades = truth if sign > 0 else {c: 1 - g for c, g in truth.items()}
        runs = [judged(traces_of(dict.fromkeys(NAMES, o)), grades, label=s) for s, o in orders.items()]
        result = rank_systems(runs, labels, "AP@4")
        assert result.figures["tau_b"].value == tau
        assert result.systems == tuple(orders)
        assert result.traces == len(NAMES)
        assert {(figure.n, figure.traces) for figure in result.figures.values()} == {(3, len(NAMES))}


def test_systems_are_ranked_best_first_where_less_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures that weigh the top of a ranking are those of the same ranking by what is more of the good."""
    orders = {"best": "abcd", "second": "bacd", "third": "bcad", "worst": "bcda"}
    truth = {c: int(c == "a") for c in "abcd"}
    labels = Labels({(n, c): g for n in NAMES for c, g in truth.items()})
    odd = {"a": 1, "b": 1, "c": 0, "d": 0}
    runs = [judged(traces_of(dict.fromkeys(NAMES, o)), odd, label=s) for s, o in orders.items()]
    more = rank_systems(runs, labels, "AP@4")
    ap = SPECS["rag", "AP"]
    noise = replace(ap, name="Noise", compute=lambda *a, **b: 1 - ap.compute(*a, **b), less_is_better=True)
    monkeypatch.setitem(SPECS, ("rag", "Noise"), noise)  # type: ignore[arg-type]
    less = rank_systems(runs, labels, "Noise@4")
    assert less.judge == pytest.approx([1 - value for value in more.judge])
    assert more.figures["tau_ap"].value not in (None, 1.0, -1.0)
    assert {k: f.value for k, f in less.figures.items()} == {k: f.value for k, f in more.figures.items()}


def test_a_threshold_is_measured_on_other_traces_than_it_was_chosen_on() -> None:
    """Calibration splits by trace, finds the threshold labels were made with, and maps grades upward."""
    with Evaluator("fake/overlap", prompt="support/graded", cache=False) as evaluator:
        run = evaluator.evaluate(FIXTURES / "docs_qa_graded.jsonl")
    grades = {(r.trace_id, o.chunk_id): o.grade for r in run.results for o in r.outcomes if o.kind == "verdict"}
    result = calibrate(run, Labels({key: int(grade >= 1) for key, grade in grades.items()}))
    assert result.threshold == 1
    assert result.current == 2
    assert result.figures["kappa"].value == 1.0
    assert result.fitted_traces + result.held_out_traces == len({t for t, _ in grades})
    assert list(result.relevance.values()) == sorted(result.relevance.values())
